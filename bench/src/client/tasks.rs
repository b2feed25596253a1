//! caudal's client: tasks that share one peer, in a runtime of one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use caudal::{Peer, Router};

use super::{Amount, Called, Clock, Problem, WINDOW};

#[tokio::main(flavor = "current_thread")]
pub(super) async fn over(scheme: &str, port: u16, amount: Amount) -> Result<Called, Problem> {
    let peer = caudal::connect(format!("{scheme}://127.0.0.1:{port}")).await?;
    run(&peer, amount).await
}

/// Both ends are on the same thread: a call is everything that both do.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn in_memory(amount: Amount) -> Result<Called, Problem> {
    let router = Router::new().method("add", |(a, b): (u64, u64)| Ok(a + b));
    let (peer, _server) = Peer::pair(Router::new(), router);
    run(&peer, amount).await
}

async fn run(peer: &Peer, amount: Amount) -> Result<Called, Problem> {
    if let Amount::Time(time) = amount {
        call(peer, u64::MAX, time / 8).await?;
    }
    let clock = Clock::start(amount);
    let calls = match amount {
        Amount::Calls(calls) => call(peer, calls, Duration::from_secs(60)).await?,
        Amount::Time(time) => call(peer, u64::MAX, time).await?,
    };
    Ok(clock.stop(calls))
}

/// Calls for `time`, or `most` times; returns how many were answered.
async fn call(peer: &Peer, most: u64, time: Duration) -> Result<u64, Problem> {
    let late = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..WINDOW)
        .map(|_| tokio::spawn(one(peer.clone(), most / WINDOW, Arc::clone(&late))))
        .collect();
    let alarm = tokio::spawn(async move {
        tokio::time::sleep(time).await;
        late.store(true, Ordering::Relaxed);
    });
    let mut calls = 0;
    for task in tasks {
        calls += task.await??;
    }
    alarm.abort();
    Ok(calls)
}

async fn one(peer: Peer, most: u64, late: Arc<AtomicBool>) -> Result<u64, caudal::CallError> {
    let mut calls = 0;
    while calls < most && !late.load(Ordering::Relaxed) {
        let sum: u64 = peer.call("add", (calls, 7)).await?;
        assert_eq!(sum, calls + 7, "a wrong reply");
        calls += 1;
    }
    Ok(calls)
}
