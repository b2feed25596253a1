//! Which handler serves which method.

mod blocking;
pub(crate) mod context;
pub mod handler;
pub mod layer;
mod no_params;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use caudal_core::JsonRpcError;
use serde_json::value::RawValue;
use thiserror::Error;
use tower_layer::Layer;
use tower_service::Service;

use self::context::Context;
use self::handler::{IntoMethod, Method};
use self::layer::{Handler, Incoming, Layered};
use crate::call::lone::{self, LoneExchange, LoneOrigin};
use crate::config::Config;

/// Longer names cannot be registered.
const MAX_NAME: usize = 256;

/// The methods that one side serves. A side without any is a client.
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
///     .notification("log", |(line,): (String,)| eprintln!("{line}"));
/// ```
#[derive(Clone)]
pub struct Router {
    routes: HashMap<Arc<str>, Route, BuildHasherDefault<Fnv>>,
    /// Route of names that no handler serves.
    unknown: Route,
    fallback: Option<Route>,
    /// Configuration and limits of [`handle`](Self::handle).
    lone: OnceLock<Arc<LoneOrigin>>,
    /// Number of calls that go on though they were cancelled.
    pub(crate) detached: Arc<AtomicUsize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) name: Arc<str>,
    pub(crate) method: Method,
}

impl Route {
    /// Returns true if the route serves names that are not registered.
    pub(crate) fn is_fallback(&self) -> bool {
        self.name.is_empty()
    }

    /// Returns true if calls may go on though they were cancelled.
    pub(crate) fn may_detach(&self) -> bool {
        self.method.settings.finish || self.method.settings.blocking
    }
}

/// Why a method was not registered. `Debug` prints the same as `Display`.
///
/// ```
/// use caudal::{RegisterError, Router};
///
/// let mut router = Router::new();
/// let error = router.try_method("rpc.stop", || Ok(())).unwrap_err();
/// assert_eq!(error.to_string(), "`rpc.stop` is reserved: names that begin with `rpc.` belong to the specification");
/// ```
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// There is one already.
    #[error("`{0}` is registered twice; use `replace` to put another handler in its place")]
    Twice(String),
    /// Two routers have methods of the same names; they are in order.
    #[error("both routers have {}; rename them, or use another namespace", listed(.0))]
    Clash(Vec<String>),
    /// The specification keeps `rpc.*` to itself.
    #[error("`{0}` is reserved: names that begin with `rpc.` belong to the specification")]
    Reserved(String),
    /// A name must have something in it.
    #[error("a method's name must not be blank")]
    Blank,
    /// The name is longer than 256 bytes.
    #[error("a method's name has {0} bytes; at most 256 are allowed")]
    TooLong(usize),
    /// A fallback serves any name, and a namespace only some.
    #[error("a router with a fallback cannot be put into a namespace")]
    NamespacedFallback,
    /// Both routers have a fallback.
    #[error("both routers have a fallback")]
    TwoFallbacks,
}

impl fmt::Debug for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn listed(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

impl Default for Router {
    fn default() -> Self {
        Self::new()
    }
}

impl Router {
    /// A router without methods.
    #[must_use]
    pub fn new() -> Self {
        let unknown = Method::new(|cx: Context, _: Option<Box<RawValue>>| {
            let unknown = match cx.peer().caller().config().policy.error_detail {
                caudal_core::ErrorDetail::Minimal => JsonRpcError::method_not_found(),
                _ => JsonRpcError::unknown_method(cx.method()),
            };
            Err::<(), _>(unknown)
        });
        Self {
            routes: HashMap::default(),
            unknown: Route {
                name: "".into(),
                method: unknown,
            },
            fallback: None,
            lone: OnceLock::new(),
            detached: Arc::default(),
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
    pub fn method<M>(mut self, name: &str, handler: impl IntoMethod<M>) -> Self {
        self.expect(|router| router.try_method(name, handler));
        self
    }

    /// Serves a notification, whose handler finishes before any later message of
    /// its connection starts. A request of that name is answered with `null`, or
    /// whatever the handler returns.
    ///
    /// It may call the other side, but not if that must call back before it can
    /// answer: see [Ordering](crate#ordering).
    ///
    /// ```
    /// use caudal::Router;
    ///
    /// let router = Router::new().notification("log", |(line,): (String,)| eprintln!("{line}"));
    /// # let _ = router;
    /// ```
    ///
    /// # Panics
    /// As [`method`](Self::method).
    #[must_use]
    #[track_caller]
    pub fn notification<M>(self, name: &str, handler: impl IntoMethod<M>) -> Self {
        self.method(name, handler)
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
        handler: impl IntoMethod<M>,
    ) -> Result<(), RegisterError> {
        self.insert(checked(name)?, handler.into_method())
    }

    /// Serves a method with another handler than before, or for the first time.
    ///
    /// # Panics
    /// If the name is blank, longer than 256 bytes, or begins with `rpc.`.
    #[must_use]
    #[track_caller]
    pub fn replace<M>(mut self, name: &str, handler: impl IntoMethod<M>) -> Self {
        self.expect(|router| {
            router.routes.remove(checked(name)?);
            router.try_method(name, handler)
        });
        self
    }

    /// Serves every method that has no handler of its own, but for `rpc.*` and names
    /// over 256 bytes; [`Context::method`] has the name.
    ///
    /// ```
    /// use caudal::{Context, Router};
    ///
    /// let echo = Router::new().fallback(|cx: Context| Ok(cx.method().to_owned()));
    /// # let _ = echo;
    /// ```
    #[must_use]
    pub fn fallback<M>(mut self, handler: impl IntoMethod<M>) -> Self {
        self.fallback = Some(Route {
            name: "".into(),
            method: handler.into_method(),
        });
        self
    }

    /// Takes in the methods of another router, with the layers they have there.
    ///
    /// # Panics
    /// If both have a method of the same name, or both a fallback.
    #[must_use]
    #[track_caller]
    pub fn merge(self, other: Self) -> Self {
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
    pub fn namespace(mut self, prefix: &str, other: Self) -> Self {
        self.expect(|router| {
            let mut clash = Vec::new();
            let mut routes: Vec<_> = other.routes.into_iter().collect();
            // So that the same mistake always has the same message.
            routes.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            for (name, route) in routes {
                let name = format!("{prefix}{name}");
                match router.insert(checked(&name)?, route.method) {
                    Err(RegisterError::Twice(name)) => clash.push(name),
                    other => other?,
                }
            }
            if !clash.is_empty() {
                return Err(RegisterError::Clash(clash));
            }
            match (&router.fallback, other.fallback) {
                (_, Some(_)) if !prefix.is_empty() => Err(RegisterError::NamespacedFallback),
                (Some(_), Some(_)) => Err(RegisterError::TwoFallbacks),
                (None, fallback @ Some(_)) => {
                    router.fallback = fallback;
                    Ok(())
                }
                (_, None) => Ok(()),
            }
        });
        self
    }

    /// Puts a layer around every method that is registered so far, and around
    /// the answer to unknown ones. The last layer is the outermost.
    #[must_use]
    pub fn layer<L, S>(mut self, layer: L) -> Self
    where
        L: Layer<Handler, Service = S>,
        S: Service<Incoming, Response = Box<RawValue>, Error = JsonRpcError, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let rest = self
            .fallback
            .as_mut()
            .into_iter()
            .chain([&mut self.unknown]);
        for route in self.routes.values_mut().chain(rest) {
            let inner = Arc::clone(&route.method.handler);
            route.method.handler = Arc::new(Layered::around(&layer, inner));
        }
        self
    }

    /// The names of all methods, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.routes.keys().map(|name| &**name)
    }

    /// Answers one message without any connection: for tests, and for a place
    /// where bytes come and go by other means.
    ///
    /// `None` means that the message needs no reply. Handlers run in the caller's own
    /// task; [`Context::peer`] has no connection to call. A blocking handler, one with a
    /// timeout, and one that finishes though it is cancelled need a tokio runtime, as ever.
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
        let lone = self
            .lone
            .get_or_init(|| LoneOrigin::new(Arc::default(), None));
        lone::run(self, LoneExchange::new(lone), message).await
    }

    /// Sets the configuration of [`handle`](Self::handle): the messages that it accepts, and
    /// its limits. A connection has a [`Config`] of its own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use caudal::{Config, Router};
    ///
    /// let mut config = Config::default();
    /// config.policy.max_message = 16 << 20;
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
        self.lone = OnceLock::from(LoneOrigin::new(Arc::new(config), None));
        self
    }

    /// The route for a name, which may be the fallback.
    pub(crate) fn find(&self, name: &str) -> &Route {
        if let Some(route) = self.routes.get(name) {
            return route;
        }
        // The specification reserves these names, so no handler serves them.
        let served = self.fallback.as_ref();
        let reserved = name.starts_with("rpc.") || name.len() > MAX_NAME;
        served.filter(|_| !reserved).unwrap_or(&self.unknown)
    }

    /// Returns true if this name is served.
    #[cfg(feature = "session")]
    pub(crate) fn serves(&self, name: &str) -> bool {
        self.fallback.is_some() || self.routes.contains_key(name)
    }

    fn insert(&mut self, name: &str, method: Method) -> Result<(), RegisterError> {
        let name: Arc<str> = name.into();
        match self.routes.entry(Arc::clone(&name)) {
            Entry::Occupied(_) => Err(RegisterError::Twice(name.to_string())),
            Entry::Vacant(entry) => {
                entry.insert(Route { name, method });
                Ok(())
            }
        }
    }

    #[track_caller]
    fn expect(&mut self, register: impl FnOnce(&mut Self) -> Result<(), RegisterError>) {
        if let Err(error) = register(self) {
            panic!("{error}");
        }
    }
}

/// FNV-1a: names are short. Only the application chooses the names in the table, so
/// hash collisions are no attack.
#[derive(Clone, Copy)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn checked(name: &str) -> Result<&str, RegisterError> {
    if name.trim().is_empty() {
        Err(RegisterError::Blank)
    } else if name.len() > MAX_NAME {
        Err(RegisterError::TooLong(name.len()))
    } else if name.starts_with("rpc.") {
        Err(RegisterError::Reserved(name.to_owned()))
    } else {
        Ok(name)
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.routes.keys()).finish()
    }
}
