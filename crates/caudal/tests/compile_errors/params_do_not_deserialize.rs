//! The params do not implement `Deserialize`.

use caudal::Router;

struct Point {
    x: i64,
}

fn main() {
    let _ = Router::new().method("x", |point: Point| Ok(point.x));
}
