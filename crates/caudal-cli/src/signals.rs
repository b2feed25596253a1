//! Reasons to end the program: a signal, or the end of its time.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};

use crate::exit::{Exit, Failure};

/// Time that the program has to react to a signal or timeout; then it is taken to hang.
pub(crate) const HANGS: Duration = Duration::from_secs(1);

/// Receiver of Ctrl-C and SIGTERM, or of the end of the console on Windows, from the moment it is made.
///
/// A separate thread waits for the signals. If the program does not take one in time,
/// because it hangs in a write that is not read, the thread ends the program.
pub(crate) struct Signals(mpsc::UnboundedReceiver<oneshot::Sender<()>>);

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        let (sender, signals) = mpsc::unbounded_channel();
        watch(sender)
            .map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))?;
        Ok(Self(signals))
    }

    /// Returns when one comes.
    pub(crate) async fn next(&mut self) {
        match self.0.recv().await {
            Some(taken) => drop(taken.send(())),
            None => std::future::pending().await,
        }
    }
}

fn watch(sender: mpsc::UnboundedSender<oneshot::Sender<()>>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let mut interrupts = Interrupts::new()?;
    drop(entered);
    let watch = async move {
        loop {
            interrupts.next().await;
            let (take, taken) = oneshot::channel();
            let _ = sender.send(take);
            if !matches!(tokio::time::timeout(HANGS, taken).await, Ok(Ok(()))) {
                end(Exit::Interrupted);
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || runtime.block_on(watch))?;
    Ok(())
}

/// SIGINT and SIGTERM.
#[cfg(unix)]
struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Interrupts {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Ctrl-C, and the end of the console.
#[cfg(windows)]
struct Interrupts {
    interrupt: tokio::signal::windows::CtrlC,
    close: tokio::signal::windows::CtrlClose,
}

#[cfg(windows)]
impl Interrupts {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: tokio::signal::windows::ctrl_c()?,
            close: tokio::signal::windows::ctrl_close()?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.close.recv() => {}
        }
    }
}

/// Time limit for the program; dropping it removes the limit.
///
/// A separate thread ends the program at the limit. The program's own timers do not run
/// while it hangs in a write that is not read.
pub(crate) struct Limit {
    _held: Sender<Infallible>,
}

impl Limit {
    pub(crate) fn new(limit: Duration) -> Result<Self, Failure> {
        let (held, dropped) = channel::<Infallible>();
        let thread = std::thread::Builder::new().name("limit".to_owned());
        let watch = move || {
            let waited = dropped.recv_timeout(limit.saturating_add(HANGS));
            if waited == Err(RecvTimeoutError::Timeout) {
                end(Exit::Timeout);
            }
        };
        match thread.spawn(watch) {
            Ok(_) => Ok(Self { _held: held }),
            Err(error) => Err(Failure::usage(format!("cannot watch the time: {error}"))),
        }
    }
}

#[expect(clippy::exit, reason = "the main thread does not come back")]
fn end(exit: Exit) -> ! {
    std::process::exit(exit as i32)
}

/// Runs work that may block for ever, so that a signal is seen meanwhile.
pub(crate) async fn aside<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other)?
}

/// Runs work that may block for ever, and waits for it at most `patience`.
pub(crate) fn within(patience: Duration, work: impl FnOnce() + Send + 'static) {
    let (held, dropped) = channel::<Infallible>();
    let work = move || {
        work();
        drop(held);
    };
    if std::thread::Builder::new().spawn(work).is_ok() {
        // Either way there is no more to do.
        let _ = dropped.recv_timeout(patience);
    }
}
