//! The client's side of a session: its messages go by POST, the server's come another way.
//!
//! ```text
//! transport ──→ posts: each message is a POST, the next one when it is accepted
//!     ↑           └→ inbound
//!     └── inbound ←─ listen: event streams or polls (`sse`, `polling`)
//!               ↑
//!               └─── deliveries (`webhook`)
//! ```

mod inbound;
#[cfg(any(feature = "sse", feature = "polling"))]
mod listen;
mod posts;
mod retry;
mod session;
mod transport;

pub(crate) use inbound::Inbound;
#[cfg(feature = "webhook")]
pub(crate) use inbound::MESSAGE_HEAD;
#[cfg(any(feature = "sse", feature = "polling"))]
pub(crate) use listen::{MessageSource, listen};
pub(crate) use retry::Retry;
pub(crate) use session::{ClientSession, GetError, PREFER, SessionEnd};
pub(crate) use transport::ClientTransport;
