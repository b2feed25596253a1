//! Methods to try things out with: those of the conformance corpus, and a stream of
//! notifications.
//!
//! | method | params | result |
//! |---|---|---|
//! | `add` | `[a,b]`, integers | `a+b` |
//! | `subtract` | `[a,b]` or `{"minuend":a,"subtrahend":b}` | `a-b` |
//! | `sum` | `[n,…]` | the sum |
//! | `echo` | anything or none | the params as they came; `null` for none |
//! | `get_data` | anything or none | `["hello",5]` |
//! | `update`, `notify_hello`, `notify_sum` | anything or none | `null` |
//! | `slow` | `{"ms":n}` | `n`, after so many milliseconds |
//! | `fail` | anything or none | the error 1001 |
//! | `panic` | anything or none | panics, so the error -32603 |
//! | `ticks.start` | `{"every_ms":1000,"count":10,"wait":false}` | `tick` notifications follow, `[1]` first |
//! | `ticks.stop` | none | whether there was something to stop |

mod ticks;

use std::time::Duration;

use caudal::{Config, Context, JsonRpcError, RawValue, Router};
use serde::Deserialize;
use serde_json::json;

/// The demo methods.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
/// use caudal::{Peer, Router};
///
/// let (peer, _server) = Peer::pair(Router::new(), caudal_cli::demo::router());
/// assert_eq!(peer.call::<i64>("add", (1, 2)).await?, 3);
/// # Ok(()) }
/// ```
#[must_use]
pub fn router() -> Router {
    type Anything = Option<Box<RawValue>>;
    let nothing = |_: Anything| Ok(());
    Router::new()
        .method("add", |(a, b): (i64, i64)| {
            let too_large = || JsonRpcError::invalid_params().and_data("the sum is too large");
            a.checked_add(b).ok_or_else(too_large)
        })
        .method("subtract", |params: Subtract| {
            let (Subtract::Positional(a, b)
            | Subtract::Named(Difference {
                minuend: a,
                subtrahend: b,
            })) = params;
            let whole = a.whole().zip(b.whole()).map(|(a, b)| a - b);
            number(whole, a.about() - b.about())
        })
        .method("sum", |numbers: Vec<Number>| {
            let whole = numbers.iter().map(|number| number.whole()).sum();
            number(whole, numbers.iter().map(|number| number.about()).sum())
        })
        .method("update", nothing)
        .method("notify_hello", nothing)
        .method("notify_sum", nothing)
        .method("get_data", |_: Anything| Ok(("hello", 5)))
        .method("echo", |params: Anything| Ok(params))
        .method("fail", |_: Anything| {
            let data = json!({ "why": "test" });
            Err::<(), _>(JsonRpcError::with_data(1001, "failed on purpose", data))
        })
        .method("panic", |_: Anything| panics())
        .method("slow", |Slow { ms }| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(ms)
        })
        .method("ticks.start", ticks::start)
        .method("ticks.stop", |cx: Context| Ok(ticks::stop(&cx)))
}

/// The configuration that the conformance corpus wants.
///
/// ```
/// assert_eq!(caudal_cli::demo::config().policy.max_id, 200_000);
/// ```
#[must_use]
pub fn config() -> Config {
    let mut config = Config::default();
    // The corpus has ids of 10,000 bytes; the default limit is 1 KiB.
    config.policy.max_id = 200_000;
    config
}

/// By position or by name.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = r#"two numbers are wanted: [a,b] or {"minuend":a,"subtrahend":b}"#
)]
enum Subtract {
    Positional(Number, Number),
    Named(Difference),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    minuend: Number,
    subtrahend: Number,
}

/// A whole one is counted with to the last digit.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "a number is wanted")]
enum Number {
    Whole(i64),
    Other(f64),
}

impl Number {
    /// With room for what many of them come to.
    fn whole(self) -> Option<i128> {
        match self {
            Self::Whole(number) => Some(number.into()),
            Self::Other(_) => None,
        }
    }

    fn about(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Other(number) => number,
        }
    }
}

#[derive(Deserialize)]
struct Slow {
    ms: u64,
}

/// Panics, to show that the server continues.
fn panics() -> Result<(), JsonRpcError> {
    panic!("boom secret-4711 at /internal/path")
}

/// Writes the whole number if there is one that fits, else what it is about, without a
/// fraction that it does not need.
fn number(whole: Option<i128>, about: f64) -> Result<serde_json::Number, JsonRpcError> {
    if let Some(whole) = whole.and_then(|whole| i64::try_from(whole).ok()) {
        return Ok(whole.into());
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was compared")]
    if about.fract() == 0.0 && about.abs() < EXACT {
        return Ok((about as i64).into());
    }
    let too_large = || JsonRpcError::invalid_params().and_data("the result is too large");
    serde_json::Number::from_f64(about).ok_or_else(too_large)
}

/// 2^53: up to here an `f64` has every whole number.
const EXACT: f64 = 9_007_199_254_740_992.0;
