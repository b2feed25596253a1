//! The future of a handler has another error type than its router.

use caudal::Router;

fn main() {
    let _ = Router::new().method("x", |(text,): (String,)| async move { text.parse::<i64>() });
}
