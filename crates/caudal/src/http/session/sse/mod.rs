//! Sessions whose server speaks by server-sent events.

mod client;
pub(crate) mod event;
mod server;

pub(crate) use client::connect;
pub(crate) use server::{answer, listen, listen_anew};
