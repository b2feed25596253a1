//! caudal with a handler that waits, for what a waiting call holds in memory.
//!
//! ```text
//! wait      waits until `release`
//! held      how many wait
//! heap      bytes that are allocated; only `serve-counted` knows
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use caudal::{Address, Config, Router};
use caudal_bench::peer::{self, ROOM};
use tokio::sync::Notify;

use super::Outcome;

#[derive(Default)]
struct Hall {
    waiting: AtomicUsize,
    door: Notify,
}

#[tokio::main]
pub(super) async fn serve() -> Outcome {
    let hall = Arc::new(Hall::default());
    let (inside, door) = (Arc::clone(&hall), Arc::clone(&hall));
    let router = Router::new()
        .method("wait", move |(a, b): (i64, i64)| {
            let hall = Arc::clone(&inside);
            async move {
                hall.waiting.fetch_add(1, Ordering::Relaxed);
                hall.door.notified().await;
                Ok(a + b)
            }
        })
        .method("held", move || Ok(hall.waiting.load(Ordering::Relaxed)))
        .method("heap", || Ok(peer::heap()))
        .method("release", move || {
            door.door.notify_waiters();
            Ok(())
        });
    let mut config = Config::default();
    config.in_flight = ROOM;
    let server = caudal::serve("tcp://127.0.0.1:0", router)
        .config(config)
        .await?;
    if let Address::Tcp { port, .. } = server.endpoint().address() {
        super::announce(*port)?;
    }
    server.wait().await;
    Ok(())
}
