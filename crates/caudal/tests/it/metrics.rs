//! The figures that the `metrics` facade gets.
#![cfg(feature = "metrics")]
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;

use crate::support::Log;
use caudal::{Peer, Router};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

struct Figures(Log);

/// One counter or histogram, which says whatever happens to it.
struct Entry(Log, String);

impl CounterFn for Entry {
    fn increment(&self, value: u64) {
        self.0.add(format!("{} +{value}", self.1));
    }

    fn absolute(&self, _: u64) {}
}

impl HistogramFn for Entry {
    fn record(&self, seconds: f64) {
        assert!((0.0..10.0).contains(&seconds));
        self.0.add(self.1.clone());
    }
}

impl Figures {
    fn entry(&self, key: &Key) -> Arc<Entry> {
        let labels: Vec<_> = key
            .labels()
            .map(|l| format!("{}={}", l.key(), l.value()))
            .collect();
        Arc::new(Entry(
            self.0.clone(),
            format!("{} {}", key.name(), labels.join(" ")),
        ))
    }
}

impl Recorder for Figures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.entry(key))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.entry(key))
    }
}

#[test]
fn calls_are_counted_and_timed_by_method_and_outcome() {
    let log = Log::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    metrics::with_local_recorder(&Figures(log.clone()), || {
        runtime.block_on(async {
            let router = Router::new()
                .method("add", |(a, b): (i64, i64)| Ok(a + b))
                .method("later", || async {
                    tokio::task::yield_now().await;
                    Ok(())
                });
            let (peer, _server) = Peer::pair(Router::new(), router);
            peer.call::<i64>("add", (1, 2)).await.unwrap();
            peer.call::<()>("later", ()).await.unwrap();
            for made_up in ["x", "y"] {
                peer.call::<()>(made_up, ()).await.unwrap_err();
            }
        });
    });
    let unknown = [
        "caudal_request_seconds method=(unknown)",
        "caudal_requests_total method=(unknown) outcome=error +1",
    ];
    assert_eq!(
        log.take(),
        [
            [
                "caudal_request_seconds method=add",
                "caudal_requests_total method=add outcome=ok +1"
            ],
            [
                "caudal_request_seconds method=later",
                "caudal_requests_total method=later outcome=ok +1"
            ],
            unknown,
            unknown,
        ]
        .concat()
    );
}
