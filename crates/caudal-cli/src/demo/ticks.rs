//! A stream of notifications: one for each connection, bounded, and over when the
//! connection is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use caudal::{Context, JsonRpcError, Peer};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

const MOST: u32 = 100_000;
const EVERY_MS: std::ops::RangeInclusive<u64> = 1..=3_600_000;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Start {
    every_ms: u64,
    count: u32,
    /// True if the reply waits for the last tick.
    wait: bool,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            every_ms: 1000,
            count: 10,
            wait: false,
        }
    }
}

/// Handle that stops the ticks of a connection when it is used or dropped.
#[derive(Default)]
struct Stop(Mutex<Option<oneshot::Sender<()>>>);

impl Stop {
    fn of(peer: &Peer) -> Arc<Self> {
        let extensions = peer.extensions();
        extensions.get().unwrap_or_else(|| {
            extensions.insert(Self::default());
            extensions.get().unwrap_or_default()
        })
    }

    fn replace(&self, with: Option<oneshot::Sender<()>>) -> Option<oneshot::Sender<()>> {
        let slot = self.0.lock();
        let mut slot = slot.unwrap_or_else(|poisoned| poisoned.into_inner());
        std::mem::replace(&mut slot, with)
    }
}

/// Sends `tick` to the caller again and again; what ran before ends.
pub(super) async fn start(cx: Context, params: Option<Start>) -> Result<Value, JsonRpcError> {
    let start = params.unwrap_or_default();
    let invalid = |what: String| Err(JsonRpcError::invalid_params().and_data(what));
    if !EVERY_MS.contains(&start.every_ms) {
        let (least, most) = EVERY_MS.into_inner();
        return invalid(format!("`every_ms` must be from {least} to {most}"));
    }
    if !(1..=MOST).contains(&start.count) {
        return invalid(format!("`count` must be from 1 to {MOST}"));
    }
    let peer = cx.peer().clone();
    if peer.state().is_closed() {
        let text = "a single POST has no way back for ticks; use ws://, #sse or #poll";
        return Err(JsonRpcError::new(1002, text));
    }
    let (stop, stopped) = oneshot::channel();
    Stop::of(&peer).replace(Some(stop));
    let Start {
        every_ms,
        count,
        wait,
    } = start;
    let ticks = tokio::spawn(run(peer, every_ms, count, stopped));
    if !wait {
        return Ok(json!({ "every_ms": every_ms, "count": count }));
    }
    let sent = ticks.await.map_err(|_| JsonRpcError::internal_error())?;
    Ok(json!({ "ticks": sent }))
}

/// Stops the ticks; returns true if there were any.
pub(super) fn stop(cx: &Context) -> bool {
    let running = Stop::of(cx.peer()).replace(None);
    running.is_some_and(|stop| stop.send(()).is_ok())
}

/// Returns how many ticks were sent.
async fn run(peer: Peer, every_ms: u64, count: u32, mut stopped: oneshot::Receiver<()>) -> u32 {
    let mut clock = tokio::time::interval(Duration::from_millis(every_ms));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for n in 1..=count {
        let sent = async {
            clock.tick().await;
            peer.notify("tick", [n]).await.is_ok()
        };
        let sent = tokio::select! {
            sent = sent => sent,
            _ = &mut stopped => false,
            _ = peer.closed() => false,
        };
        if !sent {
            return n - 1;
        }
    }
    count
}
