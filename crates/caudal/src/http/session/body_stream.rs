//! Response bodies that are made piece by piece.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio_util::sync::ReusableBoxFuture;

use crate::http::{Body, Flow};

/// Source of a response body.
pub(super) trait BodyStream: Send + Sized + 'static {
    /// The next piece, which is not empty; `None` at the end, however often it is called.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// Makes a body of it. If it ends before `length` bytes, the response is cut.
    fn into_body(self, length: Option<u64>) -> Body {
        let next = ReusableBoxFuture::new(next_of(self));
        Body::flow(StreamBody { next }, length)
    }
}

struct StreamBody<S> {
    next: ReusableBoxFuture<'static, (S, Option<Bytes>)>,
}

impl<S: BodyStream> Flow for StreamBody<S> {
    fn poll_piece(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let (stream, piece) = ready!(self.next.poll(cx));
        self.next.set(next_of(stream));
        Poll::Ready(piece)
    }
}

async fn next_of<S: BodyStream>(mut stream: S) -> (S, Option<Bytes>) {
    let piece = stream.next().await;
    (stream, piece)
}
