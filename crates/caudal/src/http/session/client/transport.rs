//! A client's session as a transport.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use caudal_core::{CallError, CloseReason, RequestId};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::{CancellationToken, PollSender};

use super::open_calls::OpenCalls;
use super::posts::PostSender;
use super::session::{ClientSession, SessionEnd};
use crate::http::client::answer::{Calls, Received};
use crate::http::client::cut_line;
use crate::transport::{ReceiveError, Transport};

/// Maximum number of the server's messages that wait for the connection.
const MAX_FRAMES: usize = 16;
/// Time for messages to be accepted when the session is closed.
const FLUSH_TIME: Duration = Duration::from_secs(3);

/// Message of the server, or the end.
#[derive(Debug)]
pub(crate) enum Frame {
    Message(Bytes),
    /// Call that ended without an answer.
    Failed(RequestId, CallError),
    /// A message that was too large, and no answer.
    Dropped,
    End(CloseReason),
}

impl From<Received> for Frame {
    fn from(received: Received) -> Self {
        match received {
            Received::Message(text) => Self::Message(text),
            Received::Failed { id, error } => Self::Failed(id, error),
        }
    }
}

pub(crate) type FrameSender = mpsc::Sender<Frame>;

/// Transport whose messages go by POST, and come back some other way.
pub(crate) struct ClientTransport {
    session: Arc<ClientSession>,
    frames: mpsc::Receiver<Frame>,
    /// Frame that is lent.
    frame: Bytes,
    messages: PollSender<(Bytes, Calls)>,
    open_calls: Arc<OpenCalls>,
    closed: CancellationToken,
    posts: Option<JoinHandle<Option<CloseReason>>>,
    listener: AbortHandle,
    closing: Option<Pin<Box<dyn Future<Output = Option<CloseReason>> + Send>>>,
}

impl ClientTransport {
    /// Starts both directions.
    pub(crate) fn start<F>(
        session: Arc<ClientSession>,
        listen: impl FnOnce(FrameSender) -> F,
    ) -> Self
    where
        F: Future<Output = Option<CloseReason>> + Send + 'static,
    {
        let (sender, frames) = mpsc::channel(MAX_FRAMES);
        let (messages, queue) = mpsc::channel(1);
        let (open_calls, closed) = (Arc::new(OpenCalls::default()), CancellationToken::new());
        let posts = PostSender::new(&session, sender.clone(), &open_calls);
        let posts = tokio::spawn(posts.run(queue, closed.clone()));
        let listening = listen(sender.clone());
        let listening_session = Arc::clone(&session);
        let listener = tokio::spawn(async move {
            let end = listening.await;
            listening_session.set_listening(false);
            if let Some(reason) = end {
                let _ = sender.send(Frame::End(reason)).await;
            }
        });
        Self {
            session,
            frames,
            frame: Bytes::new(),
            messages: PollSender::new(messages),
            open_calls,
            closed,
            posts: Some(posts),
            listener: listener.abort_handle(),
            closing: None,
        }
    }
}

/// Waits until messages are accepted, and ends the session.
async fn close(
    session: Arc<ClientSession>,
    posts: Option<JoinHandle<Option<CloseReason>>>,
) -> Option<CloseReason> {
    let mut posts = posts?;
    let more = match tokio::time::timeout(FLUSH_TIME, &mut posts).await {
        Ok(more) => more.ok().flatten(),
        Err(_) => {
            posts.abort();
            Some(SessionEnd::Slow.into())
        }
    };
    session.end().await;
    more
}

impl Transport for ClientTransport {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        match ready!(self.frames.poll_recv(cx)) {
            Some(Frame::Message(frame)) => {
                self.frame = frame;
                Poll::Ready(Ok(Some(&self.frame)))
            }
            Some(Frame::Failed(id, error)) => {
                Poll::Ready(Err(ReceiveError::CallFailed { id, error }))
            }
            Some(Frame::Dropped) => Poll::Ready(Err(ReceiveError::Dropped)),
            Some(Frame::End(reason)) => Poll::Ready(Err(ReceiveError::Closed(reason))),
            None => Poll::Ready(Ok(None)),
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        while !out.is_empty() {
            let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
            ready!(self.messages.poll_reserve(cx)).map_err(|_| gone())?;
            let text = cut_line(out);
            let calls = Calls::of(&text);
            self.open_calls.queue(&calls);
            let sent = self.messages.send_item((text, calls));
            sent.map_err(|_| gone())?;
        }
        self.open_calls.all_queued();
        Poll::Ready(Ok(()))
    }

    /// Waits until messages are accepted, and ends the session. A message that was not
    /// accepted, and no call could tell so, is the reason.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        if self.closing.is_none() {
            self.messages.close();
            self.closed.cancel();
            self.listener.abort();
            let closing = close(Arc::clone(&self.session), self.posts.take());
            self.closing = Some(Box::pin(closing));
        }
        // Nobody looks at frames any more, and nobody is to wait for that.
        while let Poll::Ready(Some(_)) = self.frames.poll_recv(cx) {}
        match &mut self.closing {
            Some(closing) => closing.as_mut().poll(cx),
            None => Poll::Ready(None),
        }
    }

    fn keeps_calls(&self) -> bool {
        true
    }

    fn forget(&mut self, id: &RequestId) {
        self.open_calls.forget(id);
    }

    fn remote(&self) -> Option<String> {
        Some(self.session.origin.authority().to_owned())
    }
}

impl Drop for ClientTransport {
    fn drop(&mut self) {
        self.listener.abort();
        if let Some(posts) = &self.posts {
            posts.abort();
        }
    }
}
