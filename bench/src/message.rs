//! The messages every contestant must answer, and the answers they must give.

use serde_json::{Value, json};

use crate::order;

/// One message and what makes an answer to it right.
#[derive(Clone, Debug)]
pub struct Message {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub reply: Value,
}

const ADD: &str = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;

/// Every message, in the order of the tables.
#[must_use]
pub fn all() -> Vec<Message> {
    let order = json_text(&order::sample(0));
    let orders = json_text(&many_orders());
    let receipt = json_text(&order::place(&order::sample(0)));
    let batch = vec![ADD; 100].join(",");
    vec![
        Message {
            name: "add",
            bytes: ADD.into(),
            reply: reply("3"),
        },
        Message {
            name: "typed-1k",
            bytes: request("place", &order),
            reply: reply(&receipt),
        },
        Message {
            name: "pass-1k",
            bytes: request("echo", &order),
            reply: reply(&order),
        },
        Message {
            name: "pass-100k",
            bytes: request("echo", &orders),
            reply: reply(&orders),
        },
        Message {
            name: "batch-100",
            bytes: format!("[{batch}]").into(),
            reply: Value::Array(vec![reply("3"); 100]),
        },
    ]
}

/// The message called `name`: one of the tables, one that only caudal's router is
/// asked, or one of any size, `echo-10000`, `batch-1000`, `nothing`.
#[must_use]
pub fn named(name: &str) -> Option<Message> {
    if let Some(message) = sized(name).or_else(|| routed(name)) {
        return Some(message);
    }
    all().into_iter().find(|message| message.name == name)
}

/// `echo-N` has params of N bytes, objects of strings and numbers; `batch-N` has N
/// entries.
fn sized(name: &str) -> Option<Message> {
    // The one of the tables has that name too, and is the same.
    let (kind, size) = name.rsplit_once('-')?;
    let size = size.parse().ok()?;
    let (bytes, reply_is) = match kind {
        "echo" => {
            let params = text_of(size);
            (request("echo", &params), reply(&params))
        }
        "batch" => {
            let batch = format!("[{}]", vec![ADD; size].join(","));
            (batch.into(), Value::Array(vec![reply("3"); size]))
        }
        _ => return None,
    };
    Some(Message {
        // A process asks for a few of them at most.
        name: name.to_owned().leak(),
        bytes,
        reply: reply_is,
    })
}

/// Messages for the router beside those of the tables.
fn routed(name: &str) -> Option<Message> {
    const TEXTS: [(&str, &str); 6] = [
        ("nothing", ""),
        (
            "add-async",
            r#"{"jsonrpc":"2.0","id":1,"method":"add-async","params":[1,2]}"#,
        ),
        (
            "notification",
            r#"{"jsonrpc":"2.0","method":"add","params":[1,2]}"#,
        ),
        ("fail", r#"{"jsonrpc":"2.0","id":1,"method":"fail"}"#),
        (
            "unknown",
            r#"{"jsonrpc":"2.0","id":1,"method":"nobody","params":[1,2]}"#,
        ),
        (
            "wrong-params",
            r#"{"jsonrpc":"2.0","id":1,"method":"add","params":["1",2]}"#,
        ),
    ];
    let (name, text) = TEXTS.into_iter().find(|(known, _)| *known == name)?;
    Some(Message {
        name,
        bytes: text.into(),
        reply: Value::Null,
    })
}

/// An array of small objects, `size` bytes long.
fn text_of(size: usize) -> String {
    const PIECE: &str = r#"{"sku":"AB-1234","title":"a small thing","quantity":3,"price":12.5},"#;
    let mut text = String::from("[");
    while text.len() + PIECE.len() + 4 <= size {
        text.push_str(PIECE);
    }
    // Three are the quotes and the bracket at the end.
    let rest = size.saturating_sub(text.len() + 3);
    text.push('"');
    text.push_str(&"x".repeat(rest));
    text.push_str("\"]");
    text
}

fn many_orders() -> Vec<order::Order> {
    let mut orders = Vec::new();
    let mut size = 0;
    while size < 100_000 {
        let order = order::sample(orders.len() as i64);
        size += json_text(&order).len() + 1;
        orders.push(order);
    }
    orders
}

fn request(method: &str, params: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#).into()
}

fn reply(result: &str) -> Value {
    let result: Value = serde_json::from_str(result).expect("made by serde_json");
    json!({ "jsonrpc": "2.0", "id": 1, "result": result })
}

fn json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data serialises")
}

#[cfg(test)]
mod tests {
    #[test]
    fn add_is_the_message_of_the_targets() {
        assert_eq!(super::ADD.len(), 54);
    }

    #[test]
    fn a_message_of_any_size_has_that_size() {
        for size in [100, 1_000, 10_000] {
            let text = super::text_of(size);
            assert_eq!(text.len(), size);
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
        let batch = super::named("batch-7").unwrap();
        assert_eq!(batch.reply.as_array().unwrap().len(), 7);
    }
}
