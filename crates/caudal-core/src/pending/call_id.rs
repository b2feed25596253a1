//! Ids of outgoing calls: integers that count up, or UUIDs.

use std::fmt;

use super::uuid::Uuid;
use crate::decode::Id;
use crate::encode::{put_plain, sealed};
use crate::policy::OldResponses;
use crate::request_id::RequestId;

/// Format of the ids of outgoing calls, chosen once per connection.
///
/// ```
/// use caudal_core::IdFormat;
///
/// assert_eq!(IdFormat::default(), IdFormat::Integer);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdFormat {
    /// Integers that count up from 1, unique within the connection.
    #[default]
    Integer,
    /// UUIDs (version 4) as strings, unique everywhere.
    Uuid,
}

/// Id of an outgoing call.
///
/// `Display` writes it as JSON, as it is sent.
///
/// ```
/// use caudal_core::{IdFormat, Pending};
///
/// let mut pending = Pending::new(8, IdFormat::Integer);
/// assert_eq!(pending.insert((), None)?.to_string(), "1");
/// # Ok::<(), caudal_core::CallError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(Repr);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    Integer(i64),
    Uuid(Uuid),
}

impl CallId {
    pub(super) const fn integer(number: i64) -> Self {
        Self(Repr::Integer(number))
    }

    pub(super) fn random_uuid() -> Self {
        Self(Repr::Uuid(Uuid::random()))
    }

    /// Reads the id of a response; `None` if no call of this format can have it.
    pub(super) fn of_response(id: Id<'_>, format: IdFormat, old: OldResponses) -> Option<Self> {
        let value = match format {
            IdFormat::Integer => Repr::Integer(id.call_number(old)?),
            IdFormat::Uuid => Repr::Uuid(Uuid::parse(&id.as_string()?)?),
        };
        Some(Self(value))
    }

    /// Converts to the owned id.
    ///
    /// ```
    /// # use caudal_core::{IdFormat, Pending, RequestId};
    /// let mut pending = Pending::new(8, IdFormat::Integer);
    /// assert_eq!(pending.insert((), None)?.to_request_id(), RequestId::from(1));
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    #[must_use]
    pub fn to_request_id(self) -> RequestId {
        match self.0 {
            Repr::Integer(number) => RequestId::Number(number),
            Repr::Uuid(uuid) => RequestId::String(uuid.to_string()),
        }
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Repr::Integer(number) => write!(f, "{number}"),
            Repr::Uuid(uuid) => write!(f, "\"{uuid}\""),
        }
    }
}

impl sealed::WireId for CallId {
    fn write_to<B: sealed::Output>(&self, out: &mut B) {
        match self.0 {
            Repr::Integer(number) => put_plain(out, &number),
            Repr::Uuid(uuid) => put_plain(out, &format_args!("{uuid}")),
        }
    }
}
