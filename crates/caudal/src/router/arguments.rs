//! Arguments of handlers: the state, the context and the params of a call.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::context::{Context, ContextBuilder};
use super::no_params::NoParams;
use super::state::State;

/// The arguments of a handler, made of a call and its params.
pub(crate) trait Arguments<S>: 'static {
    type Params: DeserializeOwned + 'static;

    fn make(call: &mut ContextBuilder<'_>, state: &Arc<S>, params: Self::Params) -> Self;
}

impl<S> Arguments<S> for () {
    type Params = NoParams;

    fn make(_: &mut ContextBuilder<'_>, _: &Arc<S>, _: NoParams) {}
}

impl<S, A: LastArgument<S>> Arguments<S> for (A,) {
    type Params = A::Params;

    #[inline]
    fn make(call: &mut ContextBuilder<'_>, state: &Arc<S>, params: A::Params) -> Self {
        (A::make(call, state, params),)
    }
}

impl<S, A: Argument<S>, B: LastArgument<S>> Arguments<S> for (A, B) {
    type Params = B::Params;

    #[inline]
    fn make(call: &mut ContextBuilder<'_>, state: &Arc<S>, params: B::Params) -> Self {
        (A::make(call, state), B::make(call, state, params))
    }
}

impl<S, A: Argument<S>, B: Argument<S>, C: LastArgument<S>> Arguments<S> for (A, B, C) {
    type Params = C::Params;

    #[inline]
    fn make(call: &mut ContextBuilder<'_>, state: &Arc<S>, params: C::Params) -> Self {
        let first = A::make(call, state);
        (first, B::make(call, state), C::make(call, state, params))
    }
}

/// An argument of a handler that is not its params.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand before the params of a handler",
    note = "take several params as one tuple: `|(a, b): (i64, i64)|`, not `|a: i64, b: i64|`",
    note = "only `State<S>` and `Context` stand before the params"
)]
pub(crate) trait Argument<S>: 'static {
    fn make(call: &mut ContextBuilder<'_>, state: &Arc<S>) -> Self;
}

impl<S> Argument<S> for Context {
    fn make(call: &mut ContextBuilder<'_>, _: &Arc<S>) -> Self {
        call.context()
    }
}

impl<S: HasState<T>, T: 'static> Argument<S> for State<T> {
    fn make(_: &mut ContextBuilder<'_>, state: &Arc<S>) -> Self {
        S::share(state)
    }
}

/// The last argument of a handler: its params, or another argument of a handler that takes
/// no params.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the last argument of a handler of this router",
    note = "the last argument is the params, a type that implements `Deserialize`, or `Context`, or `State<S>` of a router that was made with `Router::with_state`"
)]
pub(crate) trait LastArgument<S>: 'static {
    type Params: DeserializeOwned + 'static;

    fn make(call: &mut ContextBuilder<'_>, state: &Arc<S>, params: Self::Params) -> Self;
}

impl<S, P: DeserializeOwned + 'static> LastArgument<S> for P {
    type Params = P;

    #[inline]
    fn make(_: &mut ContextBuilder<'_>, _: &Arc<S>, params: P) -> P {
        params
    }
}

impl<S> LastArgument<S> for Context {
    type Params = NoParams;

    fn make(call: &mut ContextBuilder<'_>, _: &Arc<S>, _: NoParams) -> Self {
        call.context()
    }
}

impl<S: HasState<T>, T: 'static> LastArgument<S> for State<T> {
    type Params = NoParams;

    fn make(_: &mut ContextBuilder<'_>, state: &Arc<S>, _: NoParams) -> Self {
        S::share(state)
    }
}

/// The state of a router is `T`.
#[diagnostic::on_unimplemented(
    message = "the state of this router is `{Self}`, and not `{T}`",
    note = "make the router with its state: `Router::with_state(…)`"
)]
pub(crate) trait HasState<T>: Sized {
    fn share(state: &Arc<Self>) -> State<T>;
}

impl<T> HasState<T> for T {
    fn share(state: &Arc<T>) -> State<T> {
        State(Arc::clone(state))
    }
}
