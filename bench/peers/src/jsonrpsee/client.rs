//! jsonrpsee's clients: 64 tasks that share one, in a runtime of one thread.
//!
//! Prints what the program `client` prints about caudal's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jsonrpsee::core::ClientError;
use jsonrpsee::core::client::ClientT;
use jsonrpsee::http_client::HttpClient;
use jsonrpsee::rpc_params;
use jsonrpsee::ws_client::WsClientBuilder;

use crate::Outcome;

const WINDOW: u64 = 64;

/// The amount is a number of calls, or a time: `0.7s`.
pub(crate) fn call(client: &str, amount: &str, port: &str) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match client {
            "jsonrpsee-ws" => {
                let url = format!("ws://127.0.0.1:{port}");
                let client = WsClientBuilder::default().build(url).await?;
                run(Arc::new(client), amount).await
            }
            _ => {
                let url = format!("http://127.0.0.1:{port}");
                run(Arc::new(HttpClient::builder().build(url)?), amount).await
            }
        }
    })
}

async fn run<C: ClientT + Send + Sync + 'static>(client: Arc<C>, amount: &str) -> Outcome {
    let (most, time) = match amount.strip_suffix('s') {
        Some(seconds) => (u64::MAX, Duration::try_from_secs_f64(seconds.parse()?)?),
        None => (amount.parse()?, Duration::from_secs(60)),
    };
    if most == u64::MAX {
        calls(&client, most, time / 8).await?;
    }
    let (start, cpu) = (Instant::now(), used());
    let calls = calls(&client, most, time).await?;
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), used() - cpu);
    let called = serde_json::json!({
        "per_second": calls as f64 / seconds,
        "cpu": cpu / seconds,
    });
    println!("{called}");
    Ok(())
}

/// Seconds that this thread, the only one, has used so far.
fn used() -> f64 {
    let times = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = times.split(' ').next().unwrap_or("0").parse();
    nanos.unwrap_or(0.0) / 1e9
}

/// Calls for `time`, or `most` times; returns how many were answered.
async fn calls<C>(client: &Arc<C>, most: u64, time: Duration) -> Result<u64, ClientError>
where
    C: ClientT + Send + Sync + 'static,
{
    let late = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..WINDOW)
        .map(|_| tokio::spawn(one(Arc::clone(client), most / WINDOW, Arc::clone(&late))))
        .collect();
    let alarm = tokio::spawn(async move {
        tokio::time::sleep(time).await;
        late.store(true, Ordering::Relaxed);
    });
    let mut calls = 0;
    for task in tasks {
        calls += task.await.expect("a task that does not panic")?;
    }
    alarm.abort();
    Ok(calls)
}

async fn one<C: ClientT + Send + Sync>(
    client: Arc<C>,
    most: u64,
    late: Arc<AtomicBool>,
) -> Result<u64, ClientError> {
    let mut calls = 0;
    while calls < most && !late.load(Ordering::Relaxed) {
        let sum: u64 = client.request("add", rpc_params![calls, 7]).await?;
        assert_eq!(sum, calls + 7, "a wrong reply");
        calls += 1;
    }
    Ok(calls)
}
