//! Reports of internal failures that share one limit, in a process that no other test of them shares.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use caudal::{Context, JsonRpcError, Peer, Router};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Counts events at ERROR.
#[derive(Clone, Default)]
struct Errors(Arc<AtomicUsize>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A fallback serves any name that its caller makes up.
#[tokio::test(start_paused = true)]
async fn made_up_names_do_not_fill_the_log() {
    let errors = Errors::default();
    let _guard = tracing::subscriber::set_default(errors.clone());
    let router = Router::new().fallback(|_: Context| -> Result<(), JsonRpcError> {
        std::panic::resume_unwind(Box::new("no such thing"))
    });
    let (peer, _server) = Peer::pair(Router::new(), router);
    for name in 0..2_000 {
        for _ in 0..2 {
            let name = format!("made-up-{name}");
            peer.call::<()>(&name, ()).await.unwrap_err();
        }
    }
    let logged = errors.0.load(Relaxed);
    assert!(logged < 1_000, "{logged}");
}
