//! WebSocket: one text frame for each message, in both directions.
//!
//! ```text
//! accept    the server's side of the handshake
//! connect   the client's side
//!   └→ socket   the transport: messages, pings, closing
//!        └→ wire    buffers between the frames and the socket
//!             └→ frames   finds messages in the input
//! ```

mod accept;
mod connect;
mod frames;
mod goodbye;
mod key;
mod mask;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use accept::accept;
pub(crate) use connect::connect;
