//! Sessions whose server sends its messages when it is asked: long polling.

mod client;
mod page;
mod server;

pub(crate) use client::connect;
pub(crate) use server::{begin, poll};
