//! Sessions whose server speaks when it is asked: long polling.

mod client;

pub(crate) use client::connect;
