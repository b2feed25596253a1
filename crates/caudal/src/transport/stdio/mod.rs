//! Standard input and output of this process, kept for the connection alone.
//!
//! The connection takes the two descriptors for itself. What the application
//! prints meanwhile goes to stderr, and what it reads from stdin is empty: a stray
//! `println!`, or a child process that prints, cannot corrupt the stream. Both
//! are put back when the connection ends. Where stdout is a socket, it has been shut down
//! then, which tells the other side of the end, and nothing can be printed there any more.
//!
//! Pipes and sockets are registered with the reactor, so that no thread blocks
//! for a read and none is woken for it. They are made non-blocking for that, for
//! every process that shares them; this too is put back. Files and terminals
//! cannot be registered: a thread reads them, and they are made to block.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::BytesMut;
use caudal_core::{CloseReason, Framing};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::stream::Stream;
use super::{ReceiveError, Transport};
use crate::connection::incomplete::Share;

/// Takes standard input and output for a connection, and puts them back when it ends.
/// Where stdout is a socket, it has been shut down then, and takes nothing more.
///
/// # Errors
/// One of them is closed, cannot be registered, or belongs to another connection.
pub fn stdio(framing: Framing, max_message: usize) -> io::Result<Stdio> {
    let kept = Kept::take()?;
    let input = Input::new(kept.input.try_clone()?)?;
    let output = Output::new(kept.output.try_clone()?)?;
    let io = tokio::io::join(input, output);
    let stream = Stream::new(io, framing, max_message).with_remote("stdio");
    Ok(Stdio {
        stream,
        _kept: kept,
    })
}

/// Standard input and output of this process; made by [`stdio`].
#[derive(Debug)]
pub struct Stdio {
    stream: Stream<tokio::io::Join<Input, Output>>,
    /// After the stream: it is put back when the stream is gone.
    _kept: Kept,
}

impl Stdio {
    /// Counts the memory of messages that are not whole as a part of what a server has.
    pub(crate) fn with_share(mut self, share: Share) -> Self {
        self.stream = self.stream.with_share(share);
        self
    }
}

/// The two descriptors as they were.
#[derive(Debug)]
struct Kept {
    input: OwnedFd,
    output: OwnedFd,
    input_flags: OFlags,
    output_flags: OFlags,
}

impl Kept {
    fn take() -> io::Result<Self> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            let taken = "stdin and stdout belong to another connection";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, taken));
        }
        Self::take_free().inspect_err(|_| TAKEN.store(false, Ordering::Release))
    }

    fn take_free() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        let kept = Self {
            input_flags: fcntl_getfl(&input)?,
            output_flags: fcntl_getfl(&output)?,
            input,
            output,
        };
        let nothing = File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&nothing)?;
        // What was printed and not flushed yet belongs to stdout as it was, but
        // would break the first message; it goes to stderr with the rest.
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(kept)
    }
}

/// There is one stdin and one stdout.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Drop for Kept {
    fn drop(&mut self) {
        // Nothing can be done if one of these fails.
        let _ = io::Write::flush(&mut io::stdout());
        let _ = fcntl_setfl(&self.input, self.input_flags);
        let _ = fcntl_setfl(&self.output, self.output_flags);
        let _ = rustix::stdio::dup2_stdin(&self.input);
        let _ = rustix::stdio::dup2_stdout(&self.output);
        TAKEN.store(false, Ordering::Release);
    }
}

impl Transport for Stdio {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        self.stream.poll_receive(cx)
    }

    fn skipped(&self) -> &[u8] {
        self.stream.skipped()
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        self.stream.poll_send(cx, out)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        self.stream.poll_close(cx)
    }

    fn framing(&self) -> Framing {
        self.stream.framing()
    }

    fn received(&self) -> Option<u64> {
        self.stream.received()
    }

    fn is_amid_frame(&self) -> bool {
        self.stream.is_amid_frame()
    }

    fn remote(&self) -> Option<String> {
        self.stream.remote()
    }
}

/// Standard input: polled if the system can do that, otherwise read by a thread.
#[derive(Debug)]
enum Input {
    Pipe(pipe::Receiver),
    Socket(UnixStream),
    Thread(tokio::io::DuplexStream),
}

impl Input {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        let kind = file.metadata()?.file_type();
        if kind.is_fifo() {
            // A pipe that was opened for both directions never ends; take it so.
            let receiver = pipe::Receiver::from_owned_fd(file.into())?;
            Ok(Self::Pipe(receiver))
        } else if kind.is_socket() {
            Ok(Self::Socket(socket(file.into())?))
        } else {
            Ok(Self::Thread(read_in_thread(block(file)?)?))
        }
    }
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Makes a file or terminal block, for a thread that reads or writes it. Another process may
/// have made it non-blocking, and a read without input would then look like the end.
fn block(file: File) -> io::Result<File> {
    let flags = fcntl_getfl(&file)?;
    if flags.contains(OFlags::NONBLOCK) {
        fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    }
    Ok(file)
}

/// Reads in a detached thread: at a terminal it may block for ever.
fn read_in_thread(mut file: File) -> io::Result<tokio::io::DuplexStream> {
    let (here, mut there) = tokio::io::duplex(crate::connection::buffers::SIZE);
    let runtime = tokio::runtime::Handle::current();
    let read = move || {
        let mut buffer = vec![0; 8 << 10];
        loop {
            let bytes = match file.read(&mut buffer) {
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

#[derive(Debug)]
enum Output {
    Pipe(pipe::Sender),
    Socket(UnixStream),
    File(tokio::fs::File),
}

impl Output {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        let kind = file.metadata()?.file_type();
        Ok(if kind.is_fifo() {
            Self::Pipe(pipe::Sender::from_owned_fd(file.into())?)
        } else if kind.is_socket() {
            Self::Socket(socket(file.into())?)
        } else {
            Self::File(tokio::fs::File::from_std(block(file)?))
        })
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            Self::Socket(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Thread(thread) => Pin::new(thread).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Self::Socket(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::File(file) => Pin::new(file).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            // Nothing is held back.
            Self::Pipe(_) | Self::Socket(_) => Poll::Ready(Ok(())),
            Self::File(file) => Pin::new(file).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Pipe(_) => Poll::Ready(Ok(())),
            Self::Socket(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::File(file) => Pin::new(file).poll_shutdown(cx),
        }
    }
}
