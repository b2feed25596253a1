//! Sessions whose server sends its messages when it is asked: long polling.

#[cfg(feature = "polling")]
mod client;
#[cfg(feature = "polling")]
mod page;
mod server;

#[cfg(feature = "polling")]
pub(crate) use client::connect;
pub(crate) use server::{begin, poll};
