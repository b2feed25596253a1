//! The params are several arguments.

use caudal::Router;

fn main() {
    let _ = Router::new().method("x", |a: i64, b: i64| Ok(a + b));
}
