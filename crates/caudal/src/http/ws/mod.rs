//! WebSocket: one text frame for each message, in both directions.
//!
//! ```text
//! accept    a server's answer to the request for one
//! connect   a client's request
//!   └→ socket   the transport: messages, pings, the end
//!        └→ wire    bytes in and out, in pieces as large as the socket takes
//!             └→ frames   messages in what came in
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
