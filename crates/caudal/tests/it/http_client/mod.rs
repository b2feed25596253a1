//! The clients of the HTTP family.
#![cfg(all(feature = "polling", feature = "sse", feature = "ws"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

mod failures;
mod foreign;
mod polling;
mod served;
mod single;
mod sse;

use caudal::{CallError, JsonRpcError, StatusError};

/// The error that the other side answered with.
fn remote(error: CallError) -> JsonRpcError {
    match error {
        CallError::Remote(error) => error,
        other => panic!("{other:?}"),
    }
}

/// The response that was no answer to a call.
fn response(error: CallError) -> StatusError {
    match error {
        CallError::Refused(error) | CallError::UnexpectedResponse(error) => *error,
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
