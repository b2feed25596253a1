//! The client's side of HTTP.
//!
//! `pool` keeps connections; `exchange` is the transport of single requests.

use std::io;

use super::ClientOptions;
use crate::config::Config;
use crate::endpoint::Target;
use crate::transport::Transport;

/// A transport that makes a POST of each message.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
) -> io::Result<Box<dyn Transport>> {
    let _ = (target, options, config);
    Err(io::ErrorKind::Unsupported.into())
}
