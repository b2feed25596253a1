//! The client's side: events, and how they go on when the stream breaks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use caudal_core::{CloseReason, Message, decode};
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
    Asked, Ended, Frame, Frames, Session, SessionTransport, Tries, pass_over,
};
use crate::transport::Transport;

const EVENTS: &str = "text/event-stream";
const LAST_EVENT_ID: &str = "last-event-id";
/// The id before that of the first message.
const NOTHING_YET: &str = "0";
/// A server of ours is never silent for so long: what is, is dead.
const SILENCE: Duration = Duration::from_secs(60);
/// A stream that lasted so long has worked.
const LASTING: Duration = Duration::from_secs(5);

/// Opens a session.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
) -> io::Result<Box<dyn Transport>> {
    let session = Session::new(target, options, config)?;
    let opened = session.open(EVENTS).await?;
    if opened
        .as_ref()
        .is_some_and(|answer| !is_events(&answer.headers))
    {
        let text = "the server does not answer with events";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    // Who gives an id with the stream counts messages from 1: if it breaks before the
    // first event, what was sent on it is asked for again. Other servers might refuse
    // an id that they never gave.
    let numbers = opened.is_some() && session.is_identified();
    let last = numbers.then(|| NOTHING_YET.to_owned());
    let listened = Arc::clone(&session);
    let transport = SessionTransport::start(session, |frames| async move {
        let listener = Listener {
            session: listened,
            frames,
            last,
            number: 0,
            tries: Tries::new(),
        };
        listener.run(opened.map(Box::new)).await
    });
    Ok(Box::new(transport))
}

struct Listener {
    session: Arc<Session>,
    frames: Frames,
    /// The id of the last event,
    last: Option<String>,
    /// and its number, as a server of ours has it.
    number: u64,
    tries: Tries,
}

impl Listener {
    /// Listens until the session ends; `None` if there is no way to.
    async fn run(mut self, mut stream: Option<Box<Answer>>) -> Option<CloseReason> {
        if stream.is_none() {
            self.session.identified().await;
        }
        let mut why = "the stream ended".to_owned();
        let mut first = stream.is_none();
        loop {
            if let Some(answer) = stream.take() {
                let begun = Instant::now();
                match self.listen(*answer).await {
                    Ok(broken) => why = broken,
                    Err(ended) => return Some(ended.into()),
                }
                // A proxy may end what is silent; that is no failure.
                if begun.elapsed() >= LASTING {
                    self.tries.succeeded();
                }
            }
            if !std::mem::take(&mut first) && !self.tries.wait().await {
                return Some(Ended::Broken(why).into());
            }
            let asked = self.ask().await;
            self.tries.tried(matches!(asked, Asked::Refused(_)));
            match asked {
                Asked::Answer(answer) if is_events(&answer.headers) => stream = Some(answer),
                Asked::Answer(_) => why = "the server does not answer with events".to_owned(),
                Asked::Empty => why = "the server has ended the stream".to_owned(),
                Asked::Failed(error) | Asked::Refused(error) => why = error,
                Asked::Never => return None,
                Asked::End(ended) => return Some(ended.into()),
            }
        }
    }

    async fn ask(&mut self) -> Asked {
        let mut request = self.session.get(EVENTS, None);
        let last = self.last.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(last)) = last {
            request.headers_mut().insert(LAST_EVENT_ID, last);
        }
        let asked = match self.session.is_foreign() {
            // Some send the head of the response with the first event.
            true => self.session.ask(request).await,
            false => match tokio::time::timeout(SILENCE, self.session.ask(request)).await {
                Ok(asked) => asked,
                Err(_) => Asked::Failed("no answer came in time".to_owned()),
            },
        };
        self.session
            .set_listening(matches!(asked, Asked::Answer(_)));
        asked
    }

    /// Listens to one stream until it breaks, and says how it did.
    async fn listen(&mut self, mut answer: Answer) -> Result<String, Ended> {
        let mut parser = Parser::new(self.session.policy.max_message);
        loop {
            let piece = match self.session.is_foreign() {
                true => answer.piece().await,
                false => match tokio::time::timeout(SILENCE, answer.piece()).await {
                    Ok(piece) => piece,
                    Err(_) => return Ok("the server was silent for too long".to_owned()),
                },
            };
            let mut piece = match piece {
                Some(Ok(piece)) => piece,
                Some(Err(error)) => return Ok(error.to_string()),
                None => return Ok("the stream ended".to_owned()),
            };
            loop {
                match parser.next(&mut piece) {
                    Ok(Some(event)) => self.take(event).await?,
                    Ok(None) => break,
                    Err(error) => self.pass_over(&error).await,
                }
            }
            if let Some(retry) = parser.retry() {
                self.tries.begin_with(retry);
            }
        }
    }

    async fn take(&mut self, event: Event) -> Result<(), Ended> {
        match &*event.name {
            "gap" => return Err(Ended::Missed(missed(&event.data))),
            "end" => return Err(Ended::Over),
            _ => {}
        }
        let known = event.id.as_deref().is_some_and(|id| !self.is_new(id));
        self.last = event.id.or(self.last.take());
        // Only what was not heard before is a sign that it works.
        if known || event.data.is_empty() || !matches!(&*event.name, "" | "message") {
            return Ok(());
        }
        self.tries.succeeded();
        if let Message::Invalid(invalid) = decode(&event.data, &self.session.policy)
            && invalid.wants_answer()
        {
            tracing::warn!(target: "caudal", cause = %invalid.cause, "an event that is no message");
            return Ok(());
        }
        let _ = self.frames.send(Frame::Message(event.data)).await;
        Ok(())
    }

    /// Passes over an event that is too long; at its end its id is taken.
    async fn pass_over(&mut self, event: &TooLong) {
        if matches!(&*event.name, "" | "message") {
            pass_over(&self.session, &self.frames, &event.head).await;
        }
    }

    /// Whether an event was not received before; ids of other servers are no
    /// numbers, or not in order.
    fn is_new(&mut self, id: &str) -> bool {
        let Some(id) = EventId::parse(id).filter(|_| !self.session.is_foreign()) else {
            return true;
        };
        let new = id.number > self.number;
        self.number = self.number.max(id.number);
        new
    }
}

/// How many messages a gap has.
fn missed(data: &[u8]) -> u64 {
    #[derive(serde::Deserialize)]
    struct Gap {
        missed: u64,
    }
    serde_json::from_slice(data).map_or(1, |gap: Gap| gap.missed)
}
