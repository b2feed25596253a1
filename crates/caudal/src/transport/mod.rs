//! Transports that send and receive frames.
//!
//! A [`Transport`] moves whole frames and knows nothing of what is in them. The
//! crate's own are [`Stream`] over any bytes that flow (and so TCP, Unix sockets,
//! pipes and memory) and [`Child`]. An application may write another one and hand
//! it to [`Peer::start`](crate::Peer::start).

mod child;
mod listener;
mod stdio;
mod stream;
pub(crate) mod tcp;
#[cfg(unix)]
mod unix;
#[cfg(not(unix))]
#[path = "no_unix.rs"]
mod unix;

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

pub use bytes::BytesMut;
use caudal_core::{CallError, CloseReason, FrameError, Framing, RequestId, setters};

pub use child::{Child, ChildOptions, ExitError, Stderr};
pub use listener::{AcceptedStream, BoundListener};
pub(crate) use listener::{Listener, Socket, accept_failed};
pub use stdio::{Stdio, stdio};
pub use stream::Stream;
pub(crate) use tcp::connect as tcp_connect;
pub(crate) use unix::connect as unix_connect;

/// Moves whole frames, in both directions.
///
/// [`poll_receive`](Self::poll_receive) and [`poll_send`](Self::poll_send) are all that a
/// transport must have. The other methods are for transports that know or limit more, and
/// each says for which.
///
/// A received frame is lent, so that nothing is copied. Many messages are sent in one buffer,
/// so that they cost one system call. [`TransportInfo`] and [`TransportProgress`] are values
/// that may get further fields, so that the trait needs no method for each.
///
/// One task owns it and polls it: nothing here needs a lock. All methods follow
/// the rules of [`Future::poll`]: when one returns
/// [`Poll::Pending`], the task of `cx` is woken as soon as it is worth trying
/// again. Before that, [`poll_receive`](Self::poll_receive) is not called again, however
/// often something is to be sent, but after [`forget`](Self::forget) and
/// [`queued`](Self::queued).
pub trait Transport: Send + Unpin + 'static {
    /// The next frame, without its delimiters; `None` when the other side has closed its
    /// output normally.
    ///
    /// The frame is lent until the next call. After `None` or a fatal error it is
    /// not called again.
    ///
    /// # Errors
    /// See [`ReceiveError`]. After one that is not fatal, it is called again. A transport
    /// that knows the reason for the end returns [`ReceiveError::Ended`] instead of `None`.
    /// If it cannot read any more, though more may have been sent, it returns
    /// [`ReceiveError::Closed`].
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>>;

    /// Sends from the front of `out` what it can take now, and removes it there.
    ///
    /// `out` holds whole messages in the [framing](TransportInfo::framing) of this
    /// transport, many of them if many are due; by default that is a newline
    /// after each, and none within. It is called until `out` is empty: at once after
    /// [`Poll::Ready`], and after [`Poll::Pending`] when the task is woken. What was
    /// removed must be on its way before it returns [`Poll::Ready`] with nothing
    /// left.
    ///
    /// # Errors
    /// The connection cannot be written to any more.
    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>>;

    /// Closes the connection for this reason, and returns when that is done, with a reason if
    /// there is a more exact one than that this side has closed it. Nothing is sent after it.
    ///
    /// The default drops the transport without further ado. A transport needs this if what
    /// was sent may still be lost, or if it tells the other side why.
    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        reason: &CloseReason,
    ) -> Poll<Option<CloseReason>> {
        let _ = (cx, reason);
        Poll::Ready(None)
    }

    /// Describes the transport. It is called when the connection starts, and again when it
    /// is closed.
    fn info(&self) -> TransportInfo {
        TransportInfo::default()
    }

    /// Returns the current counts. A transport needs this if one frame arrives in several
    /// parts: a frame that is not finished in time closes the connection.
    fn progress(&self) -> TransportProgress {
        TransportProgress::default()
    }

    /// Receives the maximum bytes of a frame, before anything else is called. A longer
    /// frame is an error of [`poll_receive`](Self::poll_receive). Without this, a longer
    /// frame is received and refused then.
    fn set_max_message(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// The first bytes of a frame that was skipped, when
    /// [`poll_receive`](Self::poll_receive) has just returned
    /// [`FrameError::TooLarge`] or [`FrameError::Overloaded`]. They tell for which call a
    /// response is that was too large. Without them, that call times out.
    fn skipped(&self) -> &[u8] {
        &[]
    }

    /// Drops the state of an outgoing call that no longer waits for its response. Called
    /// only if [`TransportInfo::keeps_calls`] is true. A transport that makes a request of
    /// its own for each call needs this to end that request.
    fn forget(&mut self, id: &RequestId) {
        let _ = id;
    }

    /// Receives the number of bytes in messages that were returned by
    /// [`poll_receive`](Self::poll_receive) and wait behind a notification or a serial
    /// method. Called whenever the number changes. A transport that limits bytes over
    /// several connections needs this, since these messages still use memory.
    fn queued(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

/// Description of a transport.
///
/// ```
/// use caudal::Framing;
/// use caudal::transport::TransportInfo;
///
/// let info = TransportInfo::default()
///     .framing(Framing::Header)
///     .remote("serial port".to_owned());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportInfo {
    /// Framing of the messages passed to [`Transport::poll_send`]: lines by default.
    pub framing: Framing,
    /// Name or address of the other side, for logs and for
    /// [`Peer::remote`](crate::Peer::remote).
    pub remote: Option<String>,
    /// Maximum time for [`Transport::poll_close`]: 10 s by default.
    pub close_timeout: Duration,
    /// Maximum bytes queued for sending before they are passed to the transport, if that is
    /// less than [`Config::output`](crate::Config::output). A transport with a send buffer
    /// of its own may hold as many bytes there, and counts them itself.
    pub output: Option<usize>,
    /// True if the transport keeps state for each outgoing call that waits for a response.
    /// [`Transport::forget`] is then called when a call is given up.
    pub keeps_calls: bool,
}

impl TransportInfo {
    setters! {
        framing: Framing,
        remote: impl Into<Option<String>>,
        close_timeout: Duration,
        output: impl Into<Option<usize>>,
        keeps_calls: bool,
    }
}

impl Default for TransportInfo {
    fn default() -> Self {
        Self {
            framing: Framing::Line,
            remote: None,
            close_timeout: Duration::from_secs(10),
            output: None,
            keeps_calls: false,
        }
    }
}

/// Counts of a transport.
///
/// ```
/// use caudal::transport::TransportProgress;
///
/// let progress = TransportProgress::default().received(1_024).is_amid_frame(true);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TransportProgress {
    /// Number of bytes received so far, or `None` if the transport does not count them.
    /// Bytes of incomplete frames are included.
    pub received: Option<u64>,
    /// Number of bytes sent so far, or `None` if the transport does not count them. Bytes
    /// taken by [`Transport::poll_send`] may be sent, and counted, later.
    pub sent: Option<u64>,
    /// True if a part of a frame was received, but not all of it.
    pub is_amid_frame: bool,
}

impl TransportProgress {
    setters! {
        received: impl Into<Option<u64>>,
        sent: impl Into<Option<u64>>,
        is_amid_frame: bool,
    }
}

/// Error of [`Transport::poll_receive`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The bytes could not be cut into frames; [`FrameError::is_fatal`] says
    /// whether the next one can be found. The error is reported to the other side, unless
    /// the frame was a response that is too large or refused: then its call fails.
    Frame(FrameError),
    /// The same, and no other frame can follow. The error is reported to the other side,
    /// unless the frame was a response that is too large. The connection ends.
    Fatal(FrameError),
    /// One call of ours has failed, and nothing else: the transport has found out why, and
    /// no answer will come. An id that no call waits for is ignored.
    CallFailed {
        /// Id of the call, as it was sent.
        id: RequestId,
        /// Failure of the call.
        error: CallError,
    },
    /// A message was passed over that could not be read, and the next one can be. It is
    /// counted as [`dropped`](crate::Stats::dropped); the other side is not told.
    Dropped,
    /// The other side has ended, for this reason, and all that it sent was received. As
    /// after `None`, what runs may finish, and what waits to be sent is still sent.
    Ended(CloseReason),
    /// The connection cannot be read any more, and ends at once; what was written by then
    /// is still given to [`poll_send`](Transport::poll_send), as far as it takes it at once.
    Closed(CloseReason),
}

impl From<FrameError> for ReceiveError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> Self {
        Self::Closed(CloseReason::failed(error))
    }
}

/// This side ends a connection because all of them end.
#[derive(Debug, thiserror::Error)]
#[error("this side is shutting down")]
pub(crate) struct ShuttingDown;

/// A transport that is chosen at run time.
impl Transport for Box<dyn Transport> {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        (**self).poll_receive(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        (**self).poll_send(cx, out)
    }

    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        reason: &CloseReason,
    ) -> Poll<Option<CloseReason>> {
        (**self).poll_close(cx, reason)
    }

    fn info(&self) -> TransportInfo {
        (**self).info()
    }

    fn progress(&self) -> TransportProgress {
        (**self).progress()
    }

    fn set_max_message(&mut self, bytes: usize) {
        (**self).set_max_message(bytes);
    }

    fn skipped(&self) -> &[u8] {
        (**self).skipped()
    }

    fn forget(&mut self, id: &RequestId) {
        (**self).forget(id);
    }

    fn queued(&mut self, bytes: usize) {
        (**self).queued(bytes);
    }
}
