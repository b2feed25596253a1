//! A handler keeps something that is not `Sync`.

use caudal::Router;

fn main() {
    let _ = Router::new().method("x", {
        let last = std::cell::Cell::new(0);
        move |(n,): (i64,)| Ok(last.replace(n))
    });
}
