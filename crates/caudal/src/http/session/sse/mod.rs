//! Sessions whose server sends its messages as server-sent events.

#[cfg(feature = "sse")]
mod client;
pub(crate) mod event;
mod server;

#[cfg(feature = "sse")]
pub(crate) use client::connect;
pub(crate) use server::{begin, reply, resume};
