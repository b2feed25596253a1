//! The params do not implement `Deserialize`.

use caudal::{Context, Router};

struct Point {
    x: i64,
}

fn main() {
    let _ = Router::new().method("x", |_: Context, point: Point| async move { Ok(point.x) });
}
