//! Standard input and output on Unix, where descriptors can be replaced.
//!
//! Pipes and sockets are registered with the reactor, so that no thread blocks
//! for a read and none is woken for it. They are made non-blocking for that, for
//! every process that shares them; this too is put back. Files and terminals
//! cannot be registered: a thread reads them, and they are made to block.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, Join, ReadBuf, join};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::read_in_thread;

/// Both directions of the connection.
pub(super) type Io = Join<Input, Output>;

/// Takes the two descriptors. They are put back when the second value is dropped.
pub(super) fn take() -> io::Result<(Io, Descriptors)> {
    let descriptors = Descriptors::take()?;
    let input = Input::new(descriptors.input.try_clone()?)?;
    let output = Output::new(descriptors.output.try_clone()?)?;
    Ok((join(input, output), descriptors))
}

/// The two descriptors as they were.
#[derive(Debug)]
pub(super) struct Descriptors {
    input: OwnedFd,
    output: OwnedFd,
    input_flags: OFlags,
    output_flags: OFlags,
}

impl Descriptors {
    fn take() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        let descriptors = Self {
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
        Ok(descriptors)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // Nothing can be done if one of these fails.
        let _ = io::Write::flush(&mut io::stdout());
        let _ = fcntl_setfl(&self.input, self.input_flags);
        let _ = fcntl_setfl(&self.output, self.output_flags);
        let _ = rustix::stdio::dup2_stdin(&self.input);
        let _ = rustix::stdio::dup2_stdout(&self.output);
    }
}

/// Standard input: polled if the system can do that, otherwise read by a thread.
#[derive(Debug)]
pub(super) enum Input {
    Pipe(pipe::Receiver),
    Socket(UnixStream),
    Thread(DuplexStream),
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

#[derive(Debug)]
pub(super) enum Output {
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
