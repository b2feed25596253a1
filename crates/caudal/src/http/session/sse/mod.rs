//! Sessions whose server sends its messages as server-sent events.

mod client;
pub(crate) mod event;
mod server;

pub(crate) use client::connect;
pub(crate) use server::{begin, reply, resume};
