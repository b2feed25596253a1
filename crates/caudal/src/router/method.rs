//! A handler with settings.

use std::fmt;
use std::time::Duration;

/// A handler with settings, for [`Router::method`](crate::Router::method), which accepts a
/// closure alone as well.
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
pub struct Method<H> {
    pub(crate) handler: H,
    pub(crate) settings: Settings,
}

/// A plain function that runs on the blocking pool; see [`Method::blocking`].
#[derive(Clone)]
pub struct Blocking<H>(pub(crate) H);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) serial: bool,
    pub(crate) spawn: bool,
    pub(crate) finish: bool,
    /// True if the handler continues after it was cancelled, because it cannot be stopped.
    pub(crate) blocking: bool,
    pub(crate) timeout: Option<Duration>,
    /// True if the caller must be one that can be called.
    pub(crate) calls_back: bool,
}

impl<H> Method<H> {
    /// A handler without settings.
    ///
    /// ```
    /// use caudal::{Method, Router};
    ///
    /// let method = Method::new(|(n,): (u32,)| async move { Ok(n + 1) });
    /// let router = Router::new().method("increment", method);
    /// # let _ = router;
    /// ```
    pub fn new(handler: H) -> Self {
        Self {
            handler,
            settings: Settings::default(),
        }
    }

    /// Lets no later message of the connection start before a call of this
    /// method has finished, as it is for notifications. Responses pass.
    ///
    /// It may call the other side, but that side's requests wait too: if it must call
    /// back before it can answer, both wait until the call times out.
    ///
    /// ```
    /// use caudal::{Method, Router};
    ///
    /// let router = Router::new()
    ///     .method("initialize", Method::new(|| async { Ok("ready") }).serial());
    /// # let _ = router;
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
    /// use caudal::{Method, Router};
    ///
    /// let sum = Method::new(|| async { Ok((0..1_000).sum::<u64>()) }).spawn();
    /// let router = Router::new().method("sum", sum);
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn spawn(mut self) -> Self {
        self.settings.spawn = true;
        self
    }

    /// Maximum time for a call; none by default. A call that takes longer is ended, and
    /// its reply is -32001 `Request timed out`. A blocking handler goes on and its result is
    /// dropped; if it is [serial](Self::serial) or serves a notification, later messages wait
    /// for its end. A plain function cannot be ended.
    ///
    /// ```
    /// use caudal::{Method, Router};
    /// use std::time::Duration;
    ///
    /// let report = Method::new(|| async { Ok("…") }).timeout(Duration::from_secs(1));
    /// let router = Router::new().method("report", report);
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.settings.timeout = limit.into();
        self
    }

    /// Requires a caller that can be called: the handler calls back. A request that came
    /// without a connection, such as a single POST, is refused with -32011 before the handler
    /// runs.
    ///
    /// ```
    /// use caudal::{Context, Method, Router};
    ///
    /// let rename = Method::new(|cx: Context| async move {
    ///     let name: String = cx.peer().call("ask", ("New name?",)).await?;
    ///     Ok(name)
    /// });
    /// let router = Router::new().method("rename", rename.calls_back());
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn calls_back(mut self) -> Self {
        self.settings.calls_back = true;
        self
    }

    /// Lets a cancelled call go on to its own end: the handler watches
    /// [`Context::cancelled`](crate::Context::cancelled) and answers as it likes. By default
    /// it is dropped.
    ///
    /// Such calls may outlive their connection. While as many of them as
    /// [`Config::in_flight`](crate::Config::in_flight) go on in one server, further
    /// calls of such methods are refused with -32000.
    ///
    /// ```
    /// use caudal::{Context, Method, Router};
    ///
    /// let collect = Method::new(|cx: Context| async move {
    ///     cx.cancelled().await;
    ///     Ok("as far as it came")
    /// });
    /// let router = Router::new().method("collect", collect.finish_when_cancelled());
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn finish_when_cancelled(mut self) -> Self {
        self.settings.finish = true;
        self
    }
}

impl<H> Method<Blocking<H>> {
    /// A plain function that blocks: it runs on the blocking pool.
    ///
    /// ```
    /// use caudal::{JsonRpcError, Method, Router};
    ///
    /// let read = Method::blocking(|(path,): (String,)| {
    ///     std::fs::read_to_string(path).map_err(|_| JsonRpcError::new(1, "no such file"))
    /// });
    /// let router = Router::new().method("read", read);
    /// # let _ = router;
    /// ```
    pub fn blocking(handler: H) -> Self {
        let mut method = Self::new(Blocking(handler));
        method.settings.blocking = true;
        method
    }
}

impl<H> fmt::Debug for Method<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl<H> fmt::Debug for Blocking<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blocking")
    }
}
