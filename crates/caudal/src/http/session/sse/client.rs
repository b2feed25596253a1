//! The client's side: events, and a new stream when one breaks.

use std::io;
use std::time::Duration;

use http::{HeaderValue, Request};
use tokio::time::Instant;

use super::event::EventId;
use crate::config::Config;
use crate::endpoint::Target;
use crate::http::client::events::{Event, Parser};
use crate::http::client::pool::PooledResponse;
use crate::http::client::response::is_events;
use crate::http::session::client::{
    ClientSession, ClientTransport, GetError, Inbound, MessageSource, Retry, SessionEnd, listen,
};
use crate::http::{Body, ClientOptions};
use crate::transport::Transport;

const EVENTS: &str = "text/event-stream";
const NO_EVENTS: &str = "the server does not answer with events";
const LAST_EVENT_ID: &str = "last-event-id";
/// Id of the event before the first message.
const NOTHING_YET: &str = "0";
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
    if let Some(response) = &opened
        && !is_events(&response.headers)
    {
        return Err(io::Error::new(io::ErrorKind::InvalidData, NO_EVENTS));
    }
    // A server that gives an id with the stream counts messages from 1: if the stream breaks
    // before the first event, it is asked for again from the start. Other servers might
    // refuse an id that they never gave.
    let numbers = opened.is_some() && session.is_identified();
    let last = numbers.then(|| NOTHING_YET.to_owned());
    let transport = ClientTransport::start(session, |inbound| {
        let events = Events {
            inbound,
            last,
            number: 0,
        };
        listen(events, opened)
    });
    Ok(Box::new(transport))
}

/// Events of one stream after the other.
struct Events {
    inbound: Inbound,
    /// Id of the last event.
    last: Option<String>,
    /// Number in it, if the server is one of ours.
    number: u64,
}

impl MessageSource for Events {
    fn session(&self) -> &ClientSession {
        &self.inbound.session
    }

    fn request(&mut self) -> Request<Body> {
        let mut request = self.session().get_request(EVENTS, None);
        let last = self.last.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(last)) = last {
            request.headers_mut().insert(LAST_EVENT_ID, last);
        }
        request
    }

    /// Listens to one stream until it breaks.
    async fn read(
        &mut self,
        response: Option<PooledResponse>,
        retry: &mut Retry,
    ) -> Result<(), GetError> {
        let Some(mut response) = response else {
            return Err(GetError::failed("the server has ended the stream"));
        };
        if !is_events(&response.headers) {
            return Err(GetError::failed(NO_EVENTS));
        }
        let (begun, mut parser) = (
            Instant::now(),
            Parser::new(self.session().policy.max_message),
        );
        let why = loop {
            let mut piece = match self.session().unless_silent(response.piece()).await {
                Some(Some(Ok(piece))) => piece,
                Some(Some(Err(error))) => break error.to_string(),
                Some(None) => break "the stream ended".to_owned(),
                None => break "the server was silent for too long".to_owned(),
            };
            while let Some(event) = parser.next(&mut piece) {
                self.take(event, retry).await?;
            }
            if let Some(milliseconds) = parser.retry() {
                retry.begin_with(milliseconds);
            }
        };
        // A proxy may end a silent stream; that is no failure.
        if begun.elapsed() >= LASTING {
            retry.succeeded();
        }
        Err(GetError::failed(why))
    }
}

impl Events {
    async fn take(&mut self, event: Event, retry: &mut Retry) -> Result<(), SessionEnd> {
        match &*event.name {
            "gap" => return Err(SessionEnd::Missed(missed(&event.data))),
            "end" => return Err(SessionEnd::ByServer),
            _ => {}
        }
        let is_known = event.id.as_deref().is_some_and(|id| !self.is_new(id));
        self.last = event.id.or(self.last.take());
        // Only an event that was not received before shows that the stream works.
        if is_known || !matches!(&*event.name, "" | "message") {
            return Ok(());
        }
        if event.is_cut {
            self.inbound.too_large(&event.data).await;
        } else if !event.data.is_empty() {
            retry.succeeded();
            self.inbound.message(event.data).await;
        }
        Ok(())
    }

    /// Returns true if an event was not received before. Ids of foreign servers are no
    /// numbers, or not in order.
    fn is_new(&mut self, id: &str) -> bool {
        let Some(id) = EventId::parse(id).filter(|_| !self.session().is_foreign()) else {
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
