//! Outgoing calls that wait for their responses.
//!
//! [`Pending`] finds the waiting caller of a response by its id, keeps the
//! deadlines, and limits the number of calls. It has no clock and does no I/O:
//! the caller passes the time in. Every call leaves the table exactly once:
//! answered, expired, cancelled or closed.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use caudal_core::pending::{IdFormat, Pending};
//!
//! let mut pending = Pending::new(1024, IdFormat::Integer);
//! let deadline = Instant::now() + Duration::from_secs(30);
//! let id = pending.insert("waiter", Some(deadline))?;
//! assert_eq!(pending.cancel(id), Some("waiter"));
//! # Ok::<(), caudal_core::CallError>(())
//! ```

mod call_id;
mod uuid;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

pub use call_id::{CallId, IdFormat};

use crate::decode::Id;
use crate::error::{CallError, CloseReason};
use crate::policy::OldResponses;

/// Table of the outgoing calls of one connection that wait for a response.
///
/// `W` is the waiting caller: a waker, a channel, an index.
///
/// ```
/// use std::time::{Duration, Instant};
/// use caudal_core::{IdFormat, Message, Pending, Policy, decode, encode};
///
/// let mut pending = Pending::new(1024, IdFormat::Integer);
/// let deadline = Instant::now() + Duration::from_secs(30);
/// let id = pending.insert("the waiter", Some(deadline))?;
///
/// let mut sent = Vec::new();
/// encode::call(&mut sent, id, "ping", &())?;
/// assert_eq!(sent, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
///
/// let reply = br#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#;
/// let Message::Response(response) = decode(reply, &Policy::default()) else { panic!() };
/// assert_eq!(pending.take(response.id), Some("the waiter"));
/// assert_eq!(pending.take(response.id), None); // the call no longer waits
/// # Ok::<(), caudal_core::CallError>(())
/// ```
#[derive(Debug)]
pub struct Pending<W> {
    calls: BTreeMap<CallId, Call<W>>,
    /// Calls that have a deadline, in the order of the deadlines.
    deadlines: BTreeSet<(Instant, CallId)>,
    format: IdFormat,
    /// Number of the last call. It only grows, so no id is used twice, and stays
    /// below 2^53, up to which every JSON parser reads integers exactly, for
    /// centuries.
    last: i64,
    limit: usize,
    old_responses: OldResponses,
    closed: Option<CloseReason>,
}

#[derive(Debug)]
struct Call<W> {
    waiter: W,
    deadline: Option<Instant>,
}

impl<W> Pending<W> {
    /// Creates an empty table for at most `limit` calls.
    ///
    /// ```
    /// # use caudal_core::{IdFormat, Pending};
    /// let pending = Pending::<()>::new(1024, IdFormat::Uuid);
    /// assert!(pending.is_empty());
    /// ```
    #[must_use]
    pub const fn new(limit: usize, format: IdFormat) -> Self {
        Self {
            calls: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            format,
            last: 0,
            limit,
            old_responses: OldResponses::Reject,
            closed: None,
        }
    }

    /// Returns the table with another choice for ids that come back as strings:
    /// [`OldResponses::Accept`] lets `"1"` answer call 1. The default is to reject them.
    ///
    /// ```
    /// # use caudal_core::{Id, IdFormat, OldResponses, Pending};
    /// let pending = Pending::new(8, IdFormat::Integer);
    /// let mut pending = pending.with_old_responses(OldResponses::Accept);
    /// pending.insert("waiter", None)?;
    /// assert_eq!(pending.take(Id::parse("\"1\"")?), Some("waiter"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn with_old_responses(mut self, old_responses: OldResponses) -> Self {
        self.old_responses = old_responses;
        self
    }

    /// Returns the number of calls that wait.
    ///
    /// ```
    /// # use caudal_core::{IdFormat, Pending};
    /// let mut pending = Pending::new(1024, IdFormat::Integer);
    /// pending.insert((), None)?;
    /// assert_eq!(pending.len(), 1);
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if no call waits.
    ///
    /// ```
    /// # use caudal_core::{IdFormat, Pending};
    /// assert!(Pending::<()>::new(1, IdFormat::Integer).is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a call and returns the id to send.
    ///
    /// Without a deadline the call waits until it is answered, cancelled or closed.
    /// If the request cannot be written, [`cancel`](Self::cancel) the call.
    ///
    /// # Errors
    /// [`CallError::TooManyPending`] at the limit, [`CallError::AlreadyClosed`]
    /// after [`close`](Self::close). The call is then not added.
    ///
    /// ```
    /// # use caudal_core::{CallError, IdFormat, Pending};
    /// let mut pending = Pending::new(1, IdFormat::Integer);
    /// pending.insert("first", None)?;
    /// let error = pending.insert("second", None).unwrap_err();
    /// assert!(matches!(error, CallError::TooManyPending { limit: 1 }));
    /// # Ok::<(), CallError>(())
    /// ```
    pub fn insert(&mut self, waiter: W, deadline: Option<Instant>) -> Result<CallId, CallError> {
        if let Some(reason) = &self.closed {
            return Err(CallError::AlreadyClosed(reason.clone()));
        }
        if self.len() >= self.limit {
            return Err(CallError::TooManyPending { limit: self.limit });
        }
        let id = self.next_id();
        self.calls.insert(id, Call { waiter, deadline });
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
        Ok(id)
    }

    fn next_id(&mut self) -> CallId {
        match self.format {
            IdFormat::Integer => {
                self.last += 1;
                CallId::integer(self.last)
            }
            IdFormat::Uuid => CallId::random_uuid(),
        }
    }

    /// Removes the call that a response with this id answers, and returns its waiter.
    ///
    /// A late, repeated or foreign id finds no call. Ids are compared as JSON
    /// values: `1.0` is `1`, and `"1"` is not, unless
    /// [`with_old_responses`](Self::with_old_responses) says otherwise.
    ///
    /// ```
    /// # use caudal_core::{Id, IdFormat, Pending};
    /// let mut pending = Pending::new(1, IdFormat::Integer);
    /// pending.insert((), None)?;
    /// assert_eq!(pending.take(Id::NULL), None);
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    pub fn take(&mut self, id: Id<'_>) -> Option<W> {
        self.cancel(CallId::of_response(id, self.format, self.old_responses)?)
    }

    /// Removes a call, and returns its waiter if it still waited.
    ///
    /// ```
    /// # use caudal_core::{IdFormat, Pending};
    /// let mut pending = Pending::new(1, IdFormat::Integer);
    /// let id = pending.insert("waiter", None)?;
    /// assert_eq!(pending.cancel(id), Some("waiter"));
    /// assert_eq!(pending.cancel(id), None);
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    pub fn cancel(&mut self, id: CallId) -> Option<W> {
        let call = self.calls.remove(&id)?;
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(call.waiter)
    }

    /// Replaces the deadline of a call; returns false if the call no longer waits.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # use caudal_core::{IdFormat, Pending};
    /// let now = Instant::now();
    /// let mut pending = Pending::new(1, IdFormat::Integer);
    /// let id = pending.insert((), Some(now))?;
    /// assert!(pending.set_deadline(id, None));
    /// assert_eq!(pending.expire(now + Duration::from_secs(1)).count(), 0);
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    pub fn set_deadline(&mut self, id: CallId, deadline: Option<Instant>) -> bool {
        let Some(call) = self.calls.get_mut(&id) else {
            return false;
        };
        if let Some(old) = std::mem::replace(&mut call.deadline, deadline) {
            self.deadlines.remove(&(old, id));
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
        true
    }

    /// Removes and returns every call whose deadline is at or before `now`, the
    /// earliest first. Calls that the iterator has not returned stay in the table.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # use caudal_core::{IdFormat, Pending};
    /// let now = Instant::now();
    /// let mut pending = Pending::new(10, IdFormat::Integer);
    /// let soon = pending.insert("soon", Some(now + Duration::from_secs(1)))?;
    /// pending.insert("late", Some(now + Duration::from_secs(9)))?;
    /// let due: Vec<_> = pending.expire(now + Duration::from_secs(1)).collect();
    /// assert_eq!(due, [(soon, "soon")]);
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    pub fn expire(&mut self, now: Instant) -> impl Iterator<Item = (CallId, W)> + use<'_, W> {
        std::iter::from_fn(move || {
            let (deadline, id) = *self.deadlines.first()?;
            if deadline > now {
                return None;
            }
            Some((id, self.cancel(id)?))
        })
    }

    /// Returns the earliest deadline: the time at which to call
    /// [`expire`](Self::expire) next.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{IdFormat, Pending};
    /// let mut pending = Pending::new(10, IdFormat::Integer);
    /// assert_eq!(pending.next_deadline(), None);
    /// let deadline = Instant::now();
    /// pending.insert((), Some(deadline))?;
    /// assert_eq!(pending.next_deadline(), Some(deadline));
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Closes the table: every call that waits fails with `reason`, and so does
    /// every later [`insert`](Self::insert).
    ///
    /// ```
    /// # use caudal_core::{CallError, CloseReason, IdFormat, Pending};
    /// let mut pending = Pending::new(10, IdFormat::Integer);
    /// pending.insert("waiter", None)?;
    /// for (waiter, error) in pending.close(CloseReason::remote()) {
    ///     assert_eq!(waiter, "waiter");
    ///     assert!(error.is_fatal());
    /// }
    /// assert!(pending.is_empty());
    /// assert!(pending.closed().is_some());
    /// assert!(pending.insert("another", None).unwrap_err().is_fatal());
    /// # Ok::<(), CallError>(())
    /// ```
    pub fn close(&mut self, reason: CloseReason) -> impl Iterator<Item = (W, CallError)> + use<W> {
        self.closed = Some(reason.clone());
        self.deadlines.clear();
        std::mem::take(&mut self.calls)
            .into_values()
            .map(move |call| (call.waiter, CallError::Closed(reason.clone())))
    }

    /// Returns the reason why the table was closed, if it was.
    #[must_use]
    pub const fn closed(&self) -> Option<&CloseReason> {
        self.closed.as_ref()
    }
}
