//! Members of an object by presence: null is not absent, and no name appears twice.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::version::Version;
use crate::decode::{DecodeError, Found, Member, is_blank};
use crate::request_id::RequestId;

/// Members that were found, each once.
#[derive(Debug, Default)]
struct Members(Vec<(Member, Value)>);

impl Members {
    fn take(&mut self, member: Member) -> Option<Value> {
        let index = self.0.iter().position(|(found, _)| *found == member)?;
        Some(self.0.swap_remove(index).1)
    }
}

/// Reads the known members of an object and skips the others.
struct Object {
    expecting: &'static str,
    known: fn(&[u8]) -> Option<Member>,
}

impl<'de> Visitor<'de> for Object {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Members::default();
        while let Some(name) = map.next_key::<String>()? {
            let Some(member) = (self.known)(name.as_bytes()) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if members.0.iter().any(|(found, _)| *found == member) {
                return Err(A::Error::custom(DecodeError::Duplicate { member }));
            }
            members.0.push((member, map.next_value()?));
        }
        Ok(members)
    }
}

/// Members of a message.
#[derive(Debug)]
pub(crate) struct EnvelopeMembers(Members);

impl<'de> Deserialize<'de> for EnvelopeMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Object {
            expecting: "a message object",
            known: Member::of_envelope,
        };
        deserializer.deserialize_map(object).map(Self)
    }
}

impl EnvelopeMembers {
    pub(super) fn take(&mut self, member: Member) -> Option<Value> {
        self.0.take(member)
    }

    /// Takes the member; fails if it is missing.
    pub(super) fn require(&mut self, member: Member) -> Result<Value, DecodeError> {
        self.take(member).ok_or(DecodeError::Missing { member })
    }

    /// Fails if the message has a member that its kind must not have.
    pub(super) fn forbid(&mut self, kind: &'static str, member: Member) -> Result<(), DecodeError> {
        match self.take(member) {
            Some(_) => Err(DecodeError::Forbidden { kind, member }),
            None => Ok(()),
        }
    }

    pub(super) fn version(&mut self) -> Result<Version, DecodeError> {
        Version::try_from(&self.require(Member::Version)?)
    }

    /// Takes the id, which is required; null is `None`.
    pub(super) fn id(&mut self) -> Result<Option<RequestId>, DecodeError> {
        match self.require(Member::Id)? {
            Value::Null => Ok(None),
            id => RequestId::try_from(id).map(Some),
        }
    }

    pub(super) fn method(&mut self) -> Result<String, DecodeError> {
        let method = Member::Method.string(self.require(Member::Method)?)?;
        if is_blank(&method) {
            return Err(DecodeError::BlankMethod);
        }
        Ok(method)
    }

    /// Takes the params; null counts as none.
    pub(super) fn params(&mut self) -> Option<Value> {
        self.take(Member::Params).filter(|params| !params.is_null())
    }
}

/// Members of an error object.
#[derive(Debug)]
pub(crate) struct ErrorMembers {
    pub(crate) code: Option<Value>,
    pub(crate) message: Option<Value>,
    pub(crate) data: Option<Value>,
}

impl<'de> Deserialize<'de> for ErrorMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Object {
            expecting: "an error object",
            known: Member::of_error,
        };
        let mut members = deserializer.deserialize_map(object)?;
        Ok(Self {
            code: members.take(Member::Code),
            message: members.take(Member::Message),
            data: members.take(Member::Data),
        })
    }
}

impl Member {
    /// Returns the string that this member must be.
    pub(crate) fn string(self, value: Value) -> Result<String, DecodeError> {
        match value {
            Value::String(string) => Ok(string),
            other => Err(DecodeError::WrongType {
                member: self,
                expected: "a string",
                found: Found::value(&other),
            }),
        }
    }
}
