//! The client's side: one poll after the other.

use std::io;
use std::time::Duration;

use http::{HeaderValue, Request};
use tokio::time::Instant;

use super::page::{Cut, Page};
use crate::config::Config;
use crate::endpoint::Target;
use crate::http::client::pool::PooledResponse;
use crate::http::session::client::{
    ClientSession, ClientTransport, GetError, Inbound, MessageSource, PREFER, Retry, SessionEnd,
    listen,
};
use crate::http::{Body, ClientOptions};
use crate::transport::Transport;

const JSON: &str = "application/json";
/// Time that the server is asked to wait for a message.
const WAIT: &str = "wait=25";
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
    let transport = ClientTransport::start(session, |inbound| {
        let polls = Polls {
            inbound,
            cursor: 0,
            asked: Instant::now(),
        };
        listen(polls, opened)
    });
    Ok(Box::new(transport))
}

/// Messages of one poll after the other.
struct Polls {
    inbound: Inbound,
    /// Number of the last message.
    cursor: u64,
    /// Time of the last poll.
    asked: Instant,
}

impl MessageSource for Polls {
    fn session(&self) -> &ClientSession {
        &self.inbound.session
    }

    fn request(&mut self) -> Request<Body> {
        self.asked = Instant::now();
        let query = format!("cursor={}", self.cursor);
        let mut request = self.session().get_request(JSON, Some(&query));
        let headers = request.headers_mut();
        headers.insert(PREFER, HeaderValue::from_static(WAIT));
        request
    }

    async fn read(
        &mut self,
        response: Option<PooledResponse>,
        _: &mut Retry,
    ) -> Result<(), GetError> {
        let has_new = match response {
            Some(response) => self.read_page(response).await?,
            None => false,
        };
        if !has_new && self.asked.elapsed() < AT_ONCE {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}

impl Polls {
    /// Passes on the new messages of a response; returns true if there are any.
    async fn read_page(&mut self, response: PooledResponse) -> Result<bool, GetError> {
        let max_message = self.session().policy.max_message;
        // A server of ours adds no message to 1 MiB of them, but the last one may be as large
        // as allowed.
        let limit = max_message.saturating_add((1 << 20) + (64 << 10));
        let read = self.session().unless_silent(response.read_up_to(limit));
        let Some(Ok((text, is_whole))) = read.await else {
            return Err(GetError::failed("the response broke off"));
        };
        let (page, cut) = match is_whole {
            true => {
                let page = serde_json::from_slice::<Page<'_>>(&text);
                let page = page.map_err(|error| SessionEnd::Broken(error.to_string()))?;
                (page, None)
            }
            false => {
                // Its last message must be larger than allowed.
                let cut = Cut::of(&text).filter(|cut| cut.last.len() > max_message);
                let too_large = || SessionEnd::Broken("a response is too large".to_owned());
                let Cut { page, last } = cut.ok_or_else(too_large)?;
                (page, Some(last))
            }
        };
        let count = page.messages.len() + usize::from(cut.is_some());
        let new = self.count_new(page.cursor, count)?;
        for message in page.messages.iter().skip(count - new) {
            let message = text.slice_ref(message.get().as_bytes());
            self.inbound.message(message).await;
        }
        if let (Some(last), 1..) = (cut, new) {
            self.inbound.too_large(last).await;
        }
        self.cursor = self.cursor.max(page.cursor);
        Ok(new > 0)
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
