//! caudal as a user gets it; `fan` is what sends an event to everybody.

use std::sync::{Arc, OnceLock};

use caudal::{Address, Event, RawValue, Router, Server};
use caudal_bench::spin::spin;

use super::super::{Outcome, announce};

pub(super) async fn serve() -> Outcome {
    let here: Arc<OnceLock<Server>> = Arc::default();
    let everybody = Arc::clone(&here);
    let router = Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("spin", |(a, b): (i64, i64)| {
            spin();
            Ok(a + b)
        })
        .method("echo", |params: Box<RawValue>| Ok(params))
        .method("subscribe", || Ok(true))
        .method("fan", move |(text,): (String,)| {
            let event = Event::new("event", [text]);
            let peers = everybody.get().map(Server::peers);
            async move {
                let event = event.expect("a text serialises");
                for peer in peers.unwrap_or_default() {
                    // Who has gone is missed by the other end.
                    drop(peer.publish(&event).await);
                }
                Ok(())
            }
        });
    let server = caudal::serve("http://127.0.0.1:0", router).await?;
    if let Address::Http { url, .. } = server.endpoint().address() {
        announce(port(url).ok_or("no port")?)?;
    }
    let server = here.get_or_init(|| server);
    server.wait().await;
    Ok(())
}

fn port(url: &str) -> Option<u16> {
    let digits = url.trim_end_matches('/').rsplit(':').next()?;
    digits.parse().ok()
}
