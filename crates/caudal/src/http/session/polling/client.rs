//! The client's side: one poll after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use caudal_core::{CloseReason, Message, decode};
use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use super::page::{Cut, Page};
use crate::config::Config;
use crate::endpoint::Target;
use crate::http::ClientOptions;
use crate::http::client::pool::Answer;
use crate::http::session::client::{
    Asked, Ended, Frame, Frames, Session, SessionTransport, Tries, pass_over,
};
use crate::transport::Transport;

const JSON: &str = "application/json";
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// So long a server is asked to wait for a message,
const WAIT: &str = "wait=25";
/// and so long an answer may take until it counts as lost.
const LOST: Duration = Duration::from_secs(45);
/// An empty answer that comes sooner was no waiting.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Opens a session.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
) -> io::Result<Box<dyn Transport>> {
    let session = Session::new(target, options, config)?;
    let opened = session.open(JSON).await?;
    if opened.is_some() && !session.is_identified() {
        let text = "the server has opened no session";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut listener = Listener {
        session: Arc::clone(&session),
        frames: None,
        cursor: 0,
        tries: Tries::new(),
    };
    let first =
        match opened {
            Some(answer) => {
                let read = listener.read(answer).await;
                Some(read.map_err(|error| {
                    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
                })?)
            }
            None => None,
        };
    let transport = SessionTransport::start(session, |frames| async move {
        listener.frames = Some(frames);
        listener.run(first).await
    });
    Ok(Box::new(transport))
}

struct Listener {
    session: Arc<Session>,
    frames: Option<Frames>,
    /// The number of the last message.
    cursor: u64,
    tries: Tries,
}

impl Listener {
    /// Polls until the session ends; `None` if there is no way to.
    async fn run(mut self, first: Option<(Bytes, bool)>) -> Option<CloseReason> {
        match first {
            None => self.session.identified().await,
            Some((first, whole)) => {
                if let Err(error) = self.take(&first, whole).await {
                    return Some(error.end().into());
                }
            }
        }
        loop {
            match self.poll().await {
                Ok(true) => self.tries.succeeded(),
                Ok(false) => return None,
                Err(PollError::End(ended)) => return Some(ended.into()),
                Err(error @ (PollError::Failed(_) | PollError::Refused(_))) => {
                    self.tries.tried(matches!(error, PollError::Refused(_)));
                    if !self.tries.wait().await {
                        return Some(error.end().into());
                    }
                }
            }
        }
    }

    /// Asks once; `false` if it makes no sense to.
    async fn poll(&mut self) -> Result<bool, PollError> {
        let query = format!("cursor={}", self.cursor);
        let mut request = self.session.get(JSON, Some(&query));
        let headers = request.headers_mut();
        headers.insert(PREFER, HeaderValue::from_static(WAIT));
        let asked = Instant::now();
        let late = |_| PollError::Failed("no answer came in time".to_owned());
        let answer = tokio::time::timeout(LOST, self.session.ask(request));
        let heard = match answer.await.map_err(late)? {
            Asked::Answer(answer) => {
                self.session.set_listening(true);
                let text = tokio::time::timeout(LOST, self.read(*answer));
                let (text, whole) = text.await.map_err(late)??;
                self.take(&text, whole).await?
            }
            Asked::Empty => false,
            Asked::Failed(why) => return Err(PollError::Failed(why)),
            Asked::Refused(why) => return Err(PollError::Refused(why)),
            Asked::Never => return Ok(false),
            Asked::End(ended) => return Err(PollError::End(ended)),
        };
        if !heard && asked.elapsed() < AT_ONCE {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(true)
    }

    /// As much of an answer as may be read, and whether that is all of it.
    async fn read(&self, answer: Answer) -> Result<(Bytes, bool), PollError> {
        let read = answer.read_up_to(limit(self.session.policy.max_message));
        let broken = |_| PollError::Failed("the answer broke off".to_owned());
        read.await.map_err(broken)
    }

    /// Passes on what is new in an answer; whether anything is.
    async fn take(&mut self, text: &Bytes, whole: bool) -> Result<bool, PollError> {
        if !whole {
            return self.take_cut(text).await;
        }
        let page: Page<'_> = serde_json::from_slice(text)
            .map_err(|error| PollError::End(Ended::Broken(error.to_string())))?;
        let count = page.messages.len();
        let new = self.count_new(page.cursor, count)?;
        for message in page.messages.iter().skip(count - new) {
            self.pass(text.slice_ref(message.get().as_bytes())).await;
        }
        self.cursor = self.cursor.max(page.cursor);
        Ok(new > 0)
    }

    /// The same for one that is cut: its last message is larger than any that is read.
    async fn take_cut(&mut self, text: &Bytes) -> Result<bool, PollError> {
        let cut = Cut::of(text).filter(|cut| cut.last.len() > self.session.policy.max_message);
        let Some(Cut { page, last }) = cut else {
            let why = "an answer is too large".to_owned();
            return Err(PollError::End(Ended::Broken(why)));
        };
        let count = page.messages.len() + 1;
        let new = self.count_new(page.cursor, count)?;
        for message in page.messages.iter().skip(count - new) {
            self.pass(text.slice_ref(message.get().as_bytes())).await;
        }
        if let (Some(frames), 1..) = (&self.frames, new) {
            pass_over(&self.session, frames, last).await;
        }
        self.cursor = self.cursor.max(page.cursor);
        Ok(new > 0)
    }

    async fn pass(&self, message: Bytes) {
        let Some(frames) = &self.frames else {
            return;
        };
        let policy = &self.session.policy;
        if message.len() > policy.max_message {
            return pass_over(&self.session, frames, &message).await;
        }
        if let Message::Invalid(invalid) = decode(&message, policy)
            && invalid.wants_answer()
        {
            tracing::warn!(target: "caudal", cause = %invalid.cause, "what came is no message");
            return;
        }
        let _ = frames.send(Frame::Message(message)).await;
    }

    /// How many of so many messages are new: the last one has the number that the
    /// cursor says.
    fn count_new(&self, cursor: u64, count: usize) -> Result<usize, PollError> {
        let count = count as u64;
        let above = cursor.saturating_sub(self.cursor);
        if above > count {
            return Err(PollError::End(Ended::Missed(above - count)));
        }
        Ok(usize::try_from(above).unwrap_or_default())
    }
}

/// How large an answer may be: a server of ours adds no message to 1 MiB of them, but
/// the last one may be as large as they come.
fn limit(max_message: usize) -> usize {
    max_message.saturating_add((1 << 20) + (64 << 10))
}

/// Why a poll brought nothing.
#[derive(Debug, thiserror::Error)]
enum PollError {
    /// It may work later.
    #[error("{0}")]
    Failed(String),
    /// The same, and nobody listens there.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    End(#[from] Ended),
}

impl PollError {
    fn end(self) -> Ended {
        match self {
            Self::Failed(why) | Self::Refused(why) => Ended::Broken(why),
            Self::End(ended) => ended,
        }
    }
}
