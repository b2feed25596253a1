//! JSON-RPC 2.0 messages, codec and framing: strict, borrowed, without I/O.
//!
//! ```text
//! bytes → frame → message →  …  → message → frame → bytes
//!      framing   decode             encode   framing
//! ```
//!
//! This crate is the base of caudal: it converts bytes to checked messages, and
//! messages to bytes. It has no clock, does no I/O and needs no runtime. Its parts:
//!
//! - **Owned messages**, simple to create and to read:
//!   [`JsonRpcRequest`], [`JsonRpcNotification`], [`JsonRpcResponse`],
//!   [`JsonRpcError`], [`RequestId`].
//! - **Borrowed messages**, for servers: [`decode()`] takes one pass over a frame and
//!   does not allocate; [`mod@encode`] writes straight into the output buffer.
//! - **[Framing](framing)**: lines, `Content-Length` headers, concatenated JSON.
//! - **[Outgoing calls](pending)**: ids, waiting callers and deadlines.
//!
//! # A server in one function
//! ```
//! use caudal_core::{FrameReader, Framing, Id, JsonRpcError, Message, Policy};
//! use caudal_core::{decode, encode};
//!
//! /// Appends the response to one message, if it expects one.
//! fn answer(frame: &[u8], policy: &Policy, out: &mut Vec<u8>) {
//!     match decode(frame, policy) {
//!         Message::Request(request) if request.method == "add" => {
//!             match request.params.map(|params| params.read::<(i64, i64)>()) {
//!                 Some(Ok((a, b))) => {
//!                     encode::reply(out, request.id, &(a + b)).expect("integers serialise");
//!                 }
//!                 _ => encode::error(out, request.id, &JsonRpcError::invalid_params()),
//!             }
//!         }
//!         Message::Request(request) => {
//!             let error = JsonRpcError::unknown_method(&request.method);
//!             encode::error(out, request.id, &error);
//!         }
//!         Message::Invalid(invalid) if invalid.wants_answer() => {
//!             encode::error(out, invalid.id, &invalid.to_wire(policy.error_detail));
//!         }
//!         _ => {} // notifications, responses; a batch is a `Vec` of these
//!     }
//! }
//!
//! /// Answers every complete line of `input`.
//! fn serve(input: &[u8]) -> Vec<u8> {
//!     let policy = Policy::default();
//!     let mut frames = FrameReader::new(Framing::Line, policy.max_message);
//!     frames.push(input);
//!     let (mut out, mut body) = (Vec::new(), Vec::new());
//!     loop {
//!         body.clear();
//!         match frames.next_frame() {
//!             Ok(Some(frame)) => answer(frame, &policy, &mut body),
//!             Ok(None) => return out,
//!             // The line is too long: answer, and continue with the next.
//!             Err(error) => encode::error(&mut body, Id::NULL, &error.to_wire(policy.error_detail)),
//!         }
//!         if !body.is_empty() {
//!             out.extend_from_slice(&body);
//!             out.push(b'\n');
//!         }
//!     }
//! }
//!
//! let input = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"add\",\"params\":[1,2]}\n";
//! assert_eq!(serve(input), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}\n");
//! ```
//!
//! # Limits
//! All limits are on by default and can be changed: see [`Policy`] for messages,
//! [`FrameReader::new`] for frames, [`Pending::new`] for outgoing calls.
//!
//! # Errors
//! [`JsonRpcError`] is sent to the other side; all other errors are local. See
//! [`mod@error`].
//!
//! # WebAssembly
//! The crate builds for `wasm32-unknown-unknown`, whose standard library has neither a clock
//! nor random numbers. So calls in [`Pending`] have no deadline there. Random ids
//! ([`IdFormat::Uuid`], [`CorrelationId`]) differ from each other within one instance of the
//! module, and may repeat in the next one.
//!
//! # Stability
//! Types that may grow are `#[non_exhaustive]`. The types of `serde`,
//! `serde_json` and `bytes` are part of the API, and those of no other crate.

#[macro_use]
mod setters;

pub mod decode;
pub mod encode;
pub mod error;
pub mod framing;
pub mod message;
pub mod pending;

mod entropy;
mod policy;
mod raw_json;
mod request_id;
mod scan;
mod schema;

pub use decode::{
    DecodeError, Decoder, ErrorObject, Found, Id, Invalid, InvalidKind, Member, Message,
    Notification, Request, Response, ToOwnedError, decode,
};
pub use encode::EncodeError;
pub use error::{
    CallError, CloseReason, CodeClass, CorrelationId, ErrorCode, Incident, JsonRpcError,
    StatusError,
};
pub use framing::{FrameError, FrameReader, Framing};
pub use message::{JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, Version};
pub use pending::{CallId, IdFormat, Pending};
pub use policy::{ErrorDetail, ExtraMembers, NullId, OldResponses, Policy, ScalarParams};
pub use raw_json::RawJson;
pub use request_id::RequestId;
pub use scan::{Kind, SyntaxError};
pub use schema::SCHEMA;

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
