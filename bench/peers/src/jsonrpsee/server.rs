//! jsonrpsee's server: HTTP and WebSocket on one port.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jsonrpsee::RpcModule;
use jsonrpsee::core::SubscriptionResult;
use jsonrpsee::server::{PendingSubscriptionSink, ServerBuilder, ServerConfig, SubscriptionSink};
use jsonrpsee::types::ErrorObjectOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::spin::spin;
use crate::{Outcome, announce};

/// Its default, 100 connections, is less than what is measured.
const CONNECTIONS: u32 = 5_000;

#[derive(Default)]
struct Subscribers {
    /// How many have asked: a subscription is answered before its sink is here.
    asked: AtomicUsize,
    sinks: Mutex<Vec<Arc<SubscriptionSink>>>,
}

impl Subscribers {
    /// All who have been told that they are subscribed.
    async fn all(&self) -> Vec<Arc<SubscriptionSink>> {
        loop {
            let all = self.lock().clone();
            if all.len() == self.asked.load(Ordering::Acquire) {
                return all;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn add(&self, pending: PendingSubscriptionSink) -> SubscriptionResult {
        self.asked.fetch_add(1, Ordering::AcqRel);
        let sink = pending.accept().await?;
        self.lock().push(Arc::new(sink));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<SubscriptionSink>>> {
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `one_thread` is for callgrind: what the threads of a runtime say to each other
/// is different on every run.
pub(crate) fn serve(one_thread: bool) -> Outcome {
    let mut runtime = match one_thread {
        true => tokio::runtime::Builder::new_current_thread(),
        false => tokio::runtime::Builder::new_multi_thread(),
    };
    runtime.enable_all().build()?.block_on(async {
        let config = ServerConfig::builder().max_connections(CONNECTIONS).build();
        let server = ServerBuilder::with_config(config);
        let server = server.build("127.0.0.1:0").await?;
        announce(server.local_addr()?.port())?;
        server.start(methods()?).stopped().await;
        Ok(())
    })
}

fn methods() -> Result<RpcModule<Subscribers>, Box<dyn std::error::Error>> {
    let mut module = RpcModule::new(Subscribers::default());
    module.register_method("add", |params, _, _| {
        let (a, b): (i64, i64) = params.parse()?;
        Ok::<_, ErrorObjectOwned>(a + b)
    })?;
    module.register_method("spin", |params, _, _| {
        let (a, b): (i64, i64) = params.parse()?;
        spin();
        Ok::<_, ErrorObjectOwned>(a + b)
    })?;
    module.register_method("echo", |params, _, _| params.parse::<Box<RawValue>>())?;
    module.register_subscription(
        "subscribe",
        "event",
        "unsubscribe",
        |_, pending, subscribers, _| async move { subscribers.add(pending).await },
    )?;
    module.register_async_method("fan", |params, subscribers, _| async move {
        let text: String = params.one()?;
        let event: Box<RawValue> = to_raw_value(&[text]).expect("a text serialises");
        for subscriber in subscribers.all().await {
            // Who has gone is missed by the other end.
            drop(subscriber.send(event.clone()).await);
        }
        Ok::<_, ErrorObjectOwned>(())
    })?;
    Ok(module)
}
