//! A handler has four arguments.

use caudal::{Context, Router, State};

struct Store;

fn main() {
    let _ = Router::with_state(Store)
        .method("x", |_: State<Store>, _: Context, a: i64, b: i64| Ok(a + b));
}
