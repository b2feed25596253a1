//! WebSocket: one text frame for each message, in both directions.

use std::io;
use std::sync::Arc;

use http::Response;
use http::request::Parts;

use super::Transport;
use super::http::{Body, ClientOptions, Http};
use crate::config::Config;
use crate::endpoint::Target;
use crate::peer::Link;

/// Opens a WebSocket as a client.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
) -> io::Result<Box<dyn Transport>> {
    let _ = (target, options, config);
    Err(io::ErrorKind::Unsupported.into())
}

/// Answers a request for a WebSocket, and runs it in a task of its own; `None` if
/// the request is none. `link` has what the application found out about the caller.
pub(crate) fn accept(http: &Http, link: &Arc<Link>, head: &mut Parts) -> Option<Response<Body>> {
    let _ = (http, link, head);
    None
}
