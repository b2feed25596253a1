//! The result does not implement `Serialize`.

use caudal::Router;

struct Point;

fn main() {
    let _ = Router::new().method("x", || Ok(Point));
}
