//! HTTP and WebSocket on one port, with one method.

use caudal::Router;

#[tokio::main]
async fn main() -> Result<(), caudal::Error> {
    let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    caudal::serve("http://127.0.0.1:4017", router)
        .await?
        .wait()
        .await;
    Ok(())
}
