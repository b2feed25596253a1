//! Handlers: closures of several shapes, converted to one form.
//!
//! The arguments of a closure decide its shape: [`HandlerFn`] is implemented for closures
//! of zero to three arguments, and [`Arguments`] makes the arguments of a call. The return
//! value is checked after that, by [`Outcome`] and [`Converts`], so that an error of the
//! compiler names the type that is wrong. [`IntoMethod`] is all of this as one bound.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task;

use caudal_core::JsonRpcError;
use futures_util::FutureExt;
use pin_project_lite::pin_project;
use serde::Serialize;
use serde_json::value::RawValue;

use self::marker::{Asynchronous, Fallible, Immediate, Infallible};
use super::arguments::Arguments;
use super::blocking::{Job, on_blocking_pool};
use super::context::ContextBuilder;
use super::method::{Blocking, Method, Settings};
use super::middleware::IncomingCall;
use crate::call::replies::{PendingReply, Replies};
use crate::call::{HandlerCall, Ran, incident};

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A handler of a [`Router<S, E>`](crate::Router): a closure, a function, or a
/// [`Method`](crate::Method) with settings.
///
/// Its last argument is the params: one value that implements `Deserialize` and owns what it
/// holds (`String`, not `&str`). A tuple takes them by position; a struct takes them by name,
/// and in the order of its fields by position. Before the params it may take
/// [`State<S>`](crate::State) and [`Context`](crate::Context), and it may leave out any of
/// the three.
///
/// It returns `Result<T, E>` with a `T` that implements `Serialize`, or nothing, or a `Send`
/// future of either. JSON that is text already is returned as `Box<RawValue>` and copied as
/// it is. `M` is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a closure that can serve a method",
    note = "a handler takes up to three arguments: `State<S>`, `Context`, and last its params, one value that implements `Deserialize`",
    note = "it is `Fn`, `Send`, `Sync` and `'static`",
    note = "a blocking handler is a plain function, and not an async one"
)]
pub trait IntoMethod<S, E, M> {
    #[doc(hidden)]
    fn into_method(self, state: &Arc<S>) -> ErasedMethod;
}

impl<H, S, A, E, W, K> IntoMethod<S, E, (A, W, K)> for H
where
    H: HandlerFn<A, Output: Outcome<W, K> + Send + 'static>,
    S: Send + Sync + 'static,
    A: Arguments<S>,
    E: 'static,
    W: 'static,
    K: Converts<E, <H::Output as Outcome<W, K>>::Result> + 'static,
{
    fn into_method(self, state: &Arc<S>) -> ErasedMethod {
        ErasedMethod {
            settings: self.settings(),
            handler: Arc::new(FnHandler {
                function: self,
                state: Arc::clone(state),
                shape: PhantomData,
            }),
        }
    }
}

impl<H, S, A, E, K> IntoMethod<S, E, (A, K)> for Method<Blocking<H>>
where
    H: HandlerFn<A, Output: HandlerResult<K> + Send + 'static>,
    S: Send + Sync + 'static,
    A: Arguments<S> + Send,
    E: 'static,
    K: Converts<E, H::Output> + 'static,
{
    fn into_method(self, state: &Arc<S>) -> ErasedMethod {
        ErasedMethod {
            settings: self.settings,
            handler: Arc::new(BlockingHandler {
                function: Arc::new(self.handler.0),
                state: Arc::clone(state),
                shape: PhantomData,
            }),
        }
    }
}

/// A handler without its type, and its settings.
#[derive(Clone)]
#[doc(hidden)]
pub struct ErasedMethod {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) settings: Settings,
}

impl fmt::Debug for ErasedMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

/// A function that can be called with the arguments `A`, which are a tuple.
pub(crate) trait HandlerFn<A>: Send + Sync + 'static {
    type Output;

    fn call(&self, arguments: A) -> Self::Output;

    fn settings(&self) -> Settings {
        Settings::default()
    }
}

macro_rules! handler_fn {
    ($($A:ident $a:ident),*) => {
        impl<F, $($A,)* R> HandlerFn<($($A,)*)> for F
        where
            F: Fn($($A),*) -> R + Send + Sync + 'static,
        {
            type Output = R;

            #[inline]
            fn call(&self, ($($a,)*): ($($A,)*)) -> R {
                self($($a),*)
            }
        }
    };
}
handler_fn!();
handler_fn!(A a);
handler_fn!(A a, B b);
handler_fn!(A a, B b, C c);

impl<H: HandlerFn<A>, A> HandlerFn<A> for Method<H> {
    type Output = H::Output;

    #[inline]
    fn call(&self, arguments: A) -> H::Output {
        self.handler.call(arguments)
    }

    fn settings(&self) -> Settings {
        self.settings
    }
}

/// Markers of the kinds of handlers.
#[expect(
    unreachable_pub,
    reason = "the compiler infers them in the crate that registers a method, which may not name a private type"
)]
mod marker {
    /// The handler returns its result.
    #[derive(Debug)]
    pub enum Immediate {}
    /// The handler returns a future of its result.
    #[derive(Debug)]
    pub enum Asynchronous {}
    /// The result is a `Result`.
    #[derive(Debug)]
    pub enum Fallible {}
    /// The result is `()`.
    #[derive(Debug)]
    pub enum Infallible {}
}

/// Result of a handler, which decides its marker `K`.
pub(crate) trait HandlerResult<K> {}

impl<T, E> HandlerResult<Fallible> for Result<T, E> {}
impl HandlerResult<Infallible> for () {}

/// Conversion of a handler's result `R`, in a router with the error type `E`.
///
/// The error of `R` must be `E` itself, so that its type is known for a closure that only
/// returns `Ok(…)`.
#[diagnostic::on_unimplemented(
    message = "the error type of this router is `{E}`, and its handlers cannot return `{R}`",
    note = "`Router::new().error_type::<AppError>()` sets the error type; it is `JsonRpcError` by default",
    note = "routers of different error types can be merged"
)]
pub(crate) trait Converts<E, R> {
    type Value: Serialize + 'static;

    fn convert(result: R) -> Result<Self::Value, JsonRpcError>;
}

impl<T: Serialize + 'static, E: Into<JsonRpcError>> Converts<E, Result<T, E>> for Fallible {
    type Value = T;

    #[inline]
    fn convert(result: Result<T, E>) -> Result<T, JsonRpcError> {
        result.map_err(Into::into)
    }
}

impl<E> Converts<E, ()> for Infallible {
    type Value = ();

    fn convert((): ()) -> Result<(), JsonRpcError> {
        Ok(())
    }
}

/// Return value of a handler: its result, or a future of it.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "it returns `Result<T, E>` with a `T` that implements `Serialize`, or nothing, or a future of either: return `Ok(…)` for a value"
)]
pub(crate) trait Outcome<W, K>: Sized {
    type Result: HandlerResult<K>;

    /// Writes the reply, unless the handler must wait.
    fn reply<'m, E: 'static>(
        self,
        call: &mut HandlerCall<'m, '_, '_>,
        replies: &mut Replies<'_>,
    ) -> Ran<'m>
    where
        Self: Send + 'static,
        K: Converts<E, Self::Result>;

    /// Returns the result as a layer receives it.
    fn layered<E>(self, method: Arc<str>) -> BoxFuture<Result<Box<RawValue>, JsonRpcError>>
    where
        Self: Send + 'static,
        K: Converts<E, Self::Result>;
}

impl<R: HandlerResult<K>, K: 'static> Outcome<Immediate, K> for R {
    type Result = R;

    #[inline]
    fn reply<'m, E: 'static>(
        self,
        call: &mut HandlerCall<'m, '_, '_>,
        replies: &mut Replies<'_>,
    ) -> Ran<'m>
    where
        K: Converts<E, R>,
    {
        call.reply(K::convert(self), replies)
    }

    fn layered<E>(self, method: Arc<str>) -> BoxFuture<Result<Box<RawValue>, JsonRpcError>>
    where
        K: Converts<E, R>,
    {
        let result = K::convert(self).and_then(|value| to_raw(&method, &value));
        Box::pin(std::future::ready(result))
    }
}

impl<F: Future<Output: HandlerResult<K>>, K: 'static> Outcome<Asynchronous, K> for F {
    type Result = F::Output;

    fn reply<'m, E: 'static>(
        self,
        call: &mut HandlerCall<'m, '_, '_>,
        replies: &mut Replies<'_>,
    ) -> Ran<'m>
    where
        F: Send + 'static,
        K: Converts<E, F::Output>,
    {
        let future = Replying {
            future: self,
            kind: PhantomData::<fn(E) -> K>,
        };
        call.poll_first(Box::pin(future), replies)
    }

    fn layered<E>(self, method: Arc<str>) -> BoxFuture<Result<Box<RawValue>, JsonRpcError>>
    where
        F: Send + 'static,
        K: Converts<E, F::Output>,
    {
        Box::pin(self.map(move |result| to_raw(&method, &K::convert(result)?)))
    }
}

/// A handler of any shape.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Reads the params of a call, runs the handler, and writes the reply unless the
    /// handler must wait.
    fn run<'m>(&self, call: &mut HandlerCall<'m, '_, '_>, replies: &mut Replies<'_>) -> Ran<'m>;

    /// Runs a call that came through layers.
    fn run_layered(&self, call: IncomingCall) -> BoxFuture<Result<Box<RawValue>, JsonRpcError>>;
}

/// Types of a handler that none of its fields has.
type Shape<A, E, K> = PhantomData<fn(A, E) -> K>;

/// A function with arguments `A`, in a router with the state `S` and the error type `E`.
struct FnHandler<H, S, A, E, W, K> {
    function: H,
    state: Arc<S>,
    shape: Shape<A, E, (W, K)>,
}

impl<H, S, A, E, W, K> Handler for FnHandler<H, S, A, E, W, K>
where
    H: HandlerFn<A, Output: Outcome<W, K> + Send + 'static>,
    S: Send + Sync + 'static,
    A: Arguments<S>,
    E: 'static,
    W: 'static,
    K: Converts<E, <H::Output as Outcome<W, K>>::Result> + 'static,
{
    fn run<'m>(&self, call: &mut HandlerCall<'m, '_, '_>, replies: &mut Replies<'_>) -> Ran<'m> {
        match call.read_params::<A::Params>() {
            Ok(params) => {
                let arguments = A::make(call.context(), &self.state, params);
                self.function.call(arguments).reply::<E>(call, replies)
            }
            Err(not_run) => not_run,
        }
    }

    fn run_layered(&self, call: IncomingCall) -> BoxFuture<Result<Box<RawValue>, JsonRpcError>> {
        match call.read::<A::Params>() {
            Ok((mut context, params)) => {
                let arguments = A::make(&mut context, &self.state, params);
                let method = Arc::clone(call.context().name());
                self.function.call(arguments).layered::<E>(method)
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// A plain function that runs on the blocking pool.
struct BlockingHandler<H, S, A, E, K> {
    function: Arc<H>,
    state: Arc<S>,
    shape: Shape<A, E, K>,
}

impl<H, S, A, E, K> BlockingHandler<H, S, A, E, K>
where
    H: HandlerFn<A, Output: HandlerResult<K> + Send + 'static>,
    A: Arguments<S> + Send,
{
    fn start(
        &self,
        call: &mut ContextBuilder<'_>,
        params: A::Params,
    ) -> impl Future<Output = H::Output> + Send + 'static + use<H, S, A, E, K> {
        let job = Job::of(call);
        let arguments = A::make(call, &self.state, params);
        let function = Arc::clone(&self.function);
        on_blocking_pool(job, move || function.call(arguments))
    }
}

impl<H, S, A, E, K> Handler for BlockingHandler<H, S, A, E, K>
where
    H: HandlerFn<A, Output: HandlerResult<K> + Send + 'static>,
    S: Send + Sync + 'static,
    A: Arguments<S> + Send,
    E: 'static,
    K: Converts<E, H::Output> + 'static,
{
    fn run<'m>(&self, call: &mut HandlerCall<'m, '_, '_>, replies: &mut Replies<'_>) -> Ran<'m> {
        match call.read_params::<A::Params>() {
            Ok(params) => {
                let future = self.start(call.context(), params);
                Outcome::<Asynchronous, K>::reply::<E>(future, call, replies)
            }
            Err(not_run) => not_run,
        }
    }

    fn run_layered(&self, call: IncomingCall) -> BoxFuture<Result<Box<RawValue>, JsonRpcError>> {
        match call.read::<A::Params>() {
            Ok((mut context, params)) => {
                let future = self.start(&mut context, params);
                let method = Arc::clone(call.context().name());
                Outcome::<Asynchronous, K>::layered::<E>(future, method)
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// The future of a handler that runs. Its output has a type of its own, so it writes the reply.
pub(crate) trait HandlerFuture: Send {
    fn poll_reply(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        reply: &mut PendingReply<'_>,
        replies: &mut Replies<'_>,
    ) -> task::Poll<()>;
}

impl<F, T> HandlerFuture for F
where
    F: Future<Output = Result<T, JsonRpcError>> + Send,
    T: Serialize,
{
    fn poll_reply(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        reply: &mut PendingReply<'_>,
        replies: &mut Replies<'_>,
    ) -> task::Poll<()> {
        self.poll(cx).map(|result| replies.result(reply, result))
    }
}

pin_project! {
    /// The future of a handler, with what converts its output. The future is dropped after
    /// the reply is written, since dropping it may panic.
    struct Replying<F, K> {
        #[pin]
        future: F,
        kind: PhantomData<K>,
    }
}

impl<F, E, K> HandlerFuture for Replying<F, fn(E) -> K>
where
    F: Future<Output: HandlerResult<K>> + Send,
    K: Converts<E, F::Output>,
{
    fn poll_reply(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        reply: &mut PendingReply<'_>,
        replies: &mut Replies<'_>,
    ) -> task::Poll<()> {
        let output = self.project().future.poll(cx);
        output.map(|output| replies.result(reply, K::convert(output)))
    }
}

/// Serialises a result for a layer.
fn to_raw(method: &str, value: &impl Serialize) -> Result<Box<RawValue>, JsonRpcError> {
    serde_json::value::to_raw_value(value).map_err(|error| incident::report(method, None, || error))
}
