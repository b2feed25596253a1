//! One connection: the task that reads and writes, and what it shares with its handles.

pub(crate) mod buffers;
mod close;
pub(crate) mod deadline;
mod deferred;
mod id_key;
mod incoming;
mod lifecycle;
pub(crate) mod link;
mod outgoing;
mod output;
mod pace;
mod queue;
mod shutdown;
mod tap;
mod task;
mod timers;
mod transport_woken;

pub(crate) use self::id_key::SameId;
#[cfg(feature = "session")]
pub(crate) use self::incoming::member;
pub(crate) use self::lifecycle::{Reconnect, Told, start};
pub(crate) use self::link::{Link, Order};
