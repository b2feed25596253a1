//! Messages that are sent, and the replies that must come back.
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

/// Number of calls in a batch.
const BATCH: usize = 100;

/// Bytes of a whole message of `echo`.
const ECHO: usize = 1024;

/// Conventions of the servers for the handshake and for calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Plain,
    /// A method belongs to a service: `Bench.add`.
    Dotted,
    Lsp,
    Mcp,
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(Self::Plain),
            "dotted" => Ok(Self::Dotted),
            "lsp" => Ok(Self::Lsp),
            "mcp" => Ok(Self::Mcp),
            other => Err(format!("no dialect `{other}`")),
        }
    }
}

impl Dialect {
    /// What must be sent before the first call, and what once that has been
    /// answered.
    pub(crate) fn greeting(self) -> Option<[&'static str; 2]> {
        match self {
            Self::Plain | Self::Dotted => None,
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

    /// A call of `method` with the id that comes first.
    fn call(self, method: &str, params: &str) -> String {
        let service = match self {
            Self::Dotted => "Bench.",
            _ => "",
        };
        format!(
            r#"{{"jsonrpc":"2.0","id":{FIRST},"method":"{service}{method}","params":{params}}}"#
        )
    }
}

/// Kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Add,
    /// An `add` that takes 100 µs of processor time.
    Spin,
    /// The order of the tables in memory: the server has more to do than we.
    Place,
    /// A hundred `add` in one message, which counts as one call.
    Batch,
    /// A message of 1 KB, whose params come back.
    Echo,
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "add" => Ok(Self::Add),
            "spin" => Ok(Self::Spin),
            "place" => Ok(Self::Place),
            "batch" => Ok(Self::Batch),
            other => Err(format!("no call `{other}`")),
        }
    }
}

/// Kind of call, and its convention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) work: Work,
    pub(crate) dialect: Dialect,
}

impl Task {
    fn text(self) -> String {
        let Self { work, dialect } = self;
        match work {
            Work::Add | Work::Spin => {
                let method = if work == Work::Spin { "spin" } else { "add" };
                let mcp = format!(r#"{{"name":"{method}","arguments":{{"a":{FIRST},"b":7}}}}"#);
                match dialect {
                    Dialect::Mcp => dialect.call("tools/call", &mcp),
                    _ => dialect.call(method, &format!("[{FIRST},7]")),
                }
            }
            Work::Place => {
                let order = serde_json::to_string(&order::sample(0));
                dialect.call("place", &order.expect("plain data serialises"))
            }
            // The ids stay: a batch is answered before the next is sent.
            Work::Batch => {
                let first = FIRST.to_string();
                let add = Self {
                    work: Work::Add,
                    dialect,
                };
                let add = add.text();
                let calls = (1..=BATCH).map(|id| add.replace(&first, &id.to_string()));
                format!("[{}]", calls.collect::<Vec<_>>().join(","))
            }
            Work::Echo => dialect.call("echo", &format!(r#"["{}"]"#, self.padding())),
        }
    }

    /// Returns the text that makes an `echo` as long as it has to be.
    fn padding(self) -> String {
        let around = self.dialect.call("echo", r#"[""]"#).len();
        let length = ECHO - around;
        let mut padding = "caudal ".repeat(length.div_ceil(7));
        padding.truncate(length);
        padding
    }

    /// Fails unless `reply` is the right one for its id.
    pub(crate) fn check(self, reply: &[u8]) -> Result<(), Problem> {
        let shown = || String::from_utf8_lossy(&reply[..reply.len().min(1000)]);
        let wrong = || format!("wrong reply: {}", shown());
        let reply: Value = serde_json::from_slice(reply).map_err(|_| wrong())?;
        let id = reply["id"].as_u64();
        let result = &reply["result"];
        let sum = |id: Option<u64>| id.map(|id| id + 7);
        let right = match (self.work, self.dialect) {
            (Work::Batch, _) => reply.as_array().is_some_and(|replies| {
                let right = |reply: &Value| {
                    let id = reply["id"].as_u64();
                    id.is_some() && reply["result"].as_u64() == sum(id)
                };
                replies.len() == BATCH && replies.iter().all(right)
            }),
            (Work::Add, Dialect::Mcp) => {
                let text = result["content"][0]["text"].as_str();
                text.and_then(|text| text.parse().ok()) == sum(id)
            }
            (Work::Add | Work::Spin, _) => result.as_u64() == sum(id),
            (Work::Place, _) => result["units"] == order::place(&order::sample(0)).units,
            (Work::Echo, _) => result[0] == self.padding(),
        };
        let known = id.is_some_and(|id| (FIRST..FIRST + IDS).contains(&id));
        match right && (known || self.work == Work::Batch) {
            true => Ok(()),
            false => Err(wrong().into()),
        }
    }
}

/// A call whose id can be changed.
#[derive(Debug)]
pub(crate) struct Call {
    frame: Vec<u8>,
    /// Offsets of the six digits, and the mask of each.
    spots: Vec<(usize, [u8; 6])>,
}

impl Call {
    pub(crate) fn of(task: Task, framing: Framing) -> Self {
        Self::new(&task.text(), framing)
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
    use super::{Call, Dialect, Framing, Task, Work, number_of};

    const ADD: Task = Task {
        work: Work::Add,
        dialect: Dialect::Plain,
    };

    #[test]
    fn a_call_carries_its_number() {
        let mut call = Call::of(ADD, Framing::Line);
        let mut out = Vec::new();
        call.append(23, &mut out);
        let text = r#"{"jsonrpc":"2.0","id":100023,"method":"add","params":[100023,7]}"#;
        assert_eq!(out, format!("{text}\n").as_bytes());
        assert_eq!(number_of(&out), Some(23));
    }

    #[test]
    fn a_number_is_masked_with_the_rest() {
        let mut call = Call::of(ADD, Framing::WebSocket);
        let mut out = Vec::new();
        call.append(23, &mut out);
        let text = r#"{"jsonrpc":"2.0","id":100023,"method":"add","params":[100023,7]}"#;
        assert_eq!(out, Framing::WebSocket.frame(text));
    }

    #[test]
    fn a_call_speaks_the_dialect_of_its_server() {
        let text = |work, dialect| Task { work, dialect }.text();
        assert_eq!(
            text(Work::Spin, Dialect::Dotted),
            r#"{"jsonrpc":"2.0","id":100000,"method":"Bench.spin","params":[100000,7]}"#
        );
        assert_eq!(
            text(Work::Add, Dialect::Mcp),
            r#"{"jsonrpc":"2.0","id":100000,"method":"tools/call","params":{"name":"add","arguments":{"a":100000,"b":7}}}"#
        );
        let batch = text(Work::Batch, Dialect::Plain);
        assert!(batch.starts_with(r#"[{"jsonrpc":"2.0","id":1,"method":"add","params":[1,7]},"#));
        assert!(batch.ends_with(r#""id":100,"method":"add","params":[100,7]}]"#));
    }

    #[test]
    fn an_echo_has_1_kb_and_must_come_back_whole() {
        let echo = Task {
            work: Work::Echo,
            ..ADD
        };
        assert_eq!(echo.text().len(), 1024);
        let padding = echo.padding();
        let reply = |text: &str| format!(r#"{{"id":100001,"result":["{text}"]}}"#);
        assert!(echo.check(reply(&padding).as_bytes()).is_ok());
        assert!(echo.check(reply(&padding[1..]).as_bytes()).is_err());
    }

    #[test]
    fn only_the_right_sum_is_right() {
        let check = |text: &str| ADD.check(text.as_bytes()).is_ok();
        assert!(check(r#"{"jsonrpc":"2.0","id":100023,"result":100030}"#));
        assert!(!check(r#"{"jsonrpc":"2.0","id":100023,"result":100031}"#));
        assert!(!check(
            r#"{"jsonrpc":"2.0","id":100023,"error":{"code":1}}"#
        ));
    }
}
