//! The client's side of a session: POSTs one after the other, and one way back.
//!
//! ```text
//! posts     a task: each message is a POST, the next one when it is accepted
//! listener  a task: events, polls or deliveries (`sse`, `polling`, `webhook`)
//!    └→ frames, in order, and the reason why there are no more
//! ```

mod open_calls;
mod posts;
#[cfg(any(feature = "sse", feature = "polling", feature = "webhook"))]
mod received;
mod retry;
mod session;
mod transport;

#[cfg(any(feature = "sse", feature = "polling", feature = "webhook"))]
pub(crate) use received::{HEAD, pass_on, pass_over};
pub(crate) use retry::Retry;
pub(crate) use session::{ClientSession, GetError, SessionEnd};
pub(crate) use transport::{ClientTransport, Frame, FrameSender};
