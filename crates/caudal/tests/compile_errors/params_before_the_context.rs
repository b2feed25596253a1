//! The params stand before the context.

use caudal::{Context, Router};

fn main() {
    let _ = Router::new().method("x", |(n,): (i64,), _: Context| Ok(n));
}
