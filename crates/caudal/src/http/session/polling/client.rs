//! The client's side: one poll after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use caudal_core::CloseReason;
use http::{HeaderName, HeaderValue};
use tokio::time::{Instant, timeout};

use super::page::{Cut, Page};
use crate::config::Config;
use crate::endpoint::Target;
use crate::http::ClientOptions;
use crate::http::client::pool::Answer;
use crate::http::session::client::{
    ClientSession, ClientTransport, FrameSender, GetError, Retry, SessionEnd, pass_on, pass_over,
};
use crate::transport::Transport;

const JSON: &str = "application/json";
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// Time that the server is asked to wait for a message.
const WAIT: &str = "wait=25";
/// Time after which a response counts as lost.
const LOST: Duration = Duration::from_secs(45);
/// Time within which an empty response shows that the server does not wait.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Pause after a response of a server that does not wait.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens a session.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
) -> io::Result<Box<dyn Transport>> {
    let session = ClientSession::new(target, options, config)?;
    let opened = session.open(JSON).await?;
    if opened.is_some() && !session.is_identified() {
        let text = "the server has opened no session";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let first = match opened {
        Some(answer) => {
            let unreadable =
                |error: GetError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
            Some(read(&session, answer).await.map_err(unreadable)?)
        }
        None => None,
    };
    let polled = Arc::clone(&session);
    let transport = ClientTransport::start(session, |frames| async move {
        let poller = Poller {
            session: polled,
            frames,
            cursor: 0,
        };
        poller.run(first).await
    });
    Ok(Box::new(transport))
}

struct Poller {
    session: Arc<ClientSession>,
    frames: FrameSender,
    /// Number of the last message.
    cursor: u64,
}

impl Poller {
    /// Polls until the session ends; `None` if the server takes no polls.
    async fn run(mut self, first: Option<(Bytes, bool)>) -> Option<CloseReason> {
        let mut retry = Retry::new();
        let mut polled = match first {
            None => {
                self.session.identified().await;
                Ok(())
            }
            Some((first, is_whole)) => self.take(&first, is_whole).await.map(drop),
        };
        loop {
            match polled {
                Ok(()) => retry.succeeded(),
                Err(GetError::Unsupported) => return None,
                Err(GetError::Ended(end)) => return Some(end.into()),
                Err(GetError::Failed { why, is_refused }) => {
                    retry.tried(is_refused);
                    if !retry.wait().await {
                        return Some(SessionEnd::Broken(why).into());
                    }
                }
            }
            polled = self.poll().await;
        }
    }

    async fn poll(&mut self) -> Result<(), GetError> {
        let query = format!("cursor={}", self.cursor);
        let mut request = self.session.get_request(JSON, Some(&query));
        let headers = request.headers_mut();
        headers.insert(PREFER, HeaderValue::from_static(WAIT));
        let begun = Instant::now();
        let late = |_| GetError::failed("no answer came in time");
        let got = timeout(LOST, self.session.get(request)).await;
        let has_new = match got.map_err(late)?? {
            Some(answer) => {
                self.session.set_listening(true);
                let text = timeout(LOST, read(&self.session, answer)).await;
                let (text, is_whole) = text.map_err(late)??;
                self.take(&text, is_whole).await?
            }
            None => false,
        };
        if !has_new && begun.elapsed() < AT_ONCE {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Passes on new messages of a response; returns true if there are any. If it is not
    /// whole, its last message must be larger than allowed.
    async fn take(&mut self, text: &Bytes, is_whole: bool) -> Result<bool, GetError> {
        let (page, cut) = match is_whole {
            true => {
                let page = serde_json::from_slice::<Page<'_>>(text);
                let page = page.map_err(|error| SessionEnd::Broken(error.to_string()))?;
                (page, None)
            }
            false => {
                let cut = Cut::of(text).filter(|cut| cut.last.len() > self.max_message());
                let too_large = || SessionEnd::Broken("an answer is too large".to_owned());
                let Cut { page, last } = cut.ok_or_else(too_large)?;
                (page, Some(last))
            }
        };
        let count = page.messages.len() + usize::from(cut.is_some());
        let new = self.count_new(page.cursor, count)?;
        for message in page.messages.iter().skip(count - new) {
            let message = text.slice_ref(message.get().as_bytes());
            pass_on(&self.session, &self.frames, message).await;
        }
        if let (Some(last), 1..) = (cut, new) {
            pass_over(&self.session, &self.frames, last).await;
        }
        self.cursor = self.cursor.max(page.cursor);
        Ok(new > 0)
    }

    fn max_message(&self) -> usize {
        self.session.policy.max_message
    }

    /// Returns how many of the messages are new: the last one has the number of the cursor.
    fn count_new(&self, cursor: u64, count: usize) -> Result<usize, SessionEnd> {
        let count = count as u64;
        let above = cursor.saturating_sub(self.cursor);
        if above > count {
            return Err(SessionEnd::Missed(above - count));
        }
        Ok(usize::try_from(above).unwrap_or_default())
    }
}

/// Reads as much of a response as is allowed; returns true with one that is whole. A server
/// of ours adds no message to 1 MiB of them, but the last one may be as large as allowed.
async fn read(session: &ClientSession, answer: Answer) -> Result<(Bytes, bool), GetError> {
    let limit = session.policy.max_message;
    let limit = limit.saturating_add((1 << 20) + (64 << 10));
    let broken = |_| GetError::failed("the answer broke off");
    answer.read_up_to(limit).await.map_err(broken)
}
