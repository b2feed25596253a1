//! Layers around methods: a log and a login as async functions, a rate limit as
//! a tower service. Calls of a batch pass through them one at a time.
//!
//! `cargo run --release --example middleware`
#![allow(clippy::print_stdout, reason = "it shows what the layers do")]

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use caudal::middleware::{self, IncomingCall, Next};
use caudal::{CallError, Context, JsonRpcError, Peer, RawValue, Router};
use tower_layer::Layer;
use tower_service::Service;

type Answer = Result<Box<RawValue>, JsonRpcError>;

/// So many calls at once, and one more after each interval.
struct Bucket {
    size: u32,
    interval: Duration,
    full_at: Instant,
}

impl Bucket {
    fn take(&mut self) -> bool {
        let now = Instant::now();
        let full_at = self.full_at.max(now) + self.interval;
        let has_one = full_at <= now + self.interval * self.size;
        if has_one {
            self.full_at = full_at;
        }
        has_one
    }
}

/// The layer, and the service it makes: all methods draw from one bucket.
#[derive(Clone)]
struct RateLimit<S = ()> {
    bucket: Arc<Mutex<Bucket>>,
    inner: S,
}

impl RateLimit {
    fn new(size: u32, interval: Duration) -> Self {
        let bucket = Bucket {
            size,
            interval,
            full_at: Instant::now(),
        };
        Self {
            bucket: Arc::new(Mutex::new(bucket)),
            inner: (),
        }
    }
}

impl<S> Layer<S> for RateLimit {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        let bucket = Arc::clone(&self.bucket);
        RateLimit { bucket, inner }
    }
}

impl<S> Service<IncomingCall> for RateLimit<S>
where
    S: Service<IncomingCall, Response = Box<RawValue>, Error = JsonRpcError>,
    S::Future: Send + 'static,
{
    type Response = Box<RawValue>;
    type Error = JsonRpcError;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), JsonRpcError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: IncomingCall) -> Self::Future {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if bucket.take() {
            return Box::pin(self.inner.call(call));
        }
        let error = JsonRpcError::new(-32_029, "Too many requests");
        Box::pin(std::future::ready(Err(error)))
    }
}

/// Who is at the other end of a connection, once it has said so.
struct User(String);

async fn require_login(call: IncomingCall, next: Next) -> Answer {
    if call.context().peer().extensions().get::<User>().is_none() {
        return Err(JsonRpcError::new(-32_001, "Log in first"));
    }
    next.run(call).await
}

async fn log(call: IncomingCall, next: Next) -> Answer {
    let cx = call.context().clone();
    let answer = next.run(call).await;
    // Afterwards, so that the call which logs in has a name already.
    let user = cx.peer().extensions().get::<User>();
    let user = user.as_ref().map_or("nobody", |user| &user.0);
    match &answer {
        Ok(result) => println!("  [{user}] {} = {result}", cx.method()),
        Err(error) => println!("  [{user}] {} failed: {error}", cx.method()),
    }
    answer
}

fn router() -> Router {
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .layer(RateLimit::new(3, Duration::from_secs(60)))
        .layer(middleware::from_fn(require_login))
        // Layers are around what was there before them: all but this.
        .method(
            "login",
            |cx: Context, (user, password): (String, String)| {
                if password != "correct horse" {
                    return Err(JsonRpcError::new(-32_003, "Wrong password"));
                }
                cx.peer().extensions().insert(User(user));
                Ok(())
            },
        )
        .layer(middleware::from_fn(log))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (peer, _server) = Peer::pair(Router::new(), router());
    println!("Who has not logged in is refused:");
    let refused: Result<i64, CallError> = peer.call("add", (1, 2)).await;
    assert!(refused.is_err());
    let wrong: Result<(), CallError> = peer.call("login", ("ada", "guess")).await;
    assert!(wrong.is_err());

    println!("Then each call of a batch is seen on its own:");
    let mut batch = peer.batch();
    let login = batch.call::<()>("login", ("ada", "correct horse"))?;
    let sums = [(1, 2), (3, 4)].map(|pair| batch.call::<i64>("add", pair));
    batch.send().await?;
    login.await?;
    for sum in sums {
        sum?.await?;
    }

    println!("Three calls are free, and then one a minute:");
    let third: i64 = peer.call("add", (5, 6)).await?;
    assert_eq!(third, 11);
    let fourth: Result<i64, CallError> = peer.call("add", (7, 8)).await;
    assert!(fourth.is_err());
    Ok(())
}
