//! One end of a connection: it calls and is called at the same time.
//!
//! [`handle`] is what applications hold; [`call`] is one outgoing call;
//! [`link`] is what a connection's task and its handles share; [`driver`] is that
//! task; [`running`] are incoming calls that must wait; [`session`] makes a
//! connection, and makes it again.

mod batch;
mod call;
mod driver;
mod handle;
mod link;
mod running;
mod session;

pub use batch::{Batch, BatchReply};
pub use call::{Call, CallFuture};
pub use handle::Peer;
#[cfg(feature = "session")]
pub(crate) use link::member;
pub(crate) use link::{Link, Order, SameId};
pub(crate) use running::run;
pub(crate) use session::{Reconnect, Told, start};
