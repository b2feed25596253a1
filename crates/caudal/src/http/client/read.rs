//! Reads responses, and passes on what they say.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use caudal_core::Policy;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::RequestError;
use super::events::Parser;
use super::pool::PooledResponse;
use super::response::{Calls, Received};
use crate::connection::deadline::after;
use crate::http::server::body::ReadError;

/// Limits of reading one response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLimits {
    pub(crate) policy: Policy,
    /// Time that a response may take that no call waits for.
    pub(crate) unasked: Option<Duration>,
    /// Time that events may go on when all calls are answered.
    pub(crate) answered: Option<Duration>,
}

/// Reads a whole response. A message that no call waits for and that was not accepted is
/// told apart by [`Calls::take_rejection`].
pub(crate) async fn read_whole(
    response: &mut PooledResponse,
    calls: &mut Calls,
    limits: &ReadLimits,
    sink: &mpsc::Sender<Received>,
) {
    let (status, limit) = (response.status, limits.policy.max_message);
    let mut found = VecDeque::new();
    calls.begun(status, &response.headers);
    let read = {
        let mut read = pin!(response.read_to_end(limit));
        match limits.unasked.filter(|_| calls.is_empty()) {
            Some(limit) => Box::pin(timeout(limit, read)).await,
            None => Ok(read.as_mut().await),
        }
    };
    match read {
        Ok(Ok(text)) => calls.settle(status, &text, &limits.policy, &mut found),
        Ok(Err(ReadError::TooLarge)) => calls.fail(&RequestError::TooLarge { limit }, &mut found),
        Ok(Err(_)) => calls.fail(&RequestError::unfinished(), &mut found),
        Err(_) => calls.fail(&RequestError::TimedOut, &mut found),
    }
    pass(sink, &mut found).await;
}

/// Reads a response that is a stream of events, until it ends. Calls that it does not
/// answer are left in `calls`.
pub(crate) async fn read_events(
    mut response: PooledResponse,
    calls: &mut Calls,
    limits: &ReadLimits,
    sink: &mpsc::Sender<Received>,
) {
    let mut parser = Parser::new(limits.policy.max_message);
    let mut found = VecDeque::new();
    let within = |time: Option<Duration>| Some(after(Instant::now(), time?));
    let mut was_answered = calls.is_empty();
    // Some leave it open when all is said.
    let mut deadline = was_answered.then(|| within(limits.unasked)).flatten();
    loop {
        let piece = match deadline {
            Some(deadline) => timeout_at(deadline, response.piece()).await,
            None => Ok(response.piece().await),
        };
        let Ok(Some(Ok(mut piece))) = piece else {
            return;
        };
        while let Some(event) = parser.next(&mut piece) {
            if event.is_cut {
                let limit = limits.policy.max_message;
                calls.fail_unanswered(&RequestError::TooLarge { limit }, &mut found);
                return pass(sink, &mut found).await;
            }
            if !event.data.is_empty() {
                if !calls.take(&event.data, &limits.policy, &mut found) {
                    tracing::warn!(target: "caudal", "an event that is no message");
                }
                pass(sink, &mut found).await;
            }
        }
        if calls.is_empty() && !std::mem::replace(&mut was_answered, true) {
            deadline = within(limits.answered);
        }
    }
}

/// Fails the calls that a response has not answered.
pub(crate) async fn fail_unanswered(
    calls: &mut Calls,
    error: &RequestError,
    sink: &mpsc::Sender<Received>,
) {
    let mut found = VecDeque::new();
    calls.fail_unanswered(error, &mut found);
    pass(sink, &mut found).await;
}

pub(crate) async fn pass(sink: &mpsc::Sender<Received>, found: &mut VecDeque<Received>) {
    for received in found.drain(..) {
        if let Err(TrySendError::Full(received)) = sink.try_send(received) {
            let _ = Box::pin(sink.send(received)).await;
        }
    }
}
