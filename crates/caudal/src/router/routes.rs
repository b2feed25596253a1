//! The table of a router's methods.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use caudal_core::JsonRpcError;
use serde_json::value::RawValue;
use thiserror::Error;

use super::context::Context;
use super::handler::{ErasedMethod, IntoMethod};
use crate::call::lone::LoneOrigin;
use crate::config::Config;

/// Longer names cannot be registered.
const MAX_NAME: usize = 256;

/// The methods of a router, without the types of its state and errors.
#[derive(Clone)]
pub(crate) struct Routes {
    by_name: HashMap<Arc<str>, Route, BuildHasherDefault<Fnv>>,
    /// Route of names that no handler serves.
    unknown: Route,
    fallback: Option<Route>,
    /// Configuration and limits of [`Router::handle`](super::Router::handle).
    lone: OnceLock<Arc<LoneOrigin>>,
    /// Number of calls that go on though they were cancelled.
    pub(crate) detached: Arc<AtomicUsize>,
}

#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) name: Arc<str>,
    pub(crate) method: ErasedMethod,
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

impl Default for Routes {
    fn default() -> Self {
        let unknown = |cx: Context, _: Option<Box<RawValue>>| {
            let unknown = match cx.peer().caller().config().policy.error_detail {
                caudal_core::ErrorDetail::Minimal => JsonRpcError::method_not_found(),
                _ => JsonRpcError::unknown_method(cx.method()),
            };
            Err::<(), JsonRpcError>(unknown)
        };
        Self {
            by_name: HashMap::default(),
            unknown: Route {
                name: "".into(),
                method: unknown.into_method(&Arc::new(())),
            },
            fallback: None,
            lone: OnceLock::new(),
            detached: Arc::default(),
        }
    }
}

impl Routes {
    /// Registers a method.
    pub(super) fn insert(&mut self, name: &str, method: ErasedMethod) -> Result<(), RegisterError> {
        let name: Arc<str> = checked(name)?.into();
        match self.by_name.entry(Arc::clone(&name)) {
            Entry::Occupied(_) => Err(RegisterError::Twice(name.to_string())),
            Entry::Vacant(entry) => {
                entry.insert(Route { name, method });
                Ok(())
            }
        }
    }

    /// Registers a method in place of one that may have the same name.
    pub(super) fn replace(
        &mut self,
        name: &str,
        method: ErasedMethod,
    ) -> Result<(), RegisterError> {
        self.by_name.remove(checked(name)?);
        self.insert(name, method)
    }

    pub(super) fn set_fallback(&mut self, method: ErasedMethod) {
        self.fallback = Some(Route {
            name: "".into(),
            method,
        });
    }

    /// Registers all methods of another table, with `prefix` before their names.
    pub(super) fn merge(&mut self, prefix: &str, other: Self) -> Result<(), RegisterError> {
        let mut clash = Vec::new();
        let mut routes: Vec<_> = other.by_name.into_iter().collect();
        // So that the same mistake always has the same message.
        routes.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (name, route) in routes {
            match self.insert(&format!("{prefix}{name}"), route.method) {
                Err(RegisterError::Twice(name)) => clash.push(name),
                other => other?,
            }
        }
        if !clash.is_empty() {
            return Err(RegisterError::Clash(clash));
        }
        match (&self.fallback, other.fallback) {
            (_, Some(_)) if !prefix.is_empty() => Err(RegisterError::NamespacedFallback),
            (Some(_), Some(_)) => Err(RegisterError::TwoFallbacks),
            (None, fallback @ Some(_)) => {
                self.fallback = fallback;
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    /// All methods: those with a name, the fallback, and the reply to unknown names.
    pub(super) fn methods_mut(&mut self) -> impl Iterator<Item = &mut ErasedMethod> {
        let named = self.by_name.values_mut();
        let all = named.chain(&mut self.fallback).chain([&mut self.unknown]);
        all.map(|route| &mut route.method)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }

    /// The route for a name, which may be the fallback.
    pub(crate) fn find(&self, name: &str) -> &Route {
        if let Some(route) = self.by_name.get(name) {
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
        self.fallback.is_some() || self.by_name.contains_key(name)
    }

    /// Configuration and limits of messages without a connection.
    pub(super) fn lone(&self) -> &Arc<LoneOrigin> {
        self.lone
            .get_or_init(|| LoneOrigin::new(Arc::default(), None))
    }

    pub(super) fn set_lone_config(&mut self, config: Config) {
        self.lone = OnceLock::from(LoneOrigin::new(Arc::new(config), None));
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

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
