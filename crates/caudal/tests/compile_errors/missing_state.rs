//! The router has no state.

use caudal::{Router, State};

struct Store(u64);

fn main() {
    let _ = Router::new().method("x", |store: State<Store>, (n,): (u64,)| Ok(store.0 + n));
}
