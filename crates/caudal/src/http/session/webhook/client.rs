//! The client's side: its messages go by POST, and the server's come to a [`Receiver`].

use std::io;
use std::time::Duration;

use caudal_core::CloseReason;

use super::Receiver;
use super::receiver::Subscription;
use crate::config::Config;
use crate::endpoint::Target;
use crate::http::ClientOptions;
use crate::http::session::client::{ClientSession, ClientTransport, Inbound, SessionEnd};
use crate::transport::Transport;

/// Minimum time between two requests that keep a session, whatever its server wants.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Opens a session.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
    receiver: &Receiver,
) -> io::Result<Box<dyn Transport>> {
    let subscription = receiver.subscribe(config)?;
    let session = ClientSession::new(target, options, config)?;
    let response = session.open_with(subscription.request()).await?;
    let timeout = match subscription.begin(&response) {
        Ok(timeout) => timeout,
        Err(error) => {
            // The server has opened it, and would keep it.
            session.end().await;
            return Err(error);
        }
    };
    let transport = ClientTransport::start(session, move |inbound| async move {
        tokio::select! {
            reason = listen(subscription, &inbound) => Some(reason),
            ended = inbound.session.keep(timeout.map(interval)) => Some(ended.into()),
        }
    });
    Ok(Box::new(transport))
}

/// Returns the time between two requests that keep a session with this timeout.
fn interval(timeout: Duration) -> Duration {
    (timeout / 3).max(MIN_INTERVAL)
}

/// Passes on messages that are delivered, until there is no receiver any more.
async fn listen(mut subscription: Subscription, inbound: &Inbound) -> CloseReason {
    while let Some(delivered) = subscription.next().await {
        let message = delivered.text;
        if delivered.is_cut {
            inbound.too_large(&message).await;
            continue;
        }
        // The last one is empty.
        if message.is_empty() {
            return SessionEnd::ByServer.into();
        }
        inbound.message(message).await;
    }
    CloseReason::failed(ReceiverGone)
}

/// Reason why a connection ends without its receiver.
#[derive(Debug, thiserror::Error)]
#[error("the webhook's receiver was dropped")]
struct ReceiverGone;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_cannot_make_a_client_say_that_it_is_there_without_a_pause() {
        for (timeout, interval_in_ms) in [
            (Duration::from_nanos(1), 100),
            (Duration::from_millis(1), 100),
            (Duration::from_millis(300), 100),
            (Duration::from_millis(303), 101),
            (Duration::from_secs(300), 100_000),
        ] {
            let expected = Duration::from_millis(interval_in_ms);
            assert_eq!(interval(timeout), expected, "{timeout:?}");
        }
    }
}
