//! The rules once more, as plainly as they can be written: `serde_json` reads
//! the text into a tree, and the rules are applied to the tree. Slow, simple,
//! and written without a look at the decoder.

use std::fmt;

use caudal_core::{ExtraMembers, IdFormat, NullId, OldResponses, Policy, ScalarParams};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON value with every member it has, also those that stand twice.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Null,
    Bool(bool),
    Number(f64),
    String(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// Meaning of a text by the rules.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The id is its text, here and below.
    Request(String, String, Option<Node>),
    Notification(String, Option<Node>),
    Success(String, Node),
    Failure(String, i64, String, Option<Node>),
    Batch(Vec<Self>),
    Invalid {
        code: i64,
        id: String,
        wants_answer: bool,
        field: Option<&'static str>,
    },
}

/// The verdict on a whole message.
pub fn judge(bytes: &[u8], policy: &Policy) -> Verdict {
    if bytes.len() > policy.max_message {
        return invalid(-32600, None);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return invalid(-32700, None);
    };
    if parse(text).is_none() {
        return invalid(-32700, None);
    }
    if !text.trim_start().starts_with('[') {
        return judge_entry(text, 0, policy);
    }
    let entries: Vec<Box<RawValue>> = serde_json::from_str(text).expect("an array");
    if entries.is_empty() || entries.len() > policy.max_batch {
        return invalid(-32600, None);
    }
    let judged = entries.iter().map(|e| judge_entry(e.get(), 1, policy));
    Verdict::Batch(judged.collect())
}

/// Reads a text as `serde_json` does, with numbers cut to a size it can hold.
pub fn parse(text: &str) -> Option<Node> {
    let tamed = tame(text);
    let mut deserializer = serde_json::Deserializer::from_str(&tamed);
    deserializer.disable_recursion_limit();
    let tree = Node::deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(tree)
}

/// Shortens digits and exponents outside strings: `serde_json` refuses what
/// does not fit `f64`, and the rules do not.
fn tame(text: &str) -> String {
    let mut out = String::new();
    let (mut in_string, mut escaped, mut digits, mut exponent) = (false, false, 0, false);
    for c in text.chars() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            out.push(c);
            continue;
        }
        if c.is_ascii_digit() {
            digits += 1;
            if digits <= if exponent { 1 } else { 17 } {
                out.push(if exponent { '0' } else { c });
            }
            continue;
        }
        let signed = exponent && digits == 0 && matches!(c, '+' | '-');
        exponent = signed || (digits > 0 && matches!(c, 'e' | 'E'));
        digits = 0;
        in_string = c == '"';
        out.push(c);
    }
    out
}

fn invalid(code: i64, field: Option<&'static str>) -> Verdict {
    Verdict::Invalid {
        code,
        id: "null".to_owned(),
        wants_answer: true,
        field,
    }
}

/// The members of an object, in order, each with its own text.
struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    fn of(text: &str) -> Option<Self> {
        let object = text.trim_start().starts_with('{');
        object.then(|| serde_json::from_str(text).expect("an object"))
    }

    fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|(n, _)| n == name).count()
    }

    /// The text of the last member with that name.
    fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rfind(|(n, _)| n == name);
        found.map(|(_, raw)| raw.get())
    }

    fn value(&self, name: &str) -> Option<Node> {
        self.text(name)
            .map(|text| parse(text).expect("valid as part of a valid text"))
    }

    fn has_other_than(&self, known: &[&str]) -> bool {
        self.0.iter().any(|(n, _)| !known.contains(&n.as_str()))
    }

    /// The first of `names` that stands twice, by the order of second places.
    fn repeated(&self, names: &[&'static str]) -> Option<&'static str> {
        let mut seen = Vec::new();
        for (name, _) in &self.0 {
            if let Some(known) = names.iter().find(|known| *known == name) {
                if seen.contains(known) {
                    return Some(known);
                }
                seen.push(*known);
            }
        }
        None
    }
}

fn judge_entry(entry: &str, around: usize, policy: &Policy) -> Verdict {
    let Some(members) = Members::of(entry) else {
        return invalid(-32600, None);
    };
    let (id, method) = (members.text("id"), members.value("method"));
    let (result, error) = (members.value("result"), members.text("error"));
    let answers = method.is_none() && (result.is_some() || error.is_some());
    let id_is_good = match (id, members.value("id")) {
        (None, _) | (_, Some(Node::Null)) => true,
        (Some(text), Some(Node::Number(_) | Node::String(_))) => text.len() <= policy.max_id,
        _ => false,
    };
    let echo = match id {
        Some(id) if members.count("id") == 1 && id_is_good => id.to_owned(),
        _ => "null".to_owned(),
    };
    let refuse = |code, field, notified: bool| Verdict::Invalid {
        code,
        id: echo.clone(),
        wants_answer: !(answers || notified && id.is_none()),
        field,
    };

    let names = ["jsonrpc", "id", "method", "params", "result", "error"];
    if let Some(name) = members.repeated(&names) {
        return refuse(-32600, Some(name), false);
    }
    if members.value("jsonrpc") != Some(Node::String("2.0".to_owned())) {
        return refuse(-32600, Some("jsonrpc"), false);
    }
    if !id_is_good {
        return refuse(-32600, Some("id"), false);
    }
    let strict = policy.extra_members == ExtraMembers::Reject;
    let too_deep = around + depth(&parse(entry).expect("valid")) > policy.max_depth;
    if answers {
        let Some(id) = id.map(str::to_owned) else {
            return refuse(-32600, Some("id"), false);
        };
        // A null says nothing where the other member stands beside it.
        let both = result.is_some() && error.is_some();
        let old = both && policy.old_responses == OldResponses::Accept;
        let error = error.filter(|error| !(old && *error == "null"));
        let result = result.filter(|result| !(old && *result == Node::Null && error.is_some()));
        let verdict = match (result, error) {
            (Some(_), Some(_)) => return refuse(-32600, None, false),
            (Some(result), _) => Verdict::Success(id, result),
            (_, error) => match judge_error(error.expect("one of the two")) {
                Ok((code, message, data)) => Verdict::Failure(id, code, message, data),
                Err(field) => return refuse(-32600, Some(field), false),
            },
        };
        let extra = members.has_other_than(&["jsonrpc", "id", "result", "error"]);
        if strict && extra || too_deep {
            return refuse(-32600, None, false);
        }
        return verdict;
    }
    if id == Some("null") && policy.null_id == NullId::Reject {
        return refuse(-32600, Some("id"), false);
    }
    let name = match method {
        Some(Node::String(name)) if !name.trim().is_empty() => name,
        _ => return refuse(-32600, Some("method"), false),
    };
    let params = members
        .value("params")
        .filter(|params| *params != Node::Null);
    let scalar = params
        .as_ref()
        .is_some_and(|p| !matches!(p, Node::Array(_) | Node::Object(_)));
    match policy.scalar_params {
        ScalarParams::InvalidParams if scalar => return refuse(-32602, Some("params"), true),
        ScalarParams::InvalidRequest if scalar => return refuse(-32600, Some("params"), true),
        _ => {}
    }
    let extra = members.has_other_than(&["jsonrpc", "id", "method", "params"]);
    if strict && extra || too_deep {
        return refuse(-32600, None, true);
    }
    match id {
        Some(id) => Verdict::Request(id.to_owned(), name, params),
        None => Verdict::Notification(name, params),
    }
}

/// Returns true if a response with the id `id` answers the call `own`, both as JSON text.
pub fn answers(own: &str, id: &str, format: IdFormat, old: OldResponses) -> bool {
    let string = match parse(id) {
        Some(Node::String(string)) => Some(string),
        _ => None,
    };
    match (format, string) {
        (IdFormat::Integer, Some(string)) => old == OldResponses::Accept && string == own,
        (IdFormat::Integer, None) => match id.split_once('.') {
            Some((whole, fraction)) => whole == own && fraction.trim_matches('0').is_empty(),
            None => id == own,
        },
        (_, string) => string.is_some_and(|s| format!("{s:?}").eq_ignore_ascii_case(own)),
    }
}

type ErrorParts = (i64, String, Option<Node>);

fn judge_error(error: &str) -> Result<ErrorParts, &'static str> {
    let members = Members::of(error).ok_or("error")?;
    if let Some(name) = members.repeated(&["code", "message", "data"]) {
        return Err(match name {
            "code" => "error.code",
            "message" => "error.message",
            _ => "error.data",
        });
    }
    let code = members.text("code").ok_or("error.code")?;
    let message = members.value("message").ok_or("error.message")?;
    let code = match code {
        "-0" => return Err("error.code"),
        digits => digits.parse().map_err(|_| "error.code")?,
    };
    let Node::String(message) = message else {
        return Err("error.message");
    };
    Ok((code, message, members.value("data")))
}

fn depth(node: &Node) -> usize {
    match node {
        Node::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Node::Object(members) => 1 + members.iter().map(|(_, v)| depth(v)).max().unwrap_or(0),
        _ => 0,
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tree;
        impl<'de> Visitor<'de> for Tree {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON")
            }
            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Number(value as f64))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Number(value as f64))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Number(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<Node, E> {
                Ok(Node::String(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Node::Array(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Node::Object(members))
            }
        }
        deserializer.deserialize_any(Tree)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}
