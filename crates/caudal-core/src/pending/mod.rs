//! Outgoing calls that wait for their answers.
//!
//! [`Pending`] knows who waits for which id, until when, and how many may. It
//! has no clock and does no I/O: time is passed in, and what settles is handed
//! out. Every call leaves the table exactly once: answered, expired, cancelled
//! or closed.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use caudal_core::pending::{IdFormat, Pending};
//!
//! let now = Instant::now();
//! let mut pending = Pending::new(1024, IdFormat::Integer, now);
//! let id = pending.insert("waiter", Some(now + Duration::from_secs(30)))?;
//! assert_eq!(pending.cancel(id), Some("waiter"));
//! # Ok::<(), caudal_core::CallError>(())
//! ```

mod id;
mod wheel;

use std::time::Instant;

pub use id::{CallId, IdFormat};
use wheel::Wheel;

use crate::decode::Id;
use crate::error::{CallError, CloseReason};
use crate::policy::OldResponses;

/// The calls of one connection that wait for an answer.
///
/// `W` is whatever is told of the outcome: a waker, a channel, a slot number.
///
/// ```
/// use std::time::{Duration, Instant};
/// use caudal_core::{IdFormat, Message, Pending, Policy, decode, encode};
///
/// let now = Instant::now();
/// let mut pending = Pending::new(1024, IdFormat::Integer, now);
/// let id = pending.insert("the waiter", Some(now + Duration::from_secs(30)))?;
///
/// let mut sent = Vec::new();
/// encode::call(&mut sent, id, "ping", &())?;
/// assert_eq!(sent, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
///
/// let reply = br#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#;
/// let Message::Response(response) = decode(reply, &Policy::default()) else { panic!() };
/// assert_eq!(pending.take(response.id), Some("the waiter"));
/// assert_eq!(pending.take(response.id), None); // nobody waits any more
/// # Ok::<(), caudal_core::CallError>(())
/// ```
#[derive(Debug)]
// Whether any waits is looked at often; that stands together, and first.
#[repr(C)]
pub struct Pending<W> {
    slots: Vec<Slot<W>>,
    free: Vec<u32>,
    ids: id::Keys,
    limit: usize,
    wheel: Wheel,
    closed: Option<CloseReason>,
}

#[derive(Debug)]
struct Slot<W> {
    /// The key of the call that waits here, or of the last one that did.
    key: u128,
    waiter: Option<W>,
}

impl<W> Pending<W> {
    /// The most calls that can wait at once, whatever limit is asked for.
    ///
    /// ```
    /// assert_eq!(caudal_core::Pending::<()>::MAX_LIMIT, 16_777_216);
    /// ```
    pub const MAX_LIMIT: usize = 1 << 24;

    /// An empty table for at most `limit` calls. Time is counted from `now`; a
    /// deadline before it is due at once.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{IdFormat, Pending};
    /// let pending = Pending::<()>::new(1024, IdFormat::Uuid, Instant::now());
    /// assert!(pending.is_empty());
    /// ```
    #[must_use]
    pub fn new(limit: usize, format: IdFormat, now: Instant) -> Self {
        let limit = limit.min(Self::MAX_LIMIT);
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            ids: id::Keys::new(format),
            limit,
            wheel: Wheel::new(now),
            closed: None,
        }
    }

    /// Returns the table with another choice for ids that come back as strings:
    /// [`OldResponses::Accept`] lets `"1"` answer call 1. The default is to reject them.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{Id, IdFormat, OldResponses, Pending};
    /// let pending = Pending::new(8, IdFormat::Integer, Instant::now());
    /// let mut pending = pending.with_old_responses(OldResponses::Accept);
    /// pending.insert("waiter", None)?;
    /// assert_eq!(pending.take(Id::parse("\"1\"")?), Some("waiter"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn with_old_responses(mut self, old: OldResponses) -> Self {
        self.ids.old = old;
        self
    }

    /// How many calls wait.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{IdFormat, Pending};
    /// let mut pending = Pending::new(1024, IdFormat::Integer, Instant::now());
    /// pending.insert((), None)?;
    /// assert_eq!(pending.len(), 1);
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no call waits.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{IdFormat, Pending};
    /// assert!(Pending::<()>::new(1, IdFormat::Integer, Instant::now()).is_empty());
    /// ```
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets `waiter` wait, until `deadline` if there is one, and returns the
    /// id to send. If the call can then not be written,
    /// [`cancel`](Self::cancel) it.
    ///
    /// # Errors
    /// [`CallError::TooManyPending`] at the limit, [`CallError::AlreadyClosed`]
    /// after [`close`](Self::close). Nothing waits then.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{CallError, IdFormat, Pending};
    /// let mut pending = Pending::new(1, IdFormat::Integer, Instant::now());
    /// pending.insert("first", None)?;
    /// let error = pending.insert("second", None).unwrap_err();
    /// assert!(matches!(error, CallError::TooManyPending { limit: 1 }));
    /// # Ok::<(), CallError>(())
    /// ```
    pub fn insert(&mut self, waiter: W, deadline: Option<Instant>) -> Result<CallId, CallError> {
        if let Some(reason) = &self.closed {
            return Err(CallError::AlreadyClosed(reason.clone()));
        }
        let limit = self.limit;
        let full = CallError::TooManyPending { limit };
        if self.len() >= limit {
            return Err(full);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.slots.len()).map_err(|_| full)?;
                self.slots.push(Slot {
                    key: 0,
                    waiter: None,
                });
                index
            }
        };
        let Some(slot) = self.slots.get_mut(index as usize) else {
            unreachable!("a free slot is a slot");
        };
        slot.key = self.ids.next(index);
        slot.waiter = Some(waiter);
        let id = self.ids.call_id(slot.key);
        if let Some(deadline) = deadline {
            self.wheel.insert(index, deadline);
        }
        Ok(id)
    }

    /// The waiter for a response with this id; it waits no longer.
    ///
    /// A late, repeated or foreign id finds nobody. Ids are compared as JSON
    /// values: `1.0` is `1`, and `"1"` is not, unless
    /// [`with_old_responses`](Self::with_old_responses) says otherwise.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{Id, IdFormat, Pending};
    /// let mut pending = Pending::new(1, IdFormat::Integer, Instant::now());
    /// pending.insert((), None)?;
    /// assert_eq!(pending.take(Id::NULL), None);
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    pub fn take(&mut self, id: Id<'_>) -> Option<W> {
        let key = self.ids.read(id)?;
        self.remove(key)
    }

    /// The waiter of a call that is given up; it waits no longer.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{IdFormat, Pending};
    /// let mut pending = Pending::new(1, IdFormat::Integer, Instant::now());
    /// let id = pending.insert("waiter", None)?;
    /// assert_eq!(pending.cancel(id), Some("waiter"));
    /// assert_eq!(pending.cancel(id), None);
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    pub fn cancel(&mut self, id: CallId) -> Option<W> {
        self.remove(id.key())
    }

    /// The waiter of a call, which goes on waiting.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{IdFormat, Pending};
    /// let mut pending = Pending::new(1, IdFormat::Integer, Instant::now());
    /// let id = pending.insert(0, None)?;
    /// *pending.get_mut(id).unwrap() += 1;
    /// assert_eq!(pending.cancel(id), Some(1));
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    pub fn get_mut(&mut self, id: CallId) -> Option<&mut W> {
        let index = self.find(id.key())?;
        self.slots.get_mut(index as usize)?.waiter.as_mut()
    }

    /// Moves the deadline of a call that waits; `false` if it does not.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # use caudal_core::{IdFormat, Pending};
    /// let now = Instant::now();
    /// let mut pending = Pending::new(1, IdFormat::Integer, now);
    /// let id = pending.insert((), Some(now))?;
    /// assert!(pending.set_deadline(id, None));
    /// assert_eq!(pending.expire(now + Duration::from_secs(1)).count(), 0);
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    pub fn set_deadline(&mut self, id: CallId, deadline: Option<Instant>) -> bool {
        let Some(index) = self.find(id.key()) else {
            return false;
        };
        self.wheel.remove(index);
        if let Some(deadline) = deadline {
            self.wheel.insert(index, deadline);
        }
        true
    }

    /// Removes and returns every call whose deadline is at or before `now`.
    ///
    /// Over its life a call is sorted five times at most, however many wait:
    /// the work is constant for each, though one `expire` may do it for many
    /// whose deadlines have come near together. What the iterator is not asked
    /// for stays due.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # use caudal_core::{IdFormat, Pending};
    /// let now = Instant::now();
    /// let mut pending = Pending::new(10, IdFormat::Integer, now);
    /// let soon = pending.insert("soon", Some(now + Duration::from_secs(1)))?;
    /// pending.insert("late", Some(now + Duration::from_secs(9)))?;
    /// let due: Vec<_> = pending.expire(now + Duration::from_secs(1)).collect();
    /// assert_eq!(due, [(soon, "soon")]);
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    pub fn expire(&mut self, now: Instant) -> impl Iterator<Item = (CallId, W)> + use<'_, W> {
        self.wheel.advance(now);
        std::iter::from_fn(move || {
            let index = self.wheel.next_due()?;
            let key = self.slots.get(index as usize)?.key;
            Some((self.ids.call_id(key), self.remove(key)?))
        })
    }

    /// When [`expire`](Self::expire) should be called next, if ever.
    ///
    /// Never earlier than the last `now`, and never more than a millisecond
    /// after the earliest deadline; sometimes before it, when the table wants
    /// to sort what has come closer.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # use caudal_core::{IdFormat, Pending};
    /// let now = Instant::now();
    /// let mut pending = Pending::new(10, IdFormat::Integer, now);
    /// assert_eq!(pending.next_wakeup(), None);
    /// let deadline = now + Duration::from_secs(1);
    /// pending.insert((), Some(deadline))?;
    /// assert!(pending.next_wakeup().unwrap() <= deadline + Duration::from_millis(1));
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        // Most connections wait for nothing, and need not look further.
        if self.is_empty() {
            return None;
        }
        self.wheel.next_wakeup()
    }

    /// Ends the table: every call that waits fails with `reason`, and so does
    /// every later [`insert`](Self::insert).
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{CallError, CloseReason, IdFormat, Pending};
    /// let mut pending = Pending::new(10, IdFormat::Integer, Instant::now());
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
        self.wheel.clear();
        self.free.clear();
        self.ids.clear();
        std::mem::take(&mut self.slots)
            .into_iter()
            .filter_map(|slot| slot.waiter)
            .map(move |waiter| (waiter, CallError::Closed(reason.clone())))
    }

    /// Why it has ended, if it has.
    #[must_use]
    pub fn closed(&self) -> Option<&CloseReason> {
        self.closed.as_ref()
    }

    /// The slot in which the call with this key waits.
    fn find(&self, key: u128) -> Option<u32> {
        let index = self.ids.index(key)?;
        let slot = self.slots.get(index as usize)?;
        (slot.key == key && slot.waiter.is_some()).then_some(index)
    }

    fn remove(&mut self, key: u128) -> Option<W> {
        let index = self.find(key)?;
        let waiter = self.slots.get_mut(index as usize)?.waiter.take()?;
        self.wheel.remove(index);
        self.ids.release(key);
        self.free.push(index);
        Some(waiter)
    }
}
