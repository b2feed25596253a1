//! Which handler serves which method.

mod arguments;
mod blocking;
pub(crate) mod context;
pub(crate) mod handler;
pub(crate) mod method;
pub mod middleware;
mod no_params;
pub(crate) mod routes;
pub(crate) mod state;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use caudal_core::JsonRpcError;
use serde_json::value::RawValue;
use tower_layer::Layer;
use tower_service::Service;

use self::handler::IntoMethod;
use self::middleware::{Handler, IncomingCall, Layered};
use self::routes::{RegisterError, Routes};
use self::state::State;
use crate::call::lone::{self, LoneExchange};
use crate::config::Config;

/// The methods that one side serves. A side without any is a client.
///
/// `S` is the state that its methods share, which they take as an argument of the type
/// [`State<S>`](crate::State), and `E` the type of their errors. Both are inferred from
/// how the router is made.
///
/// The state is chosen first, because a handler is bound to it when it is registered: every
/// router can be served as it is, and a handler for another state is an error of the compiler
/// where it is registered. A router has one error type, so that closures with `Ok(…)` and `?`
/// need no annotation. Parts with another state or error type are routers of their own, which
/// [`merge`](Self::merge) or [`namespace`](Self::namespace) puts together.
///
/// ```
/// use caudal::{Context, Router};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Rename { from: String, to: String }
///
/// let router = Router::new()
///     .method("add", |(a, b): (i64, i64)| Ok(a + b)) // plain
///     .method("rename", |names: Rename| async move { Ok(names.to + &names.from) })
///     .method("who", |cx: Context| async move { Ok(cx.method().to_owned()) })
///     .method("log", |(line,): (String,)| eprintln!("{line}"));
/// ```
pub struct Router<S = (), E = JsonRpcError> {
    routes: Routes,
    state: Arc<S>,
    error: PhantomData<fn() -> E>,
}

impl Default for Router {
    fn default() -> Self {
        Self::new()
    }
}

impl<S, E> Clone for Router<S, E> {
    fn clone(&self) -> Self {
        Self {
            routes: self.routes.clone(),
            state: Arc::clone(&self.state),
            error: PhantomData,
        }
    }
}

impl Router {
    /// A router without methods, whose methods share no state.
    #[must_use]
    pub fn new() -> Self {
        Self::with_state(())
    }
}

impl<S> Router<S> {
    /// A router whose methods share this state: a handler that needs it takes
    /// [`State<S>`](crate::State) as its first argument.
    ///
    /// A handler that asks for the state of another type does not compile. Routers of
    /// different states can be [merged](Self::merge).
    ///
    /// ```
    /// use caudal::{JsonRpcError, Router, State};
    /// use std::collections::HashMap;
    ///
    /// struct Prices(HashMap<String, u32>);
    ///
    /// let prices = Prices(HashMap::from([("tea".to_owned(), 3)]));
    /// let router = Router::with_state(prices)
    ///     .method("price", |prices: State<Prices>, (name,): (String,)| {
    ///         let price = prices.0.get(&name).copied();
    ///         price.ok_or_else(|| JsonRpcError::new(1, "not sold here"))
    ///     })
    ///     .method("ping", || Ok("pong"));
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn with_state(state: S) -> Self {
        Self {
            routes: Routes::default(),
            state: Arc::new(state),
            error: PhantomData,
        }
    }
}

impl<S, E> Router<S, E> {
    /// Returns the state, to share it with code outside of the methods.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::Error> {
    /// use caudal::{Router, State};
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// let router = Router::with_state(AtomicUsize::new(0))
    ///     .method("clients", |count: State<AtomicUsize>| Ok(count.load(Relaxed)));
    /// let (joined, left) = (router.state(), router.state());
    /// let server = caudal::serve("tcp://127.0.0.1:0", router)
    ///     .on_connect(move |_peer| {
    ///         joined.fetch_add(1, Relaxed);
    ///         async { Ok(()) }
    ///     })
    ///     .on_disconnect(move |_peer, _reason| {
    ///         left.fetch_sub(1, Relaxed);
    ///         async {}
    ///     })
    ///     .await?;
    /// # let _ = server; Ok(()) }
    /// ```
    #[must_use]
    pub fn state(&self) -> State<S> {
        State(Arc::clone(&self.state))
    }

    /// Sets the error type of the methods that are registered from here on. Handlers that
    /// call back use `?` if it implements `From<CallError>`, too. It is
    /// [`JsonRpcError`] by default.
    ///
    /// ```
    /// use caudal::{JsonRpcError, Router};
    ///
    /// enum AppError {
    ///     NotFound(u64),
    /// }
    ///
    /// impl From<AppError> for JsonRpcError {
    ///     fn from(error: AppError) -> Self {
    ///         match error {
    ///             AppError::NotFound(id) => Self::new(1, format!("there is no item {id}")),
    ///         }
    ///     }
    /// }
    ///
    /// fn find(id: u64) -> Result<String, AppError> {
    ///     Err(AppError::NotFound(id))
    /// }
    ///
    /// let router = Router::new()
    ///     .error_type::<AppError>()
    ///     .method("find", |(id,): (u64,)| find(id))
    ///     .method("name", |(id,): (u64,)| Ok(find(id)?.to_uppercase()));
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn error_type<E2: Into<JsonRpcError>>(self) -> Router<S, E2> {
        Router {
            routes: self.routes,
            state: self.state,
            error: PhantomData,
        }
    }

    /// Serves a method. It is called for notifications of that name too; their
    /// results are discarded.
    ///
    /// The params are one value: a tuple by position, a struct by name. So one param
    /// is a tuple of one, `|(n,): (u32,)|`; `|n: u32|` would want a bare number in
    /// the place of all params, which the specification does not allow. A call may
    /// leave params out where they are an `Option`, and members where they have a default;
    /// a tuple has all its places.
    ///
    /// ```
    /// use caudal::{Context, JsonRpcError, Router};
    ///
    /// #[derive(Default, serde::Deserialize)]
    /// #[serde(default)]
    /// struct Page {
    ///     first: u32,
    /// }
    ///
    /// let router = Router::new()
    ///     .method("list", |page: Option<Page>| Ok(page.unwrap_or_default().first))
    ///     .method("double", |(n,): (u32,)| Ok(n * 2))
    ///     .method("divide", |(a, b): (i64, i64)| {
    ///         a.checked_div(b).ok_or_else(|| JsonRpcError::new(1, "by zero"))
    ///     })
    ///     .method("greet", |cx: Context| async move {
    ///         let name: String = cx.peer().call("name", ()).await?;
    ///         Ok(format!("hello {name}"))
    ///     });
    /// # let _ = router;
    /// ```
    ///
    /// # Panics
    /// If the name is taken, blank, longer than 256 bytes, or begins with
    /// `rpc.`. For names that are known only at run time there is
    /// [`try_method`](Self::try_method).
    #[must_use]
    #[track_caller]
    pub fn method<M>(mut self, name: &str, handler: impl IntoMethod<S, E, M>) -> Self {
        expect(self.try_method(name, handler));
        self
    }

    /// Serves a method whose name is known only at run time.
    ///
    /// # Errors
    /// [`RegisterError`], and nothing has changed.
    ///
    /// ```
    /// use caudal::Router;
    ///
    /// let mut router = Router::new();
    /// for table in ["users", "orders"] {
    ///     router.try_method(&format!("{table}.count"), move || Ok(table.len()))?;
    /// }
    /// # Ok::<(), caudal::RegisterError>(())
    /// ```
    pub fn try_method<M>(
        &mut self,
        name: &str,
        handler: impl IntoMethod<S, E, M>,
    ) -> Result<(), RegisterError> {
        self.routes.insert(name, handler.into_method(&self.state))
    }

    /// Serves a method with another handler than before, or for the first time.
    ///
    /// # Panics
    /// If the name is blank, longer than 256 bytes, or begins with `rpc.`.
    #[must_use]
    #[track_caller]
    pub fn replace<M>(mut self, name: &str, handler: impl IntoMethod<S, E, M>) -> Self {
        expect(self.routes.replace(name, handler.into_method(&self.state)));
        self
    }

    /// Serves every method that has no handler of its own, but for `rpc.*` and names
    /// over 256 bytes; [`Context::method`](crate::Context::method) has the name.
    ///
    /// ```
    /// use caudal::{Context, Router};
    ///
    /// let echo = Router::new().fallback(|cx: Context| Ok(cx.method().to_owned()));
    /// # let _ = echo;
    /// ```
    #[must_use]
    pub fn fallback<M>(mut self, handler: impl IntoMethod<S, E, M>) -> Self {
        self.routes.set_fallback(handler.into_method(&self.state));
        self
    }

    /// Takes in the methods of another router, with the layers and the state they have there.
    ///
    /// # Panics
    /// If both have a method of the same name, or both a fallback.
    #[must_use]
    #[track_caller]
    pub fn merge<S2, E2>(self, other: Router<S2, E2>) -> Self {
        self.namespace("", other)
    }

    /// Takes in the methods of another router, with `prefix` before their names.
    ///
    /// The prefix is taken as it is: `"tools/"`, `"eth_"`, `"calc."`.
    ///
    /// # Panics
    /// If a name is then taken, too long, or reserved, or the other has a fallback.
    ///
    /// ```
    /// use caudal::Router;
    ///
    /// let calc = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    /// let router = Router::new().namespace("calc.", calc);
    /// assert_eq!(router.names().collect::<Vec<_>>(), ["calc.add"]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn namespace<S2, E2>(mut self, prefix: &str, other: Router<S2, E2>) -> Self {
        expect(self.routes.merge(prefix, other.routes));
        self
    }

    /// Puts a layer around every method that is registered so far, and around
    /// the answer to unknown ones. The last layer is the outermost.
    #[must_use]
    pub fn layer<L, T>(mut self, layer: L) -> Self
    where
        L: Layer<Handler, Service = T>,
        T: Service<IncomingCall, Response = Box<RawValue>, Error = JsonRpcError, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        for method in self.routes.methods_mut() {
            let inner = Arc::clone(&method.handler);
            method.handler = Arc::new(Layered::around(&layer, inner));
        }
        self
    }

    /// The names of all methods, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.routes.names()
    }

    /// Answers one message without any connection: for tests, and for a place
    /// where bytes come and go by other means.
    ///
    /// `None` means that the message needs no reply. Handlers run in the caller's own
    /// task; [`Context::peer`](crate::Context::peer) has no connection to call. A blocking
    /// handler, one with a timeout, and one that finishes though it is cancelled need a tokio
    /// runtime, as ever.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use caudal::Router;
    ///
    /// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    /// let answer = router.handle(br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#).await;
    /// assert_eq!(answer.unwrap(), &br#"{"jsonrpc":"2.0","id":1,"result":3}"#[..]);
    /// # }
    /// ```
    pub async fn handle(&self, message: &[u8]) -> Option<Bytes> {
        let exchange = LoneExchange::new(self.routes.lone());
        lone::run(&self.routes, exchange, message).await
    }

    /// Sets the configuration of [`handle`](Self::handle): the messages that it accepts, and
    /// its limits. A connection has a [`Config`] of its own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use caudal::{Config, Router};
    ///
    /// let config = Config::default().max_message(16 << 20);
    /// let router = Router::new()
    ///     .method("size", |(text,): (String,)| Ok(text.len()))
    ///     .handle_config(config);
    /// let large = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"size","params":["{}"]}}"#, "x".repeat(2 << 20));
    /// let answer = router.handle(large.as_bytes()).await;
    /// assert_eq!(answer.unwrap(), &br#"{"jsonrpc":"2.0","id":1,"result":2097152}"#[..]);
    /// # }
    /// ```
    #[must_use]
    pub fn handle_config(mut self, config: Config) -> Self {
        self.routes.set_lone_config(config);
        self
    }

    pub(crate) fn into_routes(self) -> Routes {
        self.routes
    }
}

#[track_caller]
fn expect(registered: Result<(), RegisterError>) {
    if let Err(error) = registered {
        panic!("{error}");
    }
}

impl<S, E> fmt::Debug for Router<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.routes.fmt(f)
    }
}
