//! The clients of the HTTP family.
#![cfg(all(feature = "sse", feature = "polling"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

mod foreign;
mod polling;
mod served;
mod single;
mod sse;

use caudal::{CallError, JsonRpcError};

/// The error that the other side, or HTTP, answered with.
fn remote(error: CallError) -> JsonRpcError {
    match error {
        CallError::Remote(error) => error,
        other => panic!("{other:?}"),
    }
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += ": ";
        text += &error.to_string();
        cause = error.source();
    }
    text
}
