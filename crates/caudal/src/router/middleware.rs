//! Middleware: layers in tower's sense, around one call at a time.
//!
//! A layer sees every call of the methods it is put around, inside a batch or
//! not, requests and notifications: its params, its caller and its
//! result. It may answer in the handler's place. [`from_fn`] makes one of an
//! async function; any [`tower_layer::Layer`] will do.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context as TaskContext, Poll};

use caudal_core::{ErrorDetail, JsonRpcError, RawJson};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
pub use tower_layer::Layer;
pub use tower_service::Service;

use super::context::{Context, ContextBuilder};
use super::handler::{self, BoxFuture};
use crate::call::replies::Replies;
use crate::call::{HandlerCall, Ran};

/// A call on its way to its handler.
///
/// ```
/// use caudal::JsonRpcError;
/// use caudal::middleware::IncomingCall;
///
/// fn check(call: &IncomingCall) -> Result<(), JsonRpcError> {
///     match call.method() {
///         "admin.stop" => Err(JsonRpcError::new(-32_003, "Forbidden")),
///         _ => Ok(()),
///     }
/// }
/// # let _ = check;
/// ```
#[derive(Debug)]
pub struct IncomingCall {
    context: Context,
    params: Option<Box<RawValue>>,
    /// True if the method is a serial one.
    is_serial: bool,
    /// Number of calls of the router that go on though they were cancelled.
    detached: Arc<AtomicUsize>,
}

impl IncomingCall {
    /// The method that is called.
    #[must_use]
    pub fn method(&self) -> &str {
        self.context.method()
    }

    /// The params as they came, if there are any.
    #[must_use]
    pub fn params(&self) -> Option<&RawValue> {
        self.params.as_deref()
    }

    /// Puts other params in their place.
    pub fn set_params(&mut self, params: Option<Box<RawValue>>) {
        self.params = params;
    }

    /// Context of the call: its caller, its id, and the values that layers have added. The
    /// handler gets the same context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn read<P: DeserializeOwned>(
        &self,
    ) -> Result<(ContextBuilder<'_>, P), JsonRpcError> {
        let text = self.params().map_or("null", RawValue::get);
        let caller = self.context.peer().caller();
        let detail = caller.config().policy.error_detail;
        let params = serde_json::from_str(text).map_err(|error| match detail {
            ErrorDetail::Minimal => JsonRpcError::invalid_params(),
            _ => {
                let params = self.params().and_then(|raw| RawJson::parse(raw.get()).ok());
                JsonRpcError::wrong_params::<P>(params, &error)
            }
        })?;
        let context = ContextBuilder {
            caller,
            method: self.context.name(),
            id: self.context.id(),
            trace: None,
            built: Some(self.context.clone()),
            is_serial: self.is_serial,
            detached: &self.detached,
        };
        Ok((context, params))
    }
}

/// The handler as a tower service, called by the innermost layer.
#[derive(Clone)]
pub struct Handler(pub(crate) Arc<dyn handler::Handler>);

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

impl Service<IncomingCall> for Handler {
    type Response = Box<RawValue>;
    type Error = JsonRpcError;
    type Future = BoxFuture<Result<Box<RawValue>, JsonRpcError>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), JsonRpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: IncomingCall) -> Self::Future {
        self.0.run_layered(call)
    }
}

/// A handler with layers around it.
pub(crate) struct Layered<S>(S);

impl<S> Layered<S>
where
    S: Service<IncomingCall, Response = Box<RawValue>, Error = JsonRpcError, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    pub(crate) fn around(
        layer: &impl Layer<Handler, Service = S>,
        inner: Arc<dyn handler::Handler>,
    ) -> Self {
        Self(layer.layer(Handler(inner)))
    }
}

impl<S> handler::Handler for Layered<S>
where
    S: Service<IncomingCall, Response = Box<RawValue>, Error = JsonRpcError, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    fn run<'m>(&self, call: &mut HandlerCall<'m, '_, '_>, replies: &mut Replies<'_>) -> Ran<'m> {
        let params = match call.read_params::<Option<Box<RawValue>>>() {
            Ok(params) => params,
            Err(not_run) => return not_run,
        };
        let context = call.context();
        let future = self.run_layered(IncomingCall {
            context: context.context(),
            params,
            is_serial: context.is_serial,
            detached: Arc::clone(context.detached),
        });
        call.poll_first(Box::pin(future), replies)
    }

    fn run_layered(&self, call: IncomingCall) -> BoxFuture<Result<Box<RawValue>, JsonRpcError>> {
        let mut service = self.0.clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await?;
            service.call(call).await
        })
    }
}

/// Makes a layer of an async function that gets the call and what comes next.
///
/// ```
/// use caudal::Router;
/// use caudal::middleware::{self, IncomingCall, Next};
///
/// let log = middleware::from_fn(|call: IncomingCall, next: Next| async move {
///     let method = call.method().to_owned();
///     let result = next.run(call).await;
///     eprintln!("{method}: {}", if result.is_ok() { "ok" } else { "error" });
///     result
/// });
/// let router = Router::new().method("ping", || Ok("pong")).layer(log);
/// # let _ = router;
/// ```
pub fn from_fn<F, Fut>(function: F) -> Middleware<F>
where
    F: Fn(IncomingCall, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Box<RawValue>, JsonRpcError>> + Send + 'static,
{
    Middleware(Arc::new(function))
}

/// A layer made by [`from_fn`].
pub struct Middleware<F>(Arc<F>);

impl<F> Clone for Middleware<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F> fmt::Debug for Middleware<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Middleware")
    }
}

impl<F> Layer<Handler> for Middleware<F> {
    type Service = Around<F>;

    fn layer(&self, inner: Handler) -> Around<F> {
        Around {
            function: Arc::clone(&self.0),
            inner,
        }
    }
}

/// A handler with a [`from_fn`] function around it.
pub struct Around<F> {
    function: Arc<F>,
    inner: Handler,
}

impl<F> Clone for Around<F> {
    fn clone(&self) -> Self {
        Self {
            function: Arc::clone(&self.function),
            inner: self.inner.clone(),
        }
    }
}

impl<F> fmt::Debug for Around<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Around")
    }
}

impl<F, Fut> Service<IncomingCall> for Around<F>
where
    F: Fn(IncomingCall, Next) -> Fut,
    Fut: Future<Output = Result<Box<RawValue>, JsonRpcError>> + Send,
{
    type Response = Box<RawValue>;
    type Error = JsonRpcError;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), JsonRpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: IncomingCall) -> Fut {
        (self.function)(call, Next(self.inner.clone()))
    }
}

/// Rest of the chain after a [`from_fn`] function: the next layer, or the handler.
#[derive(Debug)]
pub struct Next(Handler);

impl Next {
    /// Goes on with the call.
    ///
    /// # Errors
    /// The error returned by the handler or by a layer in between.
    pub async fn run(mut self, call: IncomingCall) -> Result<Box<RawValue>, JsonRpcError> {
        self.0.call(call).await
    }
}
