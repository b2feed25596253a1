//! The router has no state.

use caudal::{Router, State};

struct Store(u64);

fn main() {
    let _ = Router::new().method("x", |store: State<Store>| Ok(store.0));
}
