//! Bodies of responses, and reading of request bodies within their limits.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
#[cfg(feature = "http2")]
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::FutureExt as _;
use http_body::{Frame, SizeHint};

#[cfg(feature = "http2")]
use super::http2::stalled::{Pieces, Retained};
use super::request::RequestGuard;
#[cfg(feature = "http2")]
use crate::call::lone::LoneOrigin;
use crate::connection::buffers;
use crate::connection::incomplete::Share;

/// Maximum bytes that are passed to hyper at once. hyper copies them into a buffer of at
/// most 64 KiB and one piece, which is not counted. Bytes that are not passed to hyper yet
/// count for their source.
const PIECE: usize = 16 * 1024;

/// The body of a response: a text, nothing, or events as they happen.
#[derive(Debug)]
pub struct Body {
    kind: Kind,
    /// Its request, which is in progress until the body is sent.
    request: Option<RequestGuard>,
}

enum Kind {
    Whole(Option<Bytes>),
    /// If it is known, with how much is left of it.
    Flow(Pin<Box<dyn Flow>>, Option<u64>),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(text) => f.debug_tuple("Whole").field(text).finish(),
            Self::Flow(..) => f.write_str("Flow"),
        }
    }
}

/// Pieces of a body that come one after the other.
pub(crate) trait Flow: Send {
    /// The next piece, which is not empty; `None` at the end.
    fn poll_piece(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

impl Body {
    pub(crate) fn empty() -> Self {
        Kind::Whole(None).into()
    }

    pub(crate) fn whole(text: impl Into<Bytes>) -> Self {
        let text = Some(text.into()).filter(|text| !text.is_empty());
        Kind::Whole(text).into()
    }

    /// A body whose pieces arrive one after the other. `length` is its size, if that is known.
    /// If the body ends earlier, the response is aborted.
    #[cfg_attr(
        all(not(feature = "session"), not(test)),
        expect(
            dead_code,
            reason = "only what waits in a session is not there at once"
        )
    )]
    pub(crate) fn flow(flow: impl Flow + 'static, length: Option<u64>) -> Self {
        let (flow, rest) = (Box::pin(flow), Bytes::new());
        Kind::Flow(Box::pin(Parts { flow, rest }), length).into()
    }

    /// Keeps the request in progress until the body is sent.
    pub(super) fn last_with(&mut self, request: RequestGuard) {
        self.request = Some(request);
    }

    /// Lets the task of an HTTP/2 stream see whether its client takes the body, and counts
    /// the body until then.
    #[cfg(feature = "http2")]
    pub(super) fn give_in_pieces(&mut self, origin: &Arc<LoneOrigin>) {
        let (text, flow, length) = match std::mem::replace(&mut self.kind, Kind::Whole(None)) {
            Kind::Whole(None) => return,
            Kind::Whole(Some(text)) => {
                let length = Some(text.len() as u64);
                (text, None, length)
            }
            Kind::Flow(flow, length) => (Bytes::new(), Some(flow), length),
        };
        let retained = Retained::new(origin, length.unwrap_or(0));
        let pieces = Pieces::new(text, flow, retained);
        self.kind = Kind::Flow(Box::pin(pieces), length);
    }
}

impl From<Kind> for Body {
    fn from(kind: Kind) -> Self {
        Self {
            kind,
            request: None,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    /// The body ended before its announced length. The client must not take it for complete.
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = match &mut self.kind {
            Kind::Whole(Some(text)) if text.len() > PIECE => Poll::Ready(Some(part(text))),
            Kind::Whole(text) => Poll::Ready(text.take()),
            Kind::Flow(flow, left) => {
                let piece = flow.as_mut().poll_piece(cx);
                match (&piece, left) {
                    (Poll::Ready(Some(piece)), Some(left)) => {
                        *left = left.saturating_sub(piece.len() as u64);
                    }
                    // Over HTTP/2 it is this that resets the stream.
                    (Poll::Ready(None), Some(1..)) => {
                        return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                    }
                    _ => {}
                }
                piece
            }
        };
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(text) => text.is_none(),
            Kind::Flow(_, left) => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Flow(_, left) => left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

/// A flow whose pieces have a maximum size.
struct Parts {
    flow: Pin<Box<dyn Flow>>,
    rest: Bytes,
}

impl Flow for Parts {
    fn poll_piece(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.rest.is_empty() {
            match ready!(self.flow.as_mut().poll_piece(cx)) {
                Some(piece) => self.rest = piece,
                None => return Poll::Ready(None),
            }
        }
        Poll::Ready(Some(part(&mut self.rest)))
    }
}

/// The next piece of a text.
fn part(rest: &mut Bytes) -> Bytes {
    rest.split_to(rest.len().min(PIECE))
}

/// Why a request's body could not be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It is larger than the limit; the rest was not read.
    TooLarge,
    /// It took too long.
    Slow,
    /// The client went away.
    Broken,
    /// The others of its connection or server hold too much.
    NoRoom,
}

/// Memory of one body while it is received: its share of the server's, and of its
/// connection's if that may have many bodies at once.
pub(crate) type Shares = [Share; 2];

/// Reads a body to its end, of `limit` bytes at most, within `time` and the limits of its
/// `shares`.
pub(crate) async fn read<B: http_body::Body>(
    body: B,
    limit: usize,
    time: Option<Duration>,
    mut shares: Shares,
) -> Result<Bytes, ReadError> {
    let mut body = pin!(body);
    let mut whole = Whole::default();
    let mut read = poll_fn(|cx| match whole.poll(body.as_mut(), cx, limit) {
        Poll::Pending if !shares.iter_mut().all(|share| share.set(whole.held())) => {
            Poll::Ready(Err(ReadError::NoRoom))
        }
        read => read,
    });
    // Most bodies are there at once, and need no timer.
    if let Some(read) = (&mut read).now_or_never() {
        return read;
    }
    let Some(time) = time else {
        return read.await;
    };
    match tokio::time::timeout(time, read).await {
        Ok(read) => read,
        Err(_) => Err(ReadError::Slow),
    }
}

/// The part of a body that was received. Most bodies arrive in one piece, which is not
/// copied.
#[derive(Default)]
pub(crate) struct Whole {
    first: Bytes,
    rest: Vec<u8>,
}

impl Whole {
    fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    /// Bytes of memory that it takes.
    fn held(&self) -> usize {
        self.first.len() + self.rest.capacity()
    }

    /// Appends a piece to those before it; there will be `most` bytes in all.
    fn push(&mut self, piece: &[u8], most: usize) {
        buffers::grow(&mut self.rest, piece.len(), most);
        self.rest.extend_from_slice(piece);
    }

    pub(crate) fn poll<B>(
        &mut self,
        mut body: Pin<&mut B>,
        cx: &mut Context<'_>,
        limit: usize,
    ) -> Poll<Result<Bytes, ReadError>>
    where
        B: http_body::Body,
    {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if self.len().saturating_add(announced) > limit {
            return Poll::Ready(Err(ReadError::TooLarge));
        }
        while !body.is_end_stream() {
            let frame = match body.as_mut().poll_frame(cx) {
                Poll::Pending => {
                    // It may be a small part of what was read at once.
                    let first = std::mem::take(&mut self.first);
                    self.push(&first, limit);
                    return Poll::Pending;
                }
                Poll::Ready(None) => break,
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(ReadError::Broken)),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            let Ok(mut data) = frame.into_data() else {
                continue;
            };
            let size = data.remaining();
            if self.len() + size > limit {
                return Poll::Ready(Err(ReadError::TooLarge));
            }
            if self.first.is_empty() && self.rest.is_empty() {
                self.first = data.copy_to_bytes(size);
                continue;
            }
            let announced = body.size_hint().upper();
            let announced = announced.and_then(|bytes| usize::try_from(bytes).ok());
            let announced = announced.map(|bytes| (self.len() + size).saturating_add(bytes));
            let most = announced.unwrap_or(limit).min(limit);
            let first = std::mem::take(&mut self.first);
            self.push(&first, most);
            while data.has_remaining() {
                let piece = data.chunk().len();
                self.push(data.chunk(), most);
                data.advance(piece);
            }
        }
        Poll::Ready(Ok(match self.rest.is_empty() {
            true => std::mem::take(&mut self.first),
            false => std::mem::take(&mut self.rest).into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use http_body::{Body as _, Frame, SizeHint};

    use super::{Body, Flow, PIECE};

    #[tokio::test]
    async fn a_long_text_is_given_in_pieces_and_no_byte_is_lost() {
        for (size, pieces) in [(0, 0), (1, 1), (PIECE, 1), (PIECE + 1, 2), (3 * PIECE, 3)] {
            let text: Bytes = (0..=250).cycle().take(size).collect();
            let mut body = pin!(Body::whole(text.clone()));
            let (mut given, mut count) = (Vec::new(), 0);
            while !body.is_end_stream() {
                let left = body.size_hint().exact();
                assert_eq!(left, Some((size - given.len()) as u64), "{size}");
                let frame = poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
                given.extend(frame.unwrap().unwrap().into_data().unwrap());
                count += 1;
            }
            assert!(given == text, "{size}");
            assert_eq!(count, pieces, "{size}");
        }
    }

    /// Texts that are all there.
    struct Texts(std::collections::VecDeque<Bytes>);

    impl Flow for Texts {
        fn poll_piece(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
            Poll::Ready(self.0.pop_front())
        }
    }

    /// A body that was received in part. Its length may be known.
    struct Coming {
        come: usize,
        taken: usize,
        length: Option<u64>,
    }

    impl http_body::Body for Coming {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            let more = self.come - self.taken;
            self.taken = self.come;
            match more {
                0 => Poll::Pending,
                more => Poll::Ready(Some(Ok(Frame::data(vec![b' '; more].into())))),
            }
        }

        fn size_hint(&self) -> SizeHint {
            let left = |length| SizeHint::with_exact(length - self.taken as u64);
            self.length.map_or_else(SizeHint::default, left)
        }
    }

    #[test]
    fn the_memory_of_a_body_follows_what_came_of_it() {
        const LENGTH: usize = 1 << 20;
        for length in [None, Some(LENGTH as u64)] {
            let (come, taken) = (0, 0);
            let mut body = pin!(Coming {
                come,
                taken,
                length
            });
            let mut whole = super::Whole::default();
            let cx = &mut Context::from_waker(std::task::Waker::noop());
            while body.come < LENGTH - 1 {
                body.come = (body.come + 1_000).min(LENGTH - 1);
                assert!(whole.poll(body.as_mut(), cx, LENGTH).is_pending());
                let (come, held) = (body.come, whole.held());
                assert!((come..=2 * come).contains(&held), "{held} for {come}");
                assert!(held <= LENGTH, "{held}");
            }
        }
    }

    #[tokio::test]
    async fn so_are_those_that_come_one_after_the_other() {
        let texts = [1, 3 * PIECE, 2].map(|size| Bytes::from(vec![b'x'; size]));
        let mut body = pin!(Body::flow(Texts(texts.into()), None));
        let mut sizes = Vec::new();
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            sizes.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(sizes, [1, PIECE, PIECE, PIECE, 2]);
    }
}
