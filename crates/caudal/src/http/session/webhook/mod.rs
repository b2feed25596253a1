//! Sessions whose server speaks by calling a URL of the client's.
//!
//! ```text
//! server:  register → deliver ──sign──→ POST ──→ Receiver → Hook :client
//!             target: where it may go
//! ```
//!
//! The client mounts a [`Receiver`] into its own web server and names its URL in a
//! `PUT`. The server answers with a secret, and from then on each of its messages is
//! a POST to that URL, signed, one after the other, until it is accepted.

mod client;
mod deliver;
mod lookup;
#[cfg(test)]
mod loopback;
mod mailbox;
mod receiver;
mod register;
mod sign;
mod target;

pub(crate) use client::connect;
pub use receiver::Receiver;
pub use target::UrlError;
pub(crate) use {
    deliver::{Ended, Outbox, Pace, deliver},
    lookup::Lookup,
    register::{Registration, register},
};

/// Seconds of Unix time.
fn now() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0, |since| since.as_secs())
}
