//! Calls of the other side that must wait: each in a task of its own.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use bytes::BytesMut;
use caudal_core::{ErrorCode, Id, JsonRpcError};
use tokio_util::sync::CancellationToken;

use super::batch::Batch;
use super::incident;
use super::{Exchange, Later};
use crate::connection::link::Link;

/// Where the answer of a call goes.
pub(crate) enum Place {
    /// Into a frame of its own.
    Alone,
    /// Into this place of a batch, which is sent when it is complete.
    In(Arc<OpenBatch>, usize),
}

/// A batch of which answers are open. What it holds is counted.
pub(crate) struct OpenBatch {
    link: Arc<Link>,
    batch: Mutex<Batch>,
}

impl OpenBatch {
    pub(crate) fn new(link: &Arc<Link>, batch: Batch) -> Self {
        link.count_owed(batch.bytes());
        Self {
            link: Arc::clone(link),
            batch: Mutex::new(batch),
        }
    }

    /// Puts an answer into its place; all of them, framed, if it was the last.
    fn fill(&self, place: usize, text: BytesMut, entered: &mut Entered) -> Option<BytesMut> {
        self.link.count_owed(text.len());
        let mut batch = self.lock();
        if !batch.fill(place, text) {
            // Before the last one can send them all.
            entered.leave();
            return None;
        }
        let mut text = BytesMut::new();
        batch.write(&mut Exchange::for_frame(&self.link, &mut text));
        Some(text)
    }

    fn lock(&self) -> MutexGuard<'_, Batch> {
        let locked = self.batch.lock();
        locked.unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for OpenBatch {
    fn drop(&mut self) {
        self.link.uncount_owed(self.lock().bytes());
    }
}

enum End {
    Done,
    Cancelled,
    TimedOut,
}

/// Moves a call out of the connection's task.
pub(crate) fn spawn(link: &Arc<Link>, mut later: Later, place: Place) {
    let token = Token::of(link, &later);
    let holds = later.id.is_none() || later.settings.serial;
    let (key, session) = link.enter(later.id.as_deref(), token.token.clone(), holds);
    // Tasks need not begin in the order in which they are spawned.
    let starts = later.settings.spawn.then(|| Starts::hold(link));
    let link = Arc::clone(link);
    let mut entered = Entered {
        link,
        key: Some(key),
        holds,
    };
    // Many of these may wait: what an async function takes by value is kept twice.
    tokio::spawn(async move {
        if let Some(starts) = starts {
            starts.let_others();
        }
        let framed = matches!(place, Place::Alone);
        let text = run_with(&entered.link, &mut later, &token, framed).await;
        deliver(&mut entered, session, &place, text).await;
    });
}

/// Whatever happens to the task of a call, the connection learns of its end.
struct Entered {
    link: Arc<Link>,
    /// None once it has.
    key: Option<usize>,
    holds: bool,
}

impl Entered {
    fn leave(&mut self) {
        if let Some(key) = self.key.take() {
            self.link.leave(key, self.holds);
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A call that is not started yet: until its task runs, or is dropped, no other message
/// may start.
struct Starts(Arc<Link>);

impl Starts {
    fn hold(link: &Arc<Link>) -> Self {
        link.hold();
        Self(Arc::clone(link))
    }
}

impl Starts {
    /// Lets the others start, though this worker may be busy from now on. tokio's workers
    /// keep for themselves what they have woken last, which is the connection's own task:
    /// what is woken after it leaves that to those who have nothing to do.
    fn let_others(self) {
        drop(self);
        drop(tokio::spawn(std::future::ready(())));
    }
}

impl Drop for Starts {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// What tells a call that nobody waits for it any more.
struct Token {
    token: CancellationToken,
    /// Whether it is of this call alone.
    own: bool,
}

impl Token {
    fn of(link: &Link, later: &Later) -> Self {
        let (token, own) = match &later.context {
            Some(context) => (context.token().clone(), true),
            None if later.settings.finish || link.config.dialect.cancel.is_some() => {
                (link.token(), true)
            }
            // Nobody can cancel it but with the whole session.
            None => (link.session_token(), false),
        };
        Self { token, own }
    }
}

/// Runs a call in the task of whoever asked, and returns its answer without a
/// frame.
///
/// # Cancel safety
/// If it is dropped, the call is cancelled; one that chose to finish goes on.
pub(crate) async fn run(link: &Arc<Link>, mut later: Box<Later>) -> BytesMut {
    /// Tells the call that nobody waits for it any more.
    struct Asked(Token);
    impl Drop for Asked {
        fn drop(&mut self) {
            if self.0.own {
                self.0.token.cancel();
            }
        }
    }
    let counted = InFlight::count(link, later.id.is_some());
    let token = Token::of(link, &later);
    if !later.settings.finish {
        let asked = Asked(token);
        return run_with(link, &mut later, &asked.0, false).await;
    }
    let asked = Asked(Token {
        token: token.token.clone(),
        own: token.own,
    });
    let task = tokio::spawn(async move {
        let text = run_with(&counted.0, &mut later, &token, false).await;
        drop(counted);
        text
    });
    let text = task.await.unwrap_or_default();
    drop(asked);
    text
}

/// A call that is counted while it runs.
struct InFlight(Arc<Link>, bool);

impl InFlight {
    fn count(link: &Arc<Link>, request: bool) -> Self {
        link.count_in_flight(request);
        Self(Arc::clone(link), request)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.uncount_in_flight(self.1);
    }
}

/// A call that goes on though it was cancelled, perhaps longer than its connection.
struct Outlives(Arc<AtomicUsize>);

impl Outlives {
    fn count(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Relaxed);
        Self(Arc::clone(all))
    }
}

impl Drop for Outlives {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

async fn run_with(link: &Arc<Link>, later: &mut Later, token: &Token, framed: bool) -> BytesMut {
    let mut text = BytesMut::new();
    let mut exchange = match framed {
        true => Exchange::for_frame(link, &mut text),
        false => Exchange::for_entry(link, &mut text),
    };
    let mut outlives = None;
    let end = {
        let mut cancelled = pin!(token.token.cancelled());
        let mut timeout = later
            .settings
            .timeout
            .map(|limit| Box::pin(tokio::time::sleep(limit)));
        poll_fn(|cx| {
            if later.poll(cx, &mut exchange).is_ready() {
                return Poll::Ready(End::Done);
            }
            if outlives.is_none() && cancelled.as_mut().poll(cx).is_ready() {
                match &later.outliving {
                    // Who chose to finish is told by the token, and goes on.
                    Some(count) => outlives = Some(Outlives::count(count)),
                    None => return Poll::Ready(End::Cancelled),
                }
            }
            match timeout.as_mut().map(|timeout| timeout.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(End::TimedOut),
                _ => Poll::Pending,
            }
        })
        .await
    };
    let future = later.future.take();
    let (id, method, watched) = (&later.id, &later.method, &later.watched);
    let id = id.as_deref().and_then(|id| Id::parse(id).ok());
    // A notification is not answered.
    let cancel = link.config.dialect.cancel.as_ref().filter(|_| id.is_some());
    let (outcome, answer) = match end {
        End::Done => (exchange.outcome(), None),
        End::Cancelled => {
            let code = cancel.and_then(|cancel| cancel.answer);
            let error = code.map(|code| JsonRpcError::new(code, "Request cancelled"));
            ("cancelled", error)
        }
        End::TimedOut => {
            if token.own {
                token.token.cancel();
            }
            let error = JsonRpcError::new(ErrorCode::REQUEST_TIMEOUT, "Request timed out");
            ("timeout", Some(error))
        }
    };
    // It may hold what others wait for, and it may panic when it is dropped.
    incident::contain(method, || drop(future));
    if let Some(error) = answer {
        exchange.reply(id, method, Err::<(), _>(error));
    }
    watched.within(|| tracing::debug!(target: "caudal", outcome, "ended"));
    watched.end(outcome);
    text
}

/// Sends an answer when there is room for it.
async fn deliver(entered: &mut Entered, session: u64, place: &Place, text: BytesMut) {
    let text = match place {
        Place::Alone => Some(text),
        Place::In(batch, place) => batch.fill(*place, text, entered),
    };
    if let (Some(text), Some(key)) = (text.filter(|text| !text.is_empty()), entered.key) {
        let link = &entered.link;
        let counted = Undelivered::count(link, text.len());
        // It fails when the connection has ended, and then nobody waits for it.
        if link
            .answer(session, &text, key, entered.holds)
            .await
            .is_ok()
        {
            counted.delivered();
            entered.key = None;
        }
    }
}

/// An answer that waits for room: while there are many, nothing new begins.
struct Undelivered<'a>(&'a Link, usize);

impl<'a> Undelivered<'a> {
    fn count(link: &'a Link, bytes: usize) -> Self {
        link.count_undelivered(bytes);
        Self(link, bytes)
    }

    /// It was uncounted with that.
    fn delivered(mut self) {
        self.1 = 0;
    }
}

impl Drop for Undelivered<'_> {
    fn drop(&mut self) {
        self.0.uncount_undelivered(self.1);
    }
}
