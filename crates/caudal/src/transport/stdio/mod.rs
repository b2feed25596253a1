//! Standard input and output of this process, as a connection.

#[cfg(not(unix))]
mod threads;
#[cfg(unix)]
mod unix;

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::BytesMut;
use caudal_core::{CloseReason, Framing};
use tokio::io::{AsyncWriteExt, DuplexStream};

#[cfg(not(unix))]
use self::threads::{Descriptors, Io, take};
#[cfg(unix)]
use self::unix::{Descriptors, Io, take};
use super::stream::Stream;
use super::{ReceiveError, Transport, TransportInfo, TransportProgress};
use crate::connection::incomplete::Share;

/// Takes standard input and output for a connection.
///
/// On Unix the connection has the two descriptors to itself. What the application prints
/// meanwhile goes to stderr, and what it reads from stdin is empty: a stray `println!`, or a
/// child process that prints, cannot corrupt the stream. Both are put back when the
/// connection ends. Where stdout is a socket, it has been shut down then, which tells the
/// other side of the end, and nothing can be printed there any more.
///
/// On Windows that would need `unsafe`, and none of it holds: a stray `println!` corrupts
/// the stream, so print to stderr alone. The thread that reads stdin may go on after the
/// connection has ended, and loses what it reads.
///
/// # Errors
/// One of them is closed, cannot be registered, or belongs to another connection.
pub fn stdio(framing: Framing) -> io::Result<Stdio> {
    let taken = Taken::new()?;
    let (io, descriptors) = take()?;
    let stream = Stream::new(io, framing).with_remote("stdio");
    Ok(Stdio {
        stream,
        _descriptors: descriptors,
        _taken: taken,
    })
}

/// Standard input and output of this process; made by [`stdio`].
#[derive(Debug)]
pub struct Stdio {
    stream: Stream<Io>,
    /// After the stream: they are put back when the stream is gone.
    _descriptors: Descriptors,
    _taken: Taken,
}

impl Stdio {
    /// Counts the memory of messages that are not whole as a part of what a server has.
    pub(crate) fn with_share(mut self, share: Share) -> Self {
        self.stream = self.stream.with_share(share);
        self
    }
}

/// There is one stdin and one stdout.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Keeps other connections from taking them.
#[derive(Debug)]
struct Taken;

impl Taken {
    fn new() -> io::Result<Self> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            let taken = "stdin and stdout belong to another connection";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, taken));
        }
        Ok(Self)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

/// Reads in a detached thread: at a terminal it may block for ever.
fn read_in_thread(mut input: impl Read + Send + 'static) -> io::Result<DuplexStream> {
    let (here, mut there) = tokio::io::duplex(crate::connection::buffers::SIZE);
    let runtime = tokio::runtime::Handle::current();
    let read = move || {
        let mut buffer = vec![0; 8 << 10];
        loop {
            let bytes = match input.read(&mut buffer) {
                Ok(bytes @ 1..) => bytes,
                // A signal is no end.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                _ => return,
            };
            let read = buffer.get(..bytes).unwrap_or_default();
            if runtime.block_on(there.write_all(read)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("caudal stdin".to_owned())
        .spawn(read)?;
    Ok(here)
}

impl Transport for Stdio {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        self.stream.poll_receive(cx)
    }

    fn skipped(&self) -> &[u8] {
        self.stream.skipped()
    }

    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        reason: &CloseReason,
    ) -> Poll<Option<CloseReason>> {
        self.stream.poll_close(cx, reason)
    }

    fn info(&self) -> TransportInfo {
        self.stream.info()
    }

    fn progress(&self) -> TransportProgress {
        self.stream.progress()
    }

    fn set_max_message(&mut self, bytes: usize) {
        self.stream.set_max_message(bytes);
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        self.stream.poll_send(cx, out)
    }
}
