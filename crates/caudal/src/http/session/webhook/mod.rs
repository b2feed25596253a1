//! Sessions whose server sends its messages to a URL of the client's.
//!
//! ```text
//! server: PUT → register → deliver ──sign──→ POST ──→ Receiver → Mailbox → Subscription :client
//!               target, lookup: hosts that may be called
//! ```
//!
//! The client mounts a [`Receiver`] into its own web server and names its URL in a
//! `PUT`. The server answers with a secret, and from then on each of its messages is
//! a POST to that URL, signed, one after the other, until it is accepted.

mod client;
mod deliver;
mod lookup;
mod mailbox;
mod receiver;
mod register;
mod server;
mod sign;
mod target;

pub(crate) use client::connect;
pub(crate) use lookup::Lookup;
pub use receiver::Receiver;
pub use target::UrlError;

/// Returns the seconds of Unix time.
fn now() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0, |since| since.as_secs())
}
