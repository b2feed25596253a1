//! The client's side: messages go by POST, and come to a [`Receiver`].

use std::io;

use super::Receiver;
use crate::config::Config;
use crate::endpoint::Target;
use crate::transport::Transport;
use crate::transport::http::ClientOptions;

/// Opens a session.
///
/// 1. `let hook = receiver.open(config)?;`
/// 2. `PUT` [`hook.ask()`](super::Hook::ask) to the server, as JSON.
/// 3. On `201`, `hook.begin(&body)?` with its body; the id of the session is in its
///    header.
/// 4. The uplink is that of all sessions: POST with `Prefer: respond-async`. Frames
///    come from [`hook.poll_frame(cx)`](super::Hook::poll_frame), which the
///    transport keeps in a field to lend them.
/// 5. Dropping the hook ends the downlink: what comes later is answered with 404.
///    `DELETE` tells the server earlier.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
    receiver: &Receiver,
) -> io::Result<Box<dyn Transport>> {
    let hook = receiver.open(config)?;
    let _ = (target, options, hook);
    Err(io::ErrorKind::Unsupported.into())
}
