//! What is sent and what must come back.
//!
//! Every call is the same text but for six digits, which are both its id and
//! the first of the two numbers to add: writing it is a copy and a patch, and
//! each reply can be checked on its own, in whatever order replies come.

use std::str::FromStr;

use caudal_bench::order;
use serde_json::Value;

use crate::Problem;
use crate::frames::Framing;

/// The ids go round, all of six digits; what is in flight must stay far below.
pub(crate) const IDS: u64 = 900_000;
const FIRST: u64 = 100_000;
pub(crate) const MOST_IN_FLIGHT: u64 = 100_000;

/// How many calls a batch has.
const BATCH: usize = 100;

/// How the servers want to be greeted and called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Plain,
    Lsp,
    Mcp,
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(Self::Plain),
            "lsp" => Ok(Self::Lsp),
            "mcp" => Ok(Self::Mcp),
            other => Err(format!("no dialect `{other}`")),
        }
    }
}

/// What the closed loop calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Add,
    /// The order of the tables in memory: the server has more to do than we.
    Place,
    /// A hundred `add` in one message, which counts as one call.
    Batch,
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "add" => Ok(Self::Add),
            "place" => Ok(Self::Place),
            "batch" => Ok(Self::Batch),
            other => Err(format!("no call `{other}`")),
        }
    }
}

impl Dialect {
    /// What must be sent before the first call, and what once that has been
    /// answered.
    pub(crate) fn greeting(self) -> Option<[&'static str; 2]> {
        match self {
            Self::Plain => None,
            Self::Lsp => Some([
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}"#,
                r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#,
            ]),
            Self::Mcp => Some([
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"load","version":"0"}}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            ]),
        }
    }

    fn add(self) -> &'static str {
        match self {
            Self::Plain | Self::Lsp => {
                r#"{"jsonrpc":"2.0","id":100000,"method":"add","params":[100000,7]}"#
            }
            Self::Mcp => {
                r#"{"jsonrpc":"2.0","id":100000,"method":"tools/call","params":{"name":"add","arguments":{"a":100000,"b":7}}}"#
            }
        }
    }

    /// Whether `reply` is the right one for its id.
    pub(crate) fn check(self, reply: &[u8]) -> Result<(), Problem> {
        let wrong = || format!("wrong reply: {}", String::from_utf8_lossy(reply));
        let reply: Value = serde_json::from_slice(reply).map_err(|_| wrong())?;
        if let Value::Array(replies) = &reply {
            let right = |reply: &Value| {
                let id = reply["id"].as_u64();
                id.is_some() && reply["result"].as_u64() == id.map(|id| id + 7)
            };
            return match replies.len() == BATCH && replies.iter().all(right) {
                true => Ok(()),
                false => Err(wrong().into()),
            };
        }
        let id = reply["id"].as_u64().ok_or_else(wrong)?;
        let right = match self {
            Self::Mcp => {
                let text = reply["result"]["content"][0]["text"].as_str();
                text.and_then(|text| text.parse().ok()) == Some(id + 7)
            }
            // The open loop has a second method, whose result is its params; a
            // third answers with the receipt of an order.
            _ => {
                let result = &reply["result"];
                result == &Value::from(id + 7)
                    || result[0] == padding()
                    || result["units"] == order::place(&order::sample(0)).units
            }
        };
        match right && (FIRST..FIRST + IDS).contains(&id) {
            true => Ok(()),
            false => Err(wrong().into()),
        }
    }
}

/// An `echo` of about 1 KB.
fn echo() -> String {
    let padding = padding();
    format!(r#"{{"jsonrpc":"2.0","id":100000,"method":"echo","params":["{padding}"]}}"#)
}

fn padding() -> String {
    "caudal ".repeat(128)
}

/// A call whose id can be changed.
#[derive(Debug)]
pub(crate) struct Call {
    frame: Vec<u8>,
    /// Where the six digits are, and what each is masked with.
    spots: Vec<(usize, [u8; 6])>,
}

impl Call {
    pub(crate) fn add(dialect: Dialect, framing: Framing) -> Self {
        Self::new(dialect.add(), framing)
    }

    pub(crate) fn place(framing: Framing) -> Self {
        let order = serde_json::to_string(&order::sample(0)).expect("plain data serialises");
        let text = format!(r#"{{"jsonrpc":"2.0","id":100000,"method":"place","params":{order}}}"#);
        Self::new(&text, framing)
    }

    /// The ids stay: a batch is answered before the next is sent.
    pub(crate) fn batch(framing: Framing) -> Self {
        let calls: Vec<String> = (1..=BATCH)
            .map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"add","params":[{id},7]}}"#))
            .collect();
        Self::new(&format!("[{}]", calls.join(",")), framing)
    }

    pub(crate) fn of(work: Work, dialect: Dialect, framing: Framing) -> Self {
        match work {
            Work::Add => Self::add(dialect, framing),
            Work::Place => Self::place(framing),
            Work::Batch => Self::batch(framing),
        }
    }

    pub(crate) fn echo(framing: Framing) -> Self {
        Self::new(&echo(), framing)
    }

    fn new(text: &str, framing: Framing) -> Self {
        let frame = framing.frame(text);
        let digits = FIRST.to_string();
        let start = framing.start(frame.len(), text);
        let places = memchr::memmem::find_iter(text.as_bytes(), digits.as_bytes());
        let spot = |place| {
            let mask = std::array::from_fn(|digit| framing.key(place + digit));
            (start + place, mask)
        };
        let spots = places.map(spot).collect();
        Self { frame, spots }
    }

    pub(crate) fn len(&self) -> usize {
        self.frame.len()
    }

    /// Appends the call with the id of `number`.
    pub(crate) fn append(&mut self, number: u64, out: &mut Vec<u8>) {
        let mut rest = FIRST + number % IDS;
        let mut digits = [0; 6];
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        for (spot, mask) in &self.spots {
            let masked: [u8; 6] = std::array::from_fn(|digit| digits[digit] ^ mask[digit]);
            self.frame[*spot..spot + 6].copy_from_slice(&masked);
        }
        out.extend_from_slice(&self.frame);
    }
}

/// The number that was given to `append`, modulo `IDS`, from a reply.
pub(crate) fn number_of(reply: &[u8]) -> Option<u64> {
    let id = memchr::memmem::find(reply, br#""id":"#)? + 5;
    let digits = std::str::from_utf8(reply.get(id..id + 6)?).ok()?;
    digits.parse::<u64>().ok()?.checked_sub(FIRST)
}

#[cfg(test)]
mod tests {
    use super::{Call, Dialect, Framing, number_of};

    #[test]
    fn a_call_carries_its_number() {
        let mut call = Call::add(Dialect::Plain, Framing::Line);
        let mut out = Vec::new();
        call.append(23, &mut out);
        let text = r#"{"jsonrpc":"2.0","id":100023,"method":"add","params":[100023,7]}"#;
        assert_eq!(out, format!("{text}\n").as_bytes());
        assert_eq!(number_of(&out), Some(23));
    }

    #[test]
    fn a_number_is_masked_with_the_rest() {
        let mut call = Call::add(Dialect::Plain, Framing::WebSocket);
        let mut out = Vec::new();
        call.append(23, &mut out);
        let text = r#"{"jsonrpc":"2.0","id":100023,"method":"add","params":[100023,7]}"#;
        assert_eq!(out, Framing::WebSocket.frame(text));
    }

    #[test]
    fn only_the_right_sum_is_right() {
        let check = |text: &str| Dialect::Plain.check(text.as_bytes()).is_ok();
        assert!(check(r#"{"jsonrpc":"2.0","id":100023,"result":100030}"#));
        assert!(!check(r#"{"jsonrpc":"2.0","id":100023,"result":100031}"#));
        assert!(!check(
            r#"{"jsonrpc":"2.0","id":100023,"error":{"code":1}}"#
        ));
    }
}
