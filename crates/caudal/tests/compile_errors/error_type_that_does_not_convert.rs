//! The error type does not convert into `JsonRpcError`.

use caudal::Router;

struct AppError;

fn main() {
    let _ = Router::new().error_type::<AppError>().method("x", || Ok(1));
}
