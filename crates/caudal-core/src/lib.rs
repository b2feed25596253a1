//! JSON-RPC 2.0 messages, codec and framing: strict, borrowed, without I/O.
//!
//! ```text
//! bytes → frame → message →  …  → message → frame → bytes
//!      framing   decode             encode   framing
//! ```
//!
//! This crate is the ground floor of caudal. It reads no clock, does no I/O and
//! knows no runtime; it turns bytes into messages that cannot be wrong, and
//! back. Four things are in it:
//!
//! - **Owned messages**, for building and reading at leisure:
//!   [`JsonRpcRequest`], [`JsonRpcNotification`], [`JsonRpcResponse`],
//!   [`JsonRpcError`], [`RequestId`].
//! - **The borrowed path**, for servers: [`decode()`] one pass over a frame, no
//!   allocation; [`mod@encode`] straight into the output buffer.
//! - **[Framing](framing)**: lines, `Content-Length` headers, bare JSON.
//! - **[Outgoing calls](pending)**: who waits for which answer, until when.
//!
//! # A server in one function
//! ```
//! use caudal_core::{FrameReader, Framing, Id, JsonRpcError, Message, Policy};
//! use caudal_core::{decode, encode};
//!
//! /// Appends the answer to one message, if it is owed one.
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
//! /// Answers every whole line of `input`.
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
//!             // Too long: say so, and go on with the next line.
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
//! All are on by default and settable: see [`Policy`] for messages,
//! [`FrameReader::new`] for frames, [`Pending::new`] for outgoing calls.
//!
//! # Errors
//! What travels and what happens here are two families; see [`mod@error`].
//!
//! # Stability
//! Types that may grow are `#[non_exhaustive]`. The types of `serde`,
//! `serde_json` and `bytes` are part of the API; no other crate's are.

pub mod decode;
pub mod encode;
pub mod error;
pub mod framing;
pub mod message;
pub mod pending;

mod entropy;
mod id;
mod policy;
mod raw;
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
pub use id::RequestId;
pub use message::{JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, Version};
pub use pending::{CallId, IdFormat, Pending};
pub use policy::{ErrorDetail, ExtraMembers, NullId, OldResponses, Policy, ScalarParams};
pub use raw::RawJson;
pub use scan::{Kind, SyntaxError};
pub use schema::SCHEMA;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
