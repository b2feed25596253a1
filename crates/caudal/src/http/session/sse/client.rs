//! The client's side: events, and a new stream when one breaks.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use caudal_core::CloseReason;
use http::HeaderValue;
use tokio::time::Instant;

use super::event::EventId;
use crate::config::Config;
use crate::endpoint::Target;
use crate::http::ClientOptions;
use crate::http::client::answer::is_events;
use crate::http::client::events::{Event, Parser, TooLong};
use crate::http::client::pool::Answer;
use crate::http::session::client::{
    ClientSession, ClientTransport, FrameSender, GetError, Retry, SessionEnd, pass_on, pass_over,
};
use crate::transport::Transport;

const EVENTS: &str = "text/event-stream";
const NO_EVENTS: &str = "the server does not answer with events";
const LAST_EVENT_ID: &str = "last-event-id";
/// Id of the event before the first message.
const NOTHING_YET: &str = "0";
/// Time after which a stream that says nothing counts as dead: a server of ours is never
/// silent for so long.
const SILENCE: Duration = Duration::from_secs(60);
/// Time after which a stream counts as one that works.
const LASTING: Duration = Duration::from_secs(5);

/// Opens a session.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
) -> io::Result<Box<dyn Transport>> {
    let session = ClientSession::new(target, options, config)?;
    let opened = session.open(EVENTS).await?;
    if opened
        .as_ref()
        .is_some_and(|answer| !is_events(&answer.headers))
    {
        return Err(io::Error::new(io::ErrorKind::InvalidData, NO_EVENTS));
    }
    // A server that gives an id with the stream counts messages from 1: if the stream breaks
    // before the first event, it is asked for again from the start. Other servers might
    // refuse an id that they never gave.
    let numbers = opened.is_some() && session.is_identified();
    let last = numbers.then(|| NOTHING_YET.to_owned());
    let listened = Arc::clone(&session);
    let transport = ClientTransport::start(session, |frames| async move {
        let listener = EventListener {
            session: listened,
            frames,
            last,
            number: 0,
            retry: Retry::new(),
        };
        listener.run(opened).await
    });
    Ok(Box::new(transport))
}

struct EventListener {
    session: Arc<ClientSession>,
    frames: FrameSender,
    /// Id of the last event.
    last: Option<String>,
    /// Number in it, if the server is one of ours.
    number: u64,
    retry: Retry,
}

impl EventListener {
    /// Listens until the session ends; `None` if the server has no event stream.
    async fn run(mut self, mut stream: Option<Answer>) -> Option<CloseReason> {
        if stream.is_none() {
            self.session.identified().await;
        }
        let mut why = "the stream ended".to_owned();
        let mut first = stream.is_none();
        loop {
            if let Some(answer) = stream.take() {
                let begun = Instant::now();
                match self.listen(answer).await {
                    Ok(broken) => why = broken,
                    Err(end) => return Some(end.into()),
                }
                // A proxy may end a silent stream; that is no failure.
                if begun.elapsed() >= LASTING {
                    self.retry.succeeded();
                }
            }
            if !std::mem::take(&mut first) && !self.retry.wait().await {
                return Some(SessionEnd::Broken(why).into());
            }
            let got = self.get().await;
            self.session.set_listening(got.is_ok());
            let mut is_refused = false;
            match got {
                Ok(Some(answer)) if is_events(&answer.headers) => stream = Some(answer),
                Ok(Some(_)) => why = NO_EVENTS.to_owned(),
                Ok(None) => why = "the server has ended the stream".to_owned(),
                Err(GetError::Failed {
                    why: failed,
                    is_refused: refused,
                }) => (why, is_refused) = (failed, refused),
                Err(GetError::Unsupported) => return None,
                Err(GetError::Ended(end)) => return Some(end.into()),
            }
            self.retry.tried(is_refused);
        }
    }

    async fn get(&self) -> Result<Option<Answer>, GetError> {
        let mut request = self.session.get_request(EVENTS, None);
        let last = self.last.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(last)) = last {
            request.headers_mut().insert(LAST_EVENT_ID, last);
        }
        let late = || GetError::failed("no answer came in time");
        self.unless_silent(self.session.get(request))
            .await
            .ok_or_else(late)?
    }

    /// Waits for work of a server of ours no longer than it may be silent. Others may send
    /// the head of a response with the first event.
    async fn unless_silent<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match self.session.is_foreign() {
            true => Some(work.await),
            false => tokio::time::timeout(SILENCE, work).await.ok(),
        }
    }

    /// Listens to one stream until it breaks, and returns how it did.
    async fn listen(&mut self, mut answer: Answer) -> Result<String, SessionEnd> {
        let mut parser = Parser::new(self.session.policy.max_message);
        loop {
            let mut piece = match self.unless_silent(answer.piece()).await {
                Some(Some(Ok(piece))) => piece,
                Some(Some(Err(error))) => return Ok(error.to_string()),
                Some(None) => return Ok("the stream ended".to_owned()),
                None => return Ok("the server was silent for too long".to_owned()),
            };
            loop {
                match parser.next(&mut piece) {
                    Ok(Some(event)) => self.take(event).await?,
                    Ok(None) => break,
                    Err(error) => self.pass_over(&error).await,
                }
            }
            if let Some(retry) = parser.retry() {
                self.retry.begin_with(retry);
            }
        }
    }

    async fn take(&mut self, event: Event) -> Result<(), SessionEnd> {
        match &*event.name {
            "gap" => return Err(SessionEnd::Missed(missed(&event.data))),
            "end" => return Err(SessionEnd::ByServer),
            _ => {}
        }
        let is_known = event.id.as_deref().is_some_and(|id| !self.is_new(id));
        self.last = event.id.or(self.last.take());
        // Only an event that was not heard before shows that the stream works.
        if is_known || event.data.is_empty() || !matches!(&*event.name, "" | "message") {
            return Ok(());
        }
        self.retry.succeeded();
        pass_on(&self.session, &self.frames, event.data).await;
        Ok(())
    }

    /// Passes over an event that is too long; its id is taken at its end.
    async fn pass_over(&self, event: &TooLong) {
        if matches!(&*event.name, "" | "message") {
            pass_over(&self.session, &self.frames, &event.head).await;
        }
    }

    /// Returns true if an event was not received before. Ids of other servers are no
    /// numbers, or not in order.
    fn is_new(&mut self, id: &str) -> bool {
        let Some(id) = EventId::parse(id).filter(|_| !self.session.is_foreign()) else {
            return true;
        };
        let is_new = id.number > self.number;
        self.number = self.number.max(id.number);
        is_new
    }
}

/// Returns the number of messages in a gap.
fn missed(data: &[u8]) -> u64 {
    #[derive(serde::Deserialize)]
    struct Gap {
        missed: u64,
    }
    serde_json::from_slice(data).map_or(1, |gap: Gap| gap.missed)
}
