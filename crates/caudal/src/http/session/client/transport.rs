//! A client's session as a transport.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use caudal_core::{CloseReason, RequestId};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, PollSender};

use super::Inbound;
use super::posts::{CallTokens, OutgoingPost, PostSender};
use super::session::{ClientSession, SessionEnd};
use crate::http::client::cut_line;
use crate::http::client::response::{Calls, Received};
use crate::transport::{ReceiveError, Transport, TransportInfo};

/// Maximum number of the server's messages that wait for the connection.
const MAX_RECEIVED: usize = 16;
/// Time for messages to be accepted when the session is closed.
const FLUSH_TIME: Duration = Duration::from_secs(3);

/// Transport whose messages go by POST, and come back some other way.
pub(crate) struct ClientTransport {
    session: Arc<ClientSession>,
    received: mpsc::Receiver<Received>,
    /// Message that is lent.
    frame: Bytes,
    messages: PollSender<OutgoingPost>,
    /// Calls whose POSTs have not ended.
    calls: HashMap<RequestId, CancellationToken>,
    /// Calls that were given up and may be in a message that comes next.
    gone: HashSet<RequestId>,
    closed: CancellationToken,
    /// The task that sends messages. These sets end their tasks when they are dropped.
    posts: JoinSet<Option<CloseReason>>,
    listener: JoinSet<()>,
    closing: Option<Pin<Box<dyn Future<Output = Option<CloseReason>> + Send>>>,
}

impl ClientTransport {
    /// Starts both directions.
    pub(crate) fn start<F>(session: Arc<ClientSession>, listen: impl FnOnce(Inbound) -> F) -> Self
    where
        F: Future<Output = Option<CloseReason>> + Send + 'static,
    {
        let (queue, received) = mpsc::channel(MAX_RECEIVED);
        let (messages, posts) = mpsc::channel(1);
        let closed = CancellationToken::new();
        let inbound = Inbound {
            session: Arc::clone(&session),
            queue,
        };
        let sender = PostSender::new(inbound.clone());
        let posts = JoinSet::from_iter([sender.run(posts, closed.clone())]);
        let listening = listen(inbound.clone());
        let listener = JoinSet::from_iter([async move {
            let end = listening.await;
            inbound.session.set_listening(false);
            if let Some(reason) = end {
                inbound.push(Received::End(reason)).await;
            }
        }]);
        Self {
            session,
            received,
            frame: Bytes::new(),
            messages: PollSender::new(messages),
            calls: HashMap::new(),
            gone: HashSet::new(),
            closed,
            posts,
            listener,
            closing: None,
        }
    }

    /// Makes the POST of a message; `None` if it is one call, which was given up.
    fn post(&mut self, text: Bytes) -> Option<OutgoingPost> {
        let mut calls = Calls::of(&text);
        let is_call = calls.only().is_some();
        calls.forget_gone(&mut self.gone);
        if is_call && calls.is_empty() {
            return None;
        }
        self.calls.retain(|_, token| !token.is_cancelled());
        let tokens = calls.ids().map(|id| {
            let token = CancellationToken::new();
            self.calls.insert(id.clone(), token.clone());
            token
        });
        let tokens = CallTokens(tokens.collect());
        Some(OutgoingPost {
            text,
            calls,
            tokens,
        })
    }
}

/// Waits until messages are accepted, and ends the session.
async fn close(
    session: Arc<ClientSession>,
    mut posts: JoinSet<Option<CloseReason>>,
) -> Option<CloseReason> {
    let reason = match tokio::time::timeout(FLUSH_TIME, posts.join_next()).await {
        Ok(ended) => ended.and_then(Result::ok).flatten(),
        Err(_) => Some(SessionEnd::Slow.into()),
    };
    posts.abort_all();
    session.end().await;
    reason
}

impl Transport for ClientTransport {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        match ready!(self.received.poll_recv(cx)) {
            Some(received) => Poll::Ready(received.lend(&mut self.frame)),
            None => Poll::Ready(Ok(None)),
        }
    }

    fn info(&self) -> TransportInfo {
        TransportInfo::default()
            .remote(self.session.origin.authority().to_owned())
            .keeps_calls(true)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        while !out.is_empty() {
            ready!(self.messages.poll_reserve(cx)).map_err(gone)?;
            if let Some(post) = self.post(cut_line(out)) {
                self.messages.send_item(post).map_err(gone)?;
            }
        }
        self.gone.clear();
        Poll::Ready(Ok(()))
    }

    /// Waits until messages are accepted, and ends the session. A message that was not
    /// accepted, and no call could report that, is the reason.
    fn poll_close(&mut self, cx: &mut Context<'_>, _: &CloseReason) -> Poll<Option<CloseReason>> {
        let closing = self.closing.get_or_insert_with(|| {
            self.messages.close();
            self.closed.cancel();
            self.listener.abort_all();
            let posts = std::mem::take(&mut self.posts);
            Box::pin(close(Arc::clone(&self.session), posts))
        });
        // Nobody takes received messages any more, and their senders must not wait for that.
        while let Poll::Ready(Some(_)) = self.received.poll_recv(cx) {}
        closing.as_mut().poll(cx)
    }

    fn forget(&mut self, id: &RequestId) {
        match self.calls.remove(id) {
            Some(token) => token.cancel(),
            None => drop(self.gone.insert(id.clone())),
        }
    }
}
