//! A child process that is spoken to through its stdin and stdout.

mod exit;
mod options;
mod process_group;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use caudal_core::{CloseReason, Framing};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, Join, ReadBuf};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep};

pub use self::exit::ExitError;
pub use self::options::{ChildOptions, Stderr};
use self::process_group::ProcessGroup;
use super::stream::Stream;
use super::{ReceiveError, Transport, TransportInfo, TransportProgress};

/// Maximum wait for the rest of stderr after the child has exited: another process may
/// hold it open.
const STDERR_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum bytes of captured stderr that are kept.
const TAIL: usize = 8 << 10;

/// A child process that is spoken to through its stdin and stdout.
///
/// It runs without a shell and in a process group of its own. When the connection
/// is closed its stdin is closed. If it does not exit then, the whole group gets SIGTERM
/// after [`ChildOptions::grace`], and is killed after as long again. Dropping the transport
/// kills the group at once. A process that the child has started in another group or
/// session is not ended.
///
/// Windows has a job object in place of the group, and nothing like SIGTERM: the job is
/// killed when `grace` is over.
///
/// Nothing is dropped in a process that dies of a signal or calls
/// [`exit`](std::process::exit). The child then only sees the end of its stdin. With
/// [`ChildOptions::end_with_parent`] the group ends all the same: as above on Unix, and at
/// once on Windows. Where that cannot be set up, for example because Unix has no `/bin/sh`,
/// a warning is logged when the child is started.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::transport::{Child, ChildOptions};
/// use caudal::{Peer, Router};
/// use std::process::Command;
///
/// let mut command = Command::new("cat"); // it echoes our own call, so both ends are ours
/// command.env_clear();
/// let child = Child::spawn(command, ChildOptions::default())?;
/// let peer = Peer::start(child, Router::new().method("ping", || Ok("pong")));
/// let pong: String = peer.call("ping", ()).await?;
/// assert_eq!(pong, "pong");
/// # Ok(()) }
/// ```
pub struct Child {
    /// The first field, so that a dropped child is killed before its stdin is closed.
    /// `None` after it was killed.
    group: Option<ProcessGroup>,
    /// `None` once the connection is closed.
    stream: Option<Stream<Join<ChildStdout, ChildStdin>>>,
    /// Its stdout, from then on.
    stdout: Option<ChildStdout>,
    child: tokio::process::Child,
    name: String,
    framing: Framing,
    grace: Duration,
    stderr_tail: Arc<Mutex<VecDeque<u8>>>,
    stderr_log: Option<JoinHandle<()>>,
    /// Set when this side waits for the child to exit.
    termination: Option<Termination>,
    /// Exit status of the child, and the timer that limits the wait for the rest of its stderr.
    exited: Option<(ExitStatus, Pin<Box<Sleep>>)>,
    /// Timer for a child that no longer reads its stdin.
    stdin_timeout: Option<Pin<Box<Sleep>>>,
}

/// State of the child's termination.
struct Termination {
    timeout: Pin<Box<Sleep>>,
    /// True if the child was asked to end or killed.
    stopped: bool,
}

impl Child {
    /// Starts `command`. Its stdin, stdout and stderr are set here; arguments,
    /// environment and directory are yours.
    ///
    /// # Errors
    /// The program cannot be started.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "options may be added that own memory"
    )]
    pub fn spawn(mut command: std::process::Command, options: ChildOptions) -> io::Result<Self> {
        let ChildOptions {
            stderr,
            framing,
            grace,
            end_with_parent,
        } = options;
        let name = command.get_program().to_string_lossy().into_owned();
        ProcessGroup::prepare(&mut command);
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
        let group = group(&child, &name, end_with_parent);
        let missing = || io::Error::other("the child's pipes are missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr_tail = Arc::default();
        let stderr_log = child
            .stderr
            .take()
            .map(|stderr| tokio::spawn(log(stderr, name.clone(), Arc::clone(&stderr_tail))));
        let io = tokio::io::join(stdout, stdin);
        Ok(Self {
            group,
            stream: Some(Stream::new(io, framing)),
            stdout: None,
            child,
            name,
            framing,
            grace,
            stderr_tail,
            stderr_log,
            termination: None,
            exited: None,
            stdin_timeout: None,
        })
    }

    /// The process id, while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for the child to exit. Asks it to when that takes too long, and kills it at last.
    fn poll_termination(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        self.discard_stdout(cx);
        loop {
            if self.poll_exit(cx)?.is_ready() {
                return self.poll_stderr_end(cx).map(Ok);
            }
            let grace = self.grace;
            let termination = self.termination.get_or_insert_with(|| Termination {
                timeout: Box::pin(sleep(grace)),
                stopped: false,
            });
            ready!(termination.timeout.as_mut().poll(cx));
            termination.timeout = Box::pin(sleep(grace));
            let first = !std::mem::replace(&mut termination.stopped, true);
            let asked = first && self.group.as_ref().is_some_and(ProcessGroup::ask_to_end);
            if !asked {
                // The child first: with its job alone it would exit with status 0 on Windows.
                // It fails if the child is gone already.
                let _ = self.child.start_kill();
                self.group = None;
            }
        }
    }

    /// Reads and drops the rest of its stdout, so that it does not die of a failed write.
    fn discard_stdout(&mut self, cx: &mut Context<'_>) {
        let mut room = [0; 1 << 10];
        while let Some(stdout) = &mut self.stdout {
            let mut buffer = ReadBuf::new(&mut room);
            match Pin::new(stdout).poll_read(cx, &mut buffer) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => self.stdout = None,
            }
        }
    }

    /// Waits for the child to exit, and then kills the rest of its process group.
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.exited.is_none() {
            let status = ready!(std::pin::pin!(self.child.wait()).poll(cx))?;
            // The processes that it has started end with it.
            self.group = None;
            self.exited = Some((status, Box::pin(sleep(STDERR_TIMEOUT))));
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for the rest of its stderr, but not for ever.
    fn poll_stderr_end(&mut self, cx: &mut Context<'_>) -> Poll<ExitStatus> {
        let Some((status, timeout)) = &mut self.exited else {
            return Poll::Pending;
        };
        let is_read = match &mut self.stderr_log {
            Some(log) => Pin::new(log).poll(cx).is_ready(),
            None => true,
        };
        if is_read {
            self.stderr_log = None;
        } else {
            ready!(timeout.as_mut().poll(cx));
        }
        Poll::Ready(*status)
    }

    /// Waits for a child that no longer reads its stdin to exit: its exit status says more
    /// than a broken pipe. Returns a broken pipe if it still runs after the grace period.
    fn poll_unread_stdin(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let broken = io::ErrorKind::BrokenPipe;
        if let Poll::Ready(Err(error)) = self.poll_exit(cx) {
            return Poll::Ready(error);
        }
        if let Some((status, timeout)) = &mut self.exited {
            // The messages that it has sent before are read meanwhile, if they can be.
            ready!(timeout.as_mut().poll(cx));
            let status = *status;
            return Poll::Ready(io::Error::new(broken, self.exit(status)));
        }
        let grace = self.grace;
        let timeout = || Box::pin(sleep(grace));
        ready!(
            self.stdin_timeout
                .get_or_insert_with(timeout)
                .as_mut()
                .poll(cx)
        );
        let unread = format!("`{}` reads its input no more", self.name);
        Poll::Ready(io::Error::new(broken, unread))
    }

    fn exit(&self, status: ExitStatus) -> ExitError {
        let tail = self
            .stderr_tail
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let bytes: Vec<u8> = tail.iter().copied().collect();
        ExitError {
            program: self.name.clone(),
            status,
            stopped: self.termination.as_ref().is_some_and(|it| it.stopped),
            stderr: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }
}

/// Returns the group of a child. Without one, only the child itself can be killed.
fn group(child: &tokio::process::Child, name: &str, end_with_parent: bool) -> Option<ProcessGroup> {
    let warn = |error: &io::Error| {
        tracing::warn!(
            target: "caudal::child", program = %name, %error,
            "it may outlive this process",
        );
    };
    let mut group = ProcessGroup::of(child).inspect_err(warn).ok()?;
    if end_with_parent {
        let _ = group.end_with_parent().inspect_err(warn);
    }
    Some(group)
}

/// Logs the stderr of a child, and keeps the end of it.
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
        if self.termination.is_none()
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
                    if let Some((_, timeout)) = &mut self.exited {
                        ready!(timeout.as_mut().poll(cx));
                    }
                }
            }
        }
        // Its output has ended; how it ended itself is the reason.
        let status = ready!(self.poll_termination(cx))?;
        let exit = self.exit(status);
        Poll::Ready(Err(ReceiveError::Ended(match status.success() {
            true => CloseReason::remote_with(exit),
            false => CloseReason::failed(exit),
        })))
    }

    fn skipped(&self) -> &[u8] {
        self.stream.as_ref().map_or(&[], Stream::skipped)
    }

    fn info(&self) -> TransportInfo {
        const KILL: Duration = Duration::from_secs(6);
        TransportInfo::default()
            .framing(self.framing)
            .remote(format!("cmd:{}", self.name))
            .close_timeout(self.grace.saturating_mul(2).saturating_add(KILL))
    }

    fn progress(&self) -> TransportProgress {
        let stream = self.stream.as_ref();
        stream.map_or_else(TransportProgress::default, Transport::progress)
    }

    fn set_max_message(&mut self, bytes: usize) {
        if let Some(stream) = &mut self.stream {
            stream.set_max_message(bytes);
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        match ready!(stream.poll_send(cx, out)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.poll_unread_stdin(cx).map(Err)
            }
            sent => Poll::Ready(sent),
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _: &CloseReason) -> Poll<Option<CloseReason>> {
        // The end of its input asks it to end.
        if let Some(stream) = self.stream.take() {
            let (stdout, _stdin) = stream.into_io().into_inner();
            self.stdout = Some(stdout);
        }
        let status = ready!(self.poll_termination(cx)).ok();
        Poll::Ready(status.map(|status| CloseReason::local_with(self.exit(status))))
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
