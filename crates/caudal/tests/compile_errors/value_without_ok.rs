//! A handler returns a bare value.

use caudal::Router;

fn main() {
    let _ = Router::new().method("x", |(n,): (i64,)| n + 1);
}
