//! A tree in, a tree out: `serde_json::Value` both ways.

use serde_json::{Value, json};

use super::Contestant;
use crate::order::{self, Order};

pub(super) struct Server;

impl Contestant for Server {
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let message: Value = serde_json::from_slice(bytes).expect("JSON");
        let reply = match message {
            Value::Array(batch) => Value::Array(batch.into_iter().map(answer).collect()),
            single => answer(single),
        };
        serde_json::to_writer(out, &reply).expect("a Value serialises");
    }
}

fn answer(mut request: Value) -> Value {
    let params = request["params"].take();
    let id = request["id"].take();
    let result = match request["method"].as_str() {
        Some("add") => {
            let (a, b): (i64, i64) = serde_json::from_value(params).expect("two integers");
            json!(a + b)
        }
        Some("place") => {
            let order: Order = serde_json::from_value(params).expect("an order");
            json!(order::place(&order))
        }
        Some("echo") => params,
        other => panic!("no method {other:?}"),
    };
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}
