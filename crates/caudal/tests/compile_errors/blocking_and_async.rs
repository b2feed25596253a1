//! A blocking handler is an async one.

use caudal::{Method, Router};

fn main() {
    let _ = Router::new().method("x", Method::blocking(|(n,): (i64,)| async move { Ok(n) }));
}
