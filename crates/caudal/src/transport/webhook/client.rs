//! The client's side: messages go by POST, and come to a [`Receiver`].

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use caudal_core::{CloseReason, Message, decode};

use super::Receiver;
use crate::config::Config;
use crate::endpoint::Target;
use crate::transport::Transport;
use crate::transport::http::ClientOptions;
use crate::transport::session::client::{Ended, Frame, Session, SessionTransport};

/// Opens a session.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
    receiver: &Receiver,
) -> io::Result<Box<dyn Transport>> {
    let mut hook = receiver.open(config)?;
    let session = Session::new(target, options, config)?;
    let answer = session.open_with(hook.ask()).await?;
    if let Err(error) = hook.begin(&answer) {
        // The server has opened it, and would keep it.
        session.end().await;
        return Err(error);
    }
    let policy = config.policy;
    let transport = SessionTransport::start(Arc::clone(&session), |frames| async move {
        while let Some(message) = poll_fn(|cx| hook.poll_frame(cx)).await {
            // The last one is empty.
            if message.is_empty() {
                return Some(Ended::Over.into());
            }
            if let Message::Invalid(invalid) = decode(&message, &policy)
                && invalid.wants_answer()
            {
                tracing::warn!(target: "caudal", cause = %invalid.cause, "what came is no message");
                continue;
            }
            let _ = frames.send(Frame::Message(message)).await;
        }
        Some(CloseReason::failed(ReceiverGone))
    });
    Ok(Box::new(transport))
}

/// There is nobody to deliver to any more.
#[derive(Debug, thiserror::Error)]
#[error("the webhook's receiver was dropped")]
struct ReceiverGone;
