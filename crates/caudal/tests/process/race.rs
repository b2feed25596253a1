//! Close, reply, timeout, cancel and a cut cable race against each other, thousands of
//! times.
//!
//! Every schedule comes from a seed, which is printed when it fails.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use caudal::transport::Stream;
use caudal::{CallError, Config, Context, Dialect, Framing, JsonRpcError, Peer, Router};
use tokio::io::{copy_bidirectional, duplex};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::panics::{ON_PURPOSE, silence_panics_on_purpose};
use crate::support::within;

/// A small generator: the same seed gives the same schedule.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What became of the calls of one schedule.
#[derive(Debug, Default)]
struct Tally {
    made: AtomicUsize,
    answered: AtomicUsize,
    failed: AtomicUsize,
    timed_out: AtomicUsize,
    closed: AtomicUsize,
    dropped: AtomicUsize,
}

impl Tally {
    fn count(&self, outcome: &Result<u64, CallError>) {
        match outcome {
            Ok(_) => &self.answered,
            Err(CallError::Remote(_)) => &self.failed,
            Err(CallError::Timeout) => &self.timed_out,
            Err(CallError::Closed(_) | CallError::AlreadyClosed(_)) => &self.closed,
            Err(CallError::Cancelled) => &self.dropped,
            Err(other) => panic!("an outcome that cannot be: {other:?}"),
        }
        .fetch_add(1, SeqCst);
    }

    fn settled(&self) -> usize {
        [
            &self.answered,
            &self.failed,
            &self.timed_out,
            &self.closed,
            &self.dropped,
        ]
        .iter()
        .map(|count| count.load(SeqCst))
        .sum()
    }
}

/// Handlers that answer at once, later, with an error, never, after calling back,
/// or not at all.
fn router() -> Router {
    Router::new()
        .method("work", |cx: Context, (kind, ms): (u64, u64)| async move {
            match kind {
                0 => Ok(ms),
                1 => {
                    sleep(Duration::from_millis(ms)).await;
                    Ok(ms)
                }
                2 => Err(JsonRpcError::new(1, "no")),
                3 => {
                    tokio::task::yield_now().await;
                    panic!("{ON_PURPOSE}")
                }
                4 => std::future::pending().await,
                _ => Ok(cx.peer().call::<u64>("work", (kind - 5, ms)).await?),
            }
        })
        .method("note", |(ms,): (u64,)| async move {
            sleep(Duration::from_millis(ms)).await;
        })
}

/// Two peers, and the cable between them.
fn pair(config: &Config) -> (Peer, Peer, AbortHandle) {
    let ((here, mut one), (mut two, there)) = (duplex(4096), duplex(4096));
    let start = |io| {
        let stream = Stream::new(io, Framing::Line);
        Peer::start_with(stream, router(), config.clone())
    };
    let cable = tokio::spawn(async move { copy_bidirectional(&mut one, &mut two).await });
    (start(here), start(there), cable.abort_handle())
}

/// Makes one to three calls, alone or as a batch, and counts what becomes of them.
async fn call(peer: &Peer, tally: &Tally, mut random: Random) {
    let limit = Duration::from_millis(1 + random.below(30));
    let patience = Duration::from_millis(random.below(40));
    let alone = random.below(4) > 0;
    let mut params = || (random.below(11), random.below(20));
    if alone {
        tally.made.fetch_add(1, SeqCst);
        let call = peer.call::<u64>("work", params()).timeout(limit);
        return match timeout(patience, call.into_future()).await {
            Ok(outcome) => tally.count(&outcome),
            Err(_) => drop(tally.dropped.fetch_add(1, SeqCst)),
        };
    }
    let mut batch = peer.batch().timeout(limit);
    let mut replies = Vec::new();
    for _ in 0..3 {
        match batch.call::<u64>("work", params()) {
            Ok(reply) => replies.push(reply),
            Err(error) => assert!(error.is_fatal(), "{error}"),
        }
    }
    tally.made.fetch_add(replies.len(), SeqCst);
    // One that is not sent in time is dropped, and its calls fail.
    let _ = timeout(patience, batch.send()).await;
    for reply in replies {
        tally.count(&reply.await);
    }
}

async fn schedule(seed: u64) {
    let mut random = Random::new(seed);
    let mut config = Config::default();
    if random.below(2) == 0 {
        config.dialect = Dialect::lsp();
    }
    config.drain_timeout = Duration::from_millis(random.below(20));
    config.in_flight = 4 + random.below(40) as usize;
    config.output = 64 + random.below(4096) as usize;
    let (one, two, cable) = pair(&config);
    let tally = Arc::new(Tally::default());
    let mut tasks = Vec::new();
    for peer in [&one, &two] {
        for _ in 0..5 + random.below(20) {
            let (peer, tally, mut random) = (
                peer.clone(),
                Arc::clone(&tally),
                Random(random.below(u64::MAX) | 1),
            );
            tasks.push(tokio::spawn(async move {
                sleep(Duration::from_millis(random.below(15))).await;
                if random.below(8) == 0 {
                    let _ = peer.notify("note", (random.below(5),)).await;
                }
                call(&peer, &tally, random).await;
            }));
        }
    }
    let ends = random.below(5);
    sleep(Duration::from_millis(random.below(40))).await;
    let mut two = Some(two);
    match ends {
        0 => one.close(),
        // The tasks have the last ones.
        1 => two = None,
        2 => {
            one.shutdown(Duration::from_millis(random.below(20))).await;
        }
        3 => cable.abort(),
        _ => {}
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    assert_eq!(tally.settled(), tally.made.load(SeqCst), "{tally:?}");
    match &two {
        Some(two) => {
            one.close();
            one.closed().await;
            two.close();
            two.closed().await;
        }
        None => {
            within(one.closed()).await;
        }
    }
    for peer in [Some(&one), two.as_ref()].into_iter().flatten() {
        assert_eq!(peer.stats().pending, 0);
        let mut turns = 0;
        while peer.stats().in_flight > 0 {
            tokio::task::yield_now().await;
            turns += 1;
            // Of threads, one may be kept from running. A clock that is paused stands still.
            if turns > 5000 {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(
                turns < 10_000,
                "a handler outlives its connection: {:?}",
                peer.stats()
            );
        }
    }
}

/// Proves: A27
#[test]
fn every_call_settles_once_under_seeded_schedules() {
    silence_panics_on_purpose();
    for seed in 0..3_000 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let run = std::panic::AssertUnwindSafe(|| runtime.block_on(schedule(seed)));
        assert!(std::panic::catch_unwind(run).is_ok(), "seed {seed}");
    }
    // The same on threads, where not even the seed decides.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    for seed in 0..100 {
        runtime.block_on(async {
            let schedules: Vec<_> = (0..8)
                .map(|n| tokio::spawn(schedule(seed * 8 + n)))
                .collect();
            for schedule in schedules {
                timeout(Duration::from_secs(60), schedule)
                    .await
                    .unwrap_or_else(|_| panic!("seed {seed} hangs"))
                    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        });
    }
}
