//! Serves the methods of the conformance corpus on any endpoint.
//!
//! `cargo run --release --example conformance -- stdio:` (or `tcp://127.0.0.1:9000`,
//! `unix:/tmp/caudal.sock`, each with `?framing=header` if you like)

use std::time::Duration;

use caudal::{Config, JsonRpcError, RawValue, Router};
use serde::Deserialize;
use serde_json::json;

/// By position or by name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Subtract {
    Positional(f64, f64),
    Named(Difference),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    minuend: f64,
    subtrahend: f64,
}

#[derive(Deserialize)]
struct Slow {
    ms: u64,
}

/// Writes a whole number without a fraction.
fn number(value: f64) -> serde_json::Value {
    #[expect(clippy::cast_possible_truncation, reason = "it was compared")]
    match value as i64 {
        whole if whole as f64 == value => whole.into(),
        _ => value.into(),
    }
}

fn router() -> Router {
    type Anything = Option<Box<RawValue>>;
    let nothing = |_: Anything| Ok(());
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("subtract", |params: Subtract| {
            let (Subtract::Positional(a, b)
            | Subtract::Named(Difference {
                minuend: a,
                subtrahend: b,
            })) = params;
            Ok(number(a - b))
        })
        .method("sum", |numbers: Vec<f64>| Ok(number(numbers.iter().sum())))
        .method("update", nothing)
        .method("notify_hello", nothing)
        .method("notify_sum", nothing)
        .method("get_data", || Ok(("hello", 5)))
        .method("echo", |params: Anything| Ok(params))
        .method("fail", |_: Anything| {
            let data = json!({ "why": "test" });
            Err::<(), _>(JsonRpcError::with_data(1001, "failed on purpose", data))
        })
        .method("panic", |_: Anything| -> Result<(), JsonRpcError> {
            panic!("boom secret-4711 at /internal/path")
        })
        .method("slow", |Slow { ms }| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(ms)
        })
}

#[tokio::main]
async fn main() -> Result<(), caudal::Error> {
    let endpoint = std::env::args().nth(1).unwrap_or("stdio:".to_owned());
    let mut config = Config::default();
    // The corpus has ids of 10,000 bytes; the default limit is 1 KiB.
    config.policy.max_id = 200_000;
    let server = caudal::serve(endpoint, router()).config(config).await?;
    eprintln!("serving on {}", server.endpoint());
    server.wait().await;
    Ok(())
}
