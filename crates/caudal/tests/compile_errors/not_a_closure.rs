//! The handler is a number.

use caudal::Router;

fn main() {
    let _ = Router::new().method("x", 5);
}
