//! Sessions whose server speaks by server-sent events.

mod client;

pub(crate) use client::connect;
