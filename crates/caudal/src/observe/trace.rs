//! The trace context of a message: where it stands, and how it is read and written.

use std::borrow::Cow;
use std::collections::HashMap;
use std::slice;
use std::vec;

use caudal_core::{Kind, Message, Notification, RawJson, Request};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Neither member may be longer, in characters.
const LONGEST: usize = 512;

/// Location of the trace context in messages; see [`Config::trace`](crate::Config::trace).
///
/// ```
/// use caudal::{Config, TracePlace};
///
/// assert_eq!(Config::default().trace, TracePlace::Off);
/// let config = Config::default().trace(TracePlace::Meta);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TracePlace {
    /// The trace context is neither read nor written.
    #[default]
    Off,
    /// `traceparent` and `tracestate` are members of the message. A side that [rejects
    /// members](crate::ExtraMembers::Reject) that the specification does not define
    /// rejects these too.
    TopLevel,
    /// They are members of `params._meta`, as in MCP. Params by position have no room
    /// for them. Params that hold nothing else count as none.
    Meta,
}

/// A trace context of the W3C: the trace that a call belongs to.
///
/// It is passed on unchanged; a tracer of the application makes the context of a new span. A
/// context that is malformed, or there twice, counts as none.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
/// use caudal::{Config, Context, Peer, Router, TraceContext, TracePlace};
///
/// let router = Router::new().method("which", |cx: Context| {
///     Ok(cx.trace().map(|trace| trace.parent().to_owned()))
/// });
/// let config = Config::default().trace(TracePlace::TopLevel);
/// let (peer, _server) = Peer::pair_with(Router::new(), router, &config);
///
/// let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let trace = TraceContext::new(parent).unwrap().with_state("vendor=1");
/// let seen: Option<String> = peer.call("which", ()).trace(&trace).await?;
/// assert_eq!(seen.as_deref(), Some(parent));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    parent: Box<str>,
    state: Option<Box<str>>,
}

impl TraceContext {
    /// A context with this `traceparent`: `00-`, 32 hexadecimal digits, `-`, 16 of them,
    /// `-`, 2 of them, in lower case and neither number zero. A later version may have
    /// more behind it. `None` if it is anything else.
    ///
    /// ```
    /// use caudal::TraceContext;
    ///
    /// let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    /// assert_eq!(TraceContext::new(parent).unwrap().parent(), parent);
    /// assert!(TraceContext::new("00-1-2-01").is_none());
    /// ```
    #[must_use]
    pub fn new(parent: impl Into<String>) -> Option<Self> {
        let parent = parent.into();
        is_parent(&parent).then(|| Self {
            parent: parent.into(),
            state: None,
        })
    }

    /// The same with this `tracestate`. One that is longer than 512 characters, empty, or
    /// not of printable ASCII is left out, as the W3C specification allows.
    ///
    /// ```
    /// # use caudal::TraceContext;
    /// # let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    /// let trace = TraceContext::new(parent).unwrap();
    /// assert_eq!(trace.clone().with_state("vendor=1").state(), Some("vendor=1"));
    /// assert_eq!(trace.with_state("x".repeat(513)).state(), None);
    /// ```
    #[must_use]
    pub fn with_state(mut self, state: impl Into<String>) -> Self {
        let state = state.into();
        self.state = is_plain(&state).then(|| state.into());
        self
    }

    /// The `traceparent`.
    #[must_use]
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// The `tracestate`, if there is one.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// `"traceparent":"…","tracestate":"…"`
    pub(crate) fn members(&self) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let mut members = format!(r#""traceparent":{}"#, text(&self.parent));
        if let Some(state) = &self.state {
            members.push_str(r#","tracestate":"#);
            members.push_str(&text(state));
        }
        members
    }

    /// Returns params with this in their `_meta`; `None` if it has no place there.
    pub(crate) fn in_meta(&self, params: Option<&str>) -> Option<Box<RawValue>> {
        let params = self.put_into(params.unwrap_or("{}"))?;
        RawValue::from_string(params).ok()
    }

    fn put_into(&self, params: &str) -> Option<String> {
        let members = self.members();
        let Some(meta) = object(params)?.remove("_meta").map(RawValue::get) else {
            return with_members(params, &format!(r#""_meta":{{{members}}}"#));
        };
        let begin = meta.as_ptr().addr() - params.as_ptr().addr();
        let (before, after) = (params.get(..begin)?, params.get(begin + meta.len()..)?);
        let meta = if meta == "null" { "{}" } else { meta };
        let own = object(meta)?;
        if own.contains_key("traceparent") || own.contains_key("tracestate") {
            return None;
        }
        let meta = with_members(meta, &members)?;
        Some(format!("{before}{meta}{after}"))
    }
}

/// The members of an object; `None` if it is none.
fn object(text: &str) -> Option<HashMap<String, &RawValue>> {
    serde_json::from_str(text).ok()
}

/// An object with these members before its own.
fn with_members(object: &str, members: &str) -> Option<String> {
    let own = object.strip_prefix('{')?;
    let comma = if own.trim_start() == "}" { "" } else { "," };
    Some(format!("{{{members}{comma}{own}"))
}

/// Version 00 to the letter, or a later one that adds to it.
fn is_parent(text: &str) -> bool {
    let mut fields = text.split('-');
    let mut hex = |length| {
        let digits = |field: &str| {
            field
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        fields
            .next()
            .filter(|field| field.len() == length && digits(field))
    };
    let (Some(version), Some(trace), Some(span), Some(_)) = (hex(2), hex(32), hex(16), hex(2))
    else {
        return false;
    };
    let is_zero = |field: &str| field.bytes().all(|b| b == b'0');
    let is_known = version != "ff" && (version != "00" || fields.next().is_none());
    is_known && !is_zero(trace) && !is_zero(span) && is_plain(text)
}

fn is_plain(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

/// The contexts of the calls in a frame, in their order; what is no call has no place
/// among them.
#[derive(Default)]
pub(crate) struct Traces(vec::IntoIter<Option<Box<TraceContext>>>);

impl Traces {
    /// Looks at a frame a second time: `message` is what it was decoded to, so it is
    /// known to be JSON within all limits.
    #[inline]
    pub(crate) fn find(place: TracePlace, frame: &[u8], message: &Message<'_>) -> Self {
        match place {
            TracePlace::TopLevel if entries(message).iter().any(is_call) => {
                Self::at_top_level(frame, message).unwrap_or_default()
            }
            TracePlace::Meta => Self::in_params(message),
            _ => Self::default(),
        }
    }

    fn at_top_level(frame: &[u8], message: &Message<'_>) -> Option<Self> {
        let text = std::str::from_utf8(frame).ok()?;
        let texts = match message {
            Message::Batch(_) => serde_json::from_str::<Vec<&RawValue>>(text).ok()?,
            _ => vec![serde_json::from_str(text).ok()?],
        };
        let calls = entries(message).iter().zip(texts);
        let calls = calls.filter(|(entry, _)| is_call(entry));
        let traces: Vec<_> = calls.map(|(_, text)| read(text.get())).collect();
        Some(Self(traces.into_iter()))
    }

    fn in_params(message: &Message<'_>) -> Self {
        let calls = entries(message).iter().filter_map(call_params);
        let traces: Vec<_> = calls.map(|params| read_meta(params?)).collect();
        Self(traces.into_iter())
    }

    /// The context of the next message; one that is no call has none.
    #[inline]
    pub(crate) fn next(&mut self, message: &Message<'_>) -> Option<Box<TraceContext>> {
        is_call(message).then(|| self.0.next()).flatten()?
    }
}

fn entries<'m, 'a>(message: &'m Message<'a>) -> &'m [Message<'a>] {
    match message {
        Message::Batch(entries) => entries,
        single => slice::from_ref(single),
    }
}

fn is_call(message: &Message<'_>) -> bool {
    call_params(message).is_some()
}

/// The params of a call; `None` if it is none.
fn call_params<'a>(message: &Message<'a>) -> Option<Option<RawJson<'a>>> {
    match message {
        Message::Request(Request { params, .. })
        | Message::Notification(Notification { params, .. }) => Some(*params),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    traceparent: Cow<'a, str>,
    /// An invalid value does not invalidate `traceparent`.
    #[serde(borrow)]
    tracestate: Option<&'a RawValue>,
}

/// Reads the members of an object. An array would do for serde, and does not here.
fn read(object: &str) -> Option<Box<TraceContext>> {
    if !object.starts_with('{') {
        return None;
    }
    let members: Members<'_> = serde_json::from_str(object).ok()?;
    let trace = TraceContext::new(members.traceparent)?;
    let state = members.tracestate.map(RawValue::get);
    Some(Box::new(match state.map(serde_json::from_str::<String>) {
        Some(Ok(state)) => trace.with_state(state),
        _ => trace,
    }))
}

fn read_meta(params: RawJson<'_>) -> Option<Box<TraceContext>> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: &'a RawValue,
    }
    if params.kind() != Kind::Object {
        return None;
    }
    read(params.read::<Params<'_>>().ok()?.meta.get())
}

/// Returns true if params with a trace context in `_meta` hold nothing else.
pub(crate) fn is_all(params: RawJson<'_>) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Params {
        #[serde(rename = "_meta")]
        _meta: Meta,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Meta {
        #[serde(rename = "traceparent")]
        _parent: serde::de::IgnoredAny,
        #[serde(rename = "tracestate", default)]
        _state: serde::de::IgnoredAny,
    }
    params.read::<Params>().is_ok()
}
