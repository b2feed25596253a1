//! JSON-RPC 2.0 for Rust: one symmetric peer over any pipe.
#![allow(missing_docs)]

#[cfg(not(unix))]
compile_error!(
    "caudal runs on Unix: its transports need descriptors, process groups and Unix sockets"
);

mod batch;
mod config;
mod connect;
mod context;
mod dialect;
mod dispatch;
mod endpoint;
mod error;
mod event;
mod extensions;
pub mod handler;
mod incident;
pub mod layer;
#[cfg(feature = "metrics")]
mod metrics;
mod params;
mod peer;
mod pool;
mod reconnect;
mod router;
mod server;
mod state;
mod stats;
mod tap;
pub mod transport;
mod watched;

pub use caudal_core::{
    CallError, CloseReason, CorrelationId, EncodeError, ErrorCode, ErrorDetail, ExtraMembers,
    FrameError, Framing, Id, IdFormat, JsonRpcError, NullId, Policy, RequestId, ScalarParams,
};
pub use config::{Config, Limits};
pub use connect::{Connect, connect};
pub use context::Context;
pub use dialect::{Cancel, Dialect, Progress};
pub use endpoint::{Address, Downlink, Endpoint, EndpointError};
pub use error::Error;
pub use event::Event;
pub use extensions::Extensions;
pub use handler::{BlockingHandler, IntoMethod, IntoResult, Method};
pub use layer::{Incoming, Next, middleware};
pub use peer::{Batch, BatchReply, Call, CallFuture, Peer};
pub use reconnect::{Backoff, Gap};
pub use router::{RegisterError, Router};
pub use serde_json::value::RawValue;
pub use server::{Serve, Server, serve};
pub use state::{State, StateWatch};
pub use stats::Stats;
pub use tap::{Direction, Redacted, Tap};
