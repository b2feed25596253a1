//! A child process that is spoken to through its stdin and stdout.

mod exit_policy;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use caudal_core::{CloseReason, Framing};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, Join, ReadBuf};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep};

use self::exit_policy::Will;
use super::stream::Stream;
use super::{ReceiveError, Transport};

/// Handling of a child's stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stderr {
    /// Inherits the stderr of this process.
    #[default]
    Inherit,
    /// Logs each line with `tracing`. The last lines are part of the reason why the
    /// connection closed.
    Capture,
    /// Discards the output.
    Discard,
}

/// Default time that a child has to exit after its stdin is closed, and again after it
/// was sent SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// Maximum wait for the rest of stderr after the child has exited: another process may
/// hold it open.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// Maximum bytes of captured stderr that are kept.
const TAIL: usize = 8 << 10;

/// A child process that is spoken to through its stdin and stdout.
///
/// It runs without a shell and in a process group of its own. When the connection
/// is closed its stdin is closed; if it does not end then, the whole group is asked
/// to end, and killed at last. Dropping the transport kills the group at once.
///
/// Nothing is dropped in a process that dies of a signal or calls
/// [`exit`](std::process::exit). The group ends all the same, as when the connection is
/// closed: beside each child a process of `/bin/sh` waits for that, and costs nothing
/// meanwhile but its memory. Where there is no such shell, the child only sees the end of
/// its stdin, and a warning is logged when it is started. What a child has started in
/// another group or session is its own affair.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::transport::{Child, Stderr};
/// use caudal::{Framing, Peer, Router};
/// use std::process::Command;
///
/// let mut command = Command::new("cat"); // it echoes our own call, so both ends are ours
/// command.env_clear();
/// let child = Child::spawn(command, Stderr::Capture, Framing::Line, 1 << 20)?;
/// let peer = Peer::start(child, Router::new().method("ping", || Ok("pong")));
/// let pong: String = peer.call("ping", ()).await?;
/// assert_eq!(pong, "pong");
/// # Ok(()) }
/// ```
pub struct Child {
    /// Gone when the connection is closed.
    stream: Option<Stream<Join<ChildStdout, ChildStdin>>>,
    /// Its stdout, from then on.
    rest: Option<ChildStdout>,
    framing: Framing,
    child: tokio::process::Child,
    group: Option<Pid>,
    /// For as long as there is a group.
    will: Option<Will>,
    name: String,
    tail: Arc<Mutex<VecDeque<u8>>>,
    log: Option<JoinHandle<()>>,
    grace: Duration,
    /// Set when its end is waited for.
    ending: Option<Ending>,
    /// Exit status of the child, and the timer that limits the wait for the rest of its stderr.
    ended: Option<(ExitStatus, Pin<Box<Sleep>>)>,
    /// Timer for a child that no longer reads its stdin.
    deaf: Option<Pin<Box<Sleep>>>,
}

/// State of the child's termination.
struct Ending {
    patience: Pin<Box<Sleep>>,
    asked: bool,
}

impl Child {
    /// Starts `command`. Its stdin, stdout and stderr are set here; arguments,
    /// environment and directory are yours.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(
        mut command: std::process::Command,
        stderr: Stderr,
        framing: Framing,
        max_message: usize,
    ) -> io::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.process_group(0);
        let mut command = tokio::process::Command::from(command);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(match stderr {
                Stderr::Inherit => Stdio::inherit(),
                Stderr::Capture => Stdio::piped(),
                Stderr::Discard => Stdio::null(),
            })
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the child's pipes are missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let tail = Arc::default();
        let log = child
            .stderr
            .take()
            .map(|stderr| tokio::spawn(log(stderr, name.clone(), Arc::clone(&tail))));
        let group = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let will = group.and_then(|group| {
            Will::of(group)
                .inspect_err(|error| {
                    tracing::warn!(
                        target: "caudal::child", program = %name, %error,
                        "it may outlive this process: /bin/sh cannot be started",
                    );
                })
                .ok()
        });
        Ok(Self {
            stream: Some(Stream::new(
                tokio::io::join(stdout, stdin),
                framing,
                max_message,
            )),
            rest: None,
            framing,
            child,
            group,
            will,
            name,
            tail,
            log,
            grace: GRACE,
            ending: None,
            ended: None,
            deaf: None,
        })
    }

    /// Sets the time that the child has to exit after its stdin is closed, by this side or
    /// by the child. It has the same time again after it was sent SIGTERM. The default is 2 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The process id, while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It fails if all of them are gone already.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Waits for the child to exit, and sends it signals when that takes too long.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        self.drop_rest(cx);
        loop {
            if self.poll_exit(cx)?.is_ready() {
                return self.poll_last_words(cx).map(Ok);
            }
            let grace = self.grace;
            let ending = self.ending.get_or_insert_with(|| Ending {
                patience: Box::pin(sleep(grace)),
                asked: false,
            });
            ready!(ending.patience.as_mut().poll(cx));
            let signal = match ending.asked {
                true => Signal::KILL,
                false => Signal::TERM,
            };
            ending.asked = true;
            ending.patience = Box::pin(sleep(grace));
            self.signal(signal);
        }
    }

    /// Reads and drops the rest of its stdout, so that it does not die of a failed write.
    fn drop_rest(&mut self, cx: &mut Context<'_>) {
        let mut room = [0; 1 << 10];
        while let Some(rest) = &mut self.rest {
            let mut buffer = ReadBuf::new(&mut room);
            match Pin::new(rest).poll_read(cx, &mut buffer) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => self.rest = None,
            }
        }
    }

    /// Waits for the child to exit, and then kills the rest of its process group.
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ended.is_none() {
            let status = ready!(std::pin::pin!(self.child.wait()).poll(cx))?;
            // What it has started itself ends with it.
            self.signal(Signal::KILL);
            self.group = None;
            self.will = None;
            self.ended = Some((status, Box::pin(sleep(LAST_WORDS))));
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for the rest of its stderr, but not for ever.
    fn poll_last_words(&mut self, cx: &mut Context<'_>) -> Poll<ExitStatus> {
        let Some((status, patience)) = &mut self.ended else {
            return Poll::Pending;
        };
        let silent = match &mut self.log {
            Some(log) => Pin::new(log).poll(cx).is_ready(),
            None => true,
        };
        if silent {
            self.log = None;
        } else {
            ready!(patience.as_mut().poll(cx));
        }
        Poll::Ready(*status)
    }

    /// Waits for a child that no longer reads its stdin to exit: its exit status says more
    /// than a broken pipe. Returns a broken pipe if it still runs after the grace period.
    fn poll_deaf(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let broken = io::ErrorKind::BrokenPipe;
        if let Poll::Ready(Err(error)) = self.poll_exit(cx) {
            return Poll::Ready(error);
        }
        if let Some((status, patience)) = &mut self.ended {
            // What it has said before is read meanwhile, if it can be.
            ready!(patience.as_mut().poll(cx));
            let status = *status;
            return Poll::Ready(io::Error::new(broken, self.exit(status)));
        }
        let grace = self.grace;
        let patience = || Box::pin(sleep(grace));
        ready!(self.deaf.get_or_insert_with(patience).as_mut().poll(cx));
        let deaf = format!("`{}` reads its input no more", self.name);
        Poll::Ready(io::Error::new(broken, deaf))
    }

    fn exit(&self, status: ExitStatus) -> ExitError {
        let tail = self
            .tail
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let bytes: Vec<u8> = tail.iter().copied().collect();
        ExitError {
            program: self.name.clone(),
            status,
            stopped: self.ending.as_ref().is_some_and(|ending| ending.asked),
            stderr: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }
}

/// Logs what a child says, and keeps the end of it.
async fn log(stderr: ChildStderr, name: String, tail: Arc<Mutex<VecDeque<u8>>>) {
    const LONGEST: u64 = 64 << 10;
    let mut lines = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match (&mut lines)
            .take(LONGEST)
            .read_until(b'\n', &mut line)
            .await
        {
            Ok(1..) => {}
            _ => return,
        }
        let text = String::from_utf8_lossy(&line);
        tracing::info!(target: "caudal::child", program = %name, "{}", text.trim_end());
        let mut tail = tail.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        tail.extend(&line);
        let excess = tail.len().saturating_sub(TAIL);
        tail.drain(..excess);
    }
}

impl Transport for Child {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        if self.ending.is_none()
            && let Some(stream) = &mut self.stream
        {
            match stream.poll_advance(cx)? {
                Poll::Ready(true) => {
                    return Poll::Ready(Ok(self.stream.as_ref().map(Stream::frame)));
                }
                Poll::Ready(false) => {}
                // Its output may be held open by what it has started itself.
                Poll::Pending => {
                    ready!(self.poll_exit(cx))?;
                    if let Some((_, patience)) = &mut self.ended {
                        ready!(patience.as_mut().poll(cx));
                    }
                }
            }
        }
        // Its output has ended; how it ended itself is the reason.
        let status = ready!(self.poll_end(cx))?;
        let exit = self.exit(status);
        Poll::Ready(Err(ReceiveError::Ended(match status.success() {
            true => CloseReason::remote_with(exit),
            false => CloseReason::failed(exit),
        })))
    }

    fn skipped(&self) -> &[u8] {
        self.stream.as_ref().map_or(&[], Stream::skipped)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        match ready!(stream.poll_send(cx, out)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.poll_deaf(cx).map(Err),
            sent => Poll::Ready(sent),
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        // The end of its input asks it to end.
        if let Some(stream) = self.stream.take() {
            let (output, _input) = stream.into_io().into_inner();
            self.rest = Some(output);
        }
        let status = ready!(self.poll_end(cx)).ok();
        Poll::Ready(status.map(|status| CloseReason::local_with(self.exit(status))))
    }

    fn close_timeout(&self) -> Duration {
        const REST: Duration = Duration::from_secs(6);
        self.grace.saturating_mul(2).saturating_add(REST)
    }

    fn framing(&self) -> Framing {
        self.framing
    }

    fn received(&self) -> Option<u64> {
        self.stream.as_ref()?.received()
    }

    fn is_amid_frame(&self) -> bool {
        self.stream.as_ref().is_some_and(Transport::is_amid_frame)
    }

    fn remote(&self) -> Option<String> {
        Some(format!("cmd:{}", self.name))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("program", &self.name)
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// Error of a connection whose child process has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{program}` {}: {status}{}", self.how(), self.shown())]
#[non_exhaustive]
pub struct ExitError {
    /// The program.
    pub program: String,
    /// Exit status.
    pub status: ExitStatus,
    /// True if the child was sent a signal because it did not exit in time after its stdin
    /// was closed, or after it closed its stdout.
    pub stopped: bool,
    /// End of its stderr, if that was captured.
    pub stderr: String,
}

impl ExitError {
    fn how(&self) -> &'static str {
        match self.stopped {
            true => "did not end by itself and was stopped",
            false => "ended",
        }
    }

    fn shown(&self) -> String {
        match self.stderr.trim_end() {
            "" => String::new(),
            stderr => format!("; it said: {stderr}"),
        }
    }
}
