//! The future of a handler is not `Send`.

use caudal::Router;

fn main() {
    let _ = Router::new().method("x", |(n,): (i64,)| async move {
        let shared = std::rc::Rc::new(n);
        std::future::pending::<()>().await;
        Ok(*shared)
    });
}
