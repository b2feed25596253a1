//! The client's side: messages go by POST, and come to a [`Receiver`].

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use caudal_core::{CloseReason, Message, decode};

use super::Receiver;
use super::receiver::Hook;
use crate::config::Config;
use crate::endpoint::Target;
use crate::http::ClientOptions;
use crate::http::session::client::{Ended, Frame, Frames, Session, SessionTransport, pass_over};
use crate::transport::Transport;

/// No server makes a client say more often that it is there.
const OFTEN: Duration = Duration::from_millis(100);

/// Opens a session.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
    receiver: &Receiver,
) -> io::Result<Box<dyn Transport>> {
    let hook = receiver.open(config)?;
    let session = Session::new(target, options, config)?;
    let answer = session.open_with(hook.ask()).await?;
    let timeout = match hook.begin(&answer) {
        Ok(timeout) => timeout,
        Err(error) => {
            // The server has opened it, and would keep it.
            session.end().await;
            return Err(error);
        }
    };
    let (stays, listens) = (Arc::clone(&session), Arc::clone(&session));
    let transport = SessionTransport::start(session, move |frames| async move {
        tokio::select! {
            reason = listen(hook, frames, &listens) => Some(reason),
            ended = stays.stay(pause(timeout)) => Some(ended.into()),
        }
    });
    Ok(Box::new(transport))
}

/// How long a client is silent at most, of which the server wants to hear within a
/// time; zero is for ever.
fn pause(timeout: Duration) -> Duration {
    match timeout.is_zero() {
        true => Duration::ZERO,
        false => (timeout / 3).max(OFTEN),
    }
}

/// Passes on what comes, until nothing more will.
async fn listen(mut hook: Hook, frames: Frames, session: &Session) -> CloseReason {
    while let Some(letter) = poll_fn(|cx| hook.poll_letter(cx)).await {
        let message = letter.text;
        if letter.is_cut {
            pass_over(session, &frames, &message).await;
            continue;
        }
        // The last one is empty.
        if message.is_empty() {
            return Ended::Over.into();
        }
        if let Message::Invalid(invalid) = decode(&message, &session.policy)
            && invalid.wants_answer()
        {
            tracing::warn!(target: "caudal", cause = %invalid.cause, "what came is no message");
            continue;
        }
        let _ = frames.send(Frame::Message(message)).await;
    }
    CloseReason::failed(ReceiverGone)
}

/// There is nobody to deliver to any more.
#[derive(Debug, thiserror::Error)]
#[error("the webhook's receiver was dropped")]
struct ReceiverGone;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_cannot_make_a_client_say_that_it_is_there_without_a_pause() {
        for (timeout, pause_in_ms) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 100),
            (Duration::from_millis(1), 100),
            (Duration::from_millis(300), 100),
            (Duration::from_millis(303), 101),
            (Duration::from_secs(300), 100_000),
        ] {
            let expected = Duration::from_millis(pause_in_ms);
            assert_eq!(pause(timeout), expected, "{timeout:?}");
        }
    }
}
