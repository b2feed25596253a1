//! Method handlers: closures of several shapes, converted to one form.
//!
//! A handler takes its params as one value (a tuple by position, a struct by
//! name), a [`Context`] before it if it wants one, and is a plain function or
//! returns a future. Both return `Result<T, JsonRpcError>`, or nothing.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task;
use std::time::Duration;

use caudal_core::JsonRpcError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::blocking::{Job, on_blocking_pool};
use super::context::{Context, ContextBuilder};
use super::layer::Incoming;
use super::no_params::NoParams;
use crate::call::replies::{PendingReply, Replies};
use crate::call::{IncomingCall, Ran, incident};

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A handler with its settings, for [`Router::method`](crate::Router::method).
///
/// A closure alone is one too; this is for saying more about it.
///
/// ```
/// use caudal::{Method, Router};
/// use std::time::Duration;
///
/// let router = Router::new()
///     .method("add", |(a, b): (i64, i64)| Ok(a + b))
///     .method("report", Method::new(|(): ()| async { Ok("…") }).timeout(Duration::from_secs(5)))
///     .method("hash", Method::blocking(|(text,): (String,)| Ok(text.len())))
///     .method("initialize", Method::new(|| async { Ok("ready") }).serial());
/// ```
#[derive(Clone)]
pub struct Method {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) settings: Settings,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) serial: bool,
    pub(crate) spawn: bool,
    pub(crate) finish: bool,
    /// True if the handler continues after it was cancelled, because it cannot be stopped.
    pub(crate) blocking: bool,
    pub(crate) timeout: Option<Duration>,
}

impl Method {
    /// A handler without settings.
    ///
    /// ```
    /// let method = caudal::Method::new(|(n,): (u32,)| async move { Ok(n + 1) });
    /// # let _ = method;
    /// ```
    pub fn new<M>(handler: impl IntoMethod<M>) -> Self {
        handler.into_method()
    }

    /// A plain function that blocks: it runs on the blocking pool.
    ///
    /// ```
    /// use caudal::{JsonRpcError, Method};
    ///
    /// let read = Method::blocking(|(path,): (String,)| {
    ///     std::fs::read_to_string(path).map_err(|_| JsonRpcError::new(1, "no such file"))
    /// });
    /// # let _ = read;
    /// ```
    pub fn blocking<M>(handler: impl BlockingHandler<M>) -> Self {
        handler.into_blocking()
    }

    /// Lets no later message of the connection start before a call of this
    /// method has finished, as it is for notifications. Responses pass.
    ///
    /// It may call the other side, but that side's requests wait too: if it must call
    /// back before it can answer, both wait until the call times out.
    ///
    /// ```
    /// let method = caudal::Method::new(|| async { Ok("ready") }).serial();
    /// # let _ = method;
    /// ```
    #[must_use]
    pub fn serial(mut self) -> Self {
        self.settings.serial = true;
        self
    }

    /// Runs each call in a task of its own from the start. By default a handler
    /// is polled once by the connection's task, and moved out if it must wait;
    /// this is for an async one that computes before it waits. A plain function is
    /// not affected: one that takes long is for [`blocking`](Self::blocking).
    ///
    /// Calls still start in the order in which they came: the next message waits until
    /// the task runs. From then on the two overlap, so do not spawn a handler that must
    /// run before the next message changes its data.
    ///
    /// ```
    /// let method = caudal::Method::new(|| async { Ok((0..1_000).sum::<u64>()) }).spawn();
    /// # let _ = method;
    /// ```
    #[must_use]
    pub fn spawn(mut self) -> Self {
        self.settings.spawn = true;
        self
    }

    /// Ends a call that takes longer, and answers -32001 `Request timed out`; zero means no
    /// limit. A blocking handler goes on and its result is dropped; if it is
    /// [serial](Self::serial) or serves a notification, later messages wait for its end. A
    /// plain function cannot be ended.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let method = caudal::Method::new(|| async { Ok(()) }).timeout(Duration::from_secs(1));
    /// # let _ = method;
    /// ```
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.settings.timeout = Some(limit).filter(|limit| !limit.is_zero());
        self
    }

    /// Lets a cancelled call go on to its own end: the handler watches
    /// [`Context::cancelled`] and answers as it likes. By default it is dropped.
    ///
    /// Such calls may outlive their connection. While as many of them as
    /// [`Limits::in_flight`](crate::Limits::in_flight) go on in one server, further
    /// calls of such methods are refused with -32000.
    ///
    /// ```
    /// use caudal::{Context, Method};
    ///
    /// let method = Method::new(|cx: Context| async move {
    ///     cx.cancelled().await;
    ///     Ok("as far as it came")
    /// })
    /// .finish_when_cancelled();
    /// # let _ = method;
    /// ```
    #[must_use]
    pub fn finish_when_cancelled(mut self) -> Self {
        self.settings.finish = true;
        self
    }

    fn of(handler: impl Handler) -> Self {
        Self {
            handler: Arc::new(handler),
            settings: Settings::default(),
        }
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

/// Return value of a handler: `Result<T, JsonRpcError>` with any `T` that serialises,
/// or nothing.
///
/// JSON that is text already is returned as `Box<RawValue>` and copied as it is.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "it returns `Result<T, JsonRpcError>` with a `T` that serialises, or nothing: return `Ok(…)` for a value"
)]
pub trait IntoResult: Send + 'static {
    /// Value that is serialised.
    type Value: Serialize;

    /// Returns the result, or the error to answer with.
    ///
    /// # Errors
    /// The handler's own.
    fn into_result(self) -> Result<Self::Value, JsonRpcError>;
}

impl<T: Serialize + Send + 'static> IntoResult for Result<T, JsonRpcError> {
    type Value = T;

    fn into_result(self) -> Self {
        self
    }
}

impl IntoResult for () {
    type Value = ();

    fn into_result(self) -> Result<(), JsonRpcError> {
        Ok(())
    }
}

/// A closure that can serve a method. `M` is inferred and tells the shapes
/// apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "takes other arguments, or returns something else",
    note = "a handler is `Fn(P)`, `Fn(Context, P)`, `Fn(Context)` or `Fn()`, where `P` is one value that deserialises: a tuple by position, a struct by name",
    note = "take several params as one tuple: `|(a, b): (i64, i64)|`, not `|a: i64, b: i64|`",
    note = "it returns `Result<T, JsonRpcError>`, nothing, or a `Send` future of either: return `Ok(…)` for a value"
)]
pub trait IntoMethod<M> {
    /// The handler in its one form.
    fn into_method(self) -> Method;
}

/// A plain function that can serve a method from the blocking pool.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a blocking handler",
    note = "it takes what any handler takes, and is no `async` one"
)]
pub trait BlockingHandler<M> {
    /// The handler in its one form.
    fn into_blocking(self) -> Method;
}

/// A [`Method`] that is one already.
#[derive(Debug)]
pub struct Ready;
/// A plain function.
#[derive(Debug)]
pub struct Plain;
/// A function that returns a future.
#[derive(Debug)]
pub struct Asynchronous;

impl IntoMethod<Ready> for Method {
    fn into_method(self) -> Method {
        self
    }
}

/// Makes handlers of the closures with one shape of arguments: plain, async and
/// blocking. Each argument has a name and how it is made.
macro_rules! shape {
    ($Shape:ident [$($P:ident)?] $Params:ty, |$cx:ident, $params:ident| ($($name:ident: $A:ty = $make:expr),*)) => {
        #[doc = "The shape of some handlers' arguments."]
        #[derive(Debug)]
        pub struct $Shape;

        impl<F, $($P,)? R> IntoMethod<($Shape, $($P,)? Plain)> for F
        where
            F: Fn($($A),*) -> R + Send + Sync + 'static,
            $($P: DeserializeOwned + Send + 'static,)?
            R: IntoResult,
        {
            fn into_method(self) -> Method {
                Method::of(PlainFn {
                    call: move |$cx: &mut ContextBuilder<'_>, $params: $Params| {
                        $(let $name = $make;)*
                        let _ = $cx;
                        self($($name),*)
                    },
                    shape: PhantomData::<fn($Params) -> R>,
                })
            }
        }

        impl<F, $($P,)? Fut> IntoMethod<($Shape, $($P,)? Asynchronous)> for F
        where
            F: Fn($($A),*) -> Fut + Send + Sync + 'static,
            $($P: DeserializeOwned + Send + 'static,)?
            Fut: Future<Output: IntoResult> + Send + 'static,
        {
            fn into_method(self) -> Method {
                Method::of(AsyncFn {
                    call: move |$cx: &mut ContextBuilder<'_>, $params: $Params| {
                        $(let $name = $make;)*
                        let _ = $cx;
                        self($($name),*)
                    },
                    shape: PhantomData::<fn($Params) -> Fut>,
                })
            }
        }

        impl<F, $($P,)? R> BlockingHandler<($Shape, $($P,)? Plain)> for F
        where
            F: Fn($($A),*) -> R + Send + Sync + 'static,
            $($P: DeserializeOwned + Send + 'static,)?
            R: IntoResult,
        {
            fn into_blocking(self) -> Method {
                let handler = Arc::new(self);
                let mut method = Method::of(AsyncFn {
                    call: move |$cx: &mut ContextBuilder<'_>, $params: $Params| {
                        let handler = Arc::clone(&handler);
                        let job = Job::of($cx);
                        $(let $name = $make;)*
                        on_blocking_pool(job, move || handler($($name),*))
                    },
                    shape: PhantomData,
                });
                method.settings.blocking = true;
                method
            }
        }
    };
}

shape!(Nothing [] NoParams, |cx, _params| ());
shape!(Params [P] P, |cx, params| (params: P = params));
shape!(OnlyContext [] NoParams, |cx, _params| (context: Context = cx.context()));
shape!(ContextAndParams [P] P, |cx, params| (context: Context = cx.context(), params: P = params));

/// A handler of any shape.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Reads the params of a call, runs the handler, and writes the reply unless the
    /// handler must wait.
    fn run<'m>(&self, call: &mut IncomingCall<'m, '_, '_>, replies: &mut Replies<'_>) -> Ran<'m>;

    /// Runs a call that came through layers.
    fn run_layered(&self, call: Incoming) -> BoxFuture<Result<Box<RawValue>, JsonRpcError>>;
}

struct PlainFn<C, S> {
    call: C,
    shape: PhantomData<S>,
}

impl<C, P, R> Handler for PlainFn<C, fn(P) -> R>
where
    C: Fn(&mut ContextBuilder<'_>, P) -> R + Send + Sync + 'static,
    P: DeserializeOwned + 'static,
    R: IntoResult,
{
    fn run<'m>(&self, call: &mut IncomingCall<'m, '_, '_>, replies: &mut Replies<'_>) -> Ran<'m> {
        match call.read_params::<P>() {
            Ok(params) => {
                let result = (self.call)(call.context(), params).into_result();
                call.reply(result, replies)
            }
            Err(not_run) => not_run,
        }
    }

    fn run_layered(&self, call: Incoming) -> BoxFuture<Result<Box<RawValue>, JsonRpcError>> {
        let result = call.read::<P>().and_then(|(mut context, params)| {
            let value = (self.call)(&mut context, params).into_result()?;
            to_raw(call.method(), &value)
        });
        Box::pin(std::future::ready(result))
    }
}

struct AsyncFn<C, S> {
    call: C,
    shape: PhantomData<S>,
}

impl<C, P, Fut> Handler for AsyncFn<C, fn(P) -> Fut>
where
    C: Fn(&mut ContextBuilder<'_>, P) -> Fut + Send + Sync + 'static,
    P: DeserializeOwned + 'static,
    Fut: Future<Output: IntoResult> + Send + 'static,
{
    fn run<'m>(&self, call: &mut IncomingCall<'m, '_, '_>, replies: &mut Replies<'_>) -> Ran<'m> {
        match call.read_params::<P>() {
            Ok(params) => {
                let future = Box::pin((self.call)(call.context(), params));
                call.poll_first(future, replies)
            }
            Err(not_run) => not_run,
        }
    }

    fn run_layered(&self, call: Incoming) -> BoxFuture<Result<Box<RawValue>, JsonRpcError>> {
        match call.read::<P>() {
            Ok((mut context, params)) => {
                let future = (self.call)(&mut context, params);
                let method = Arc::clone(call.context().name());
                Box::pin(async move { to_raw(&method, &future.await.into_result()?) })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// The future of a handler. Its output has a type of its own, so it writes the reply.
pub(crate) trait HandlerFuture: Send {
    fn poll_reply(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        reply: &mut PendingReply<'_>,
        replies: &mut Replies<'_>,
    ) -> task::Poll<()>;
}

impl<F: Future<Output: IntoResult> + Send> HandlerFuture for F {
    fn poll_reply(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        reply: &mut PendingReply<'_>,
        replies: &mut Replies<'_>,
    ) -> task::Poll<()> {
        self.poll(cx)
            .map(|result| replies.result(reply, result.into_result()))
    }
}

/// Serialises a result for a layer.
fn to_raw(method: &str, value: &impl Serialize) -> Result<Box<RawValue>, JsonRpcError> {
    serde_json::value::to_raw_value(value).map_err(|error| incident::report(method, None, || error))
}
