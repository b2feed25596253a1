//! A session as a transport: its peer sees nothing of HTTP.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use caudal_core::{CloseReason, Id, JsonRpcError, Message, decode, encode};
use tokio::time::{Instant, Sleep, sleep};

use super::inbox::Inbox;
use super::outbox::Outbox;
use super::table::Table;
use super::waits::{Ids, Subject, Waits, read_own};
use crate::config::Config;
use crate::hub::Hub;
use crate::peer::member;
use crate::transport::{ReceiveError, Transport};

/// So much waits in the driver of a session, and what is more in its outbox.
const BEFORE: usize = 64 << 10;

/// How long the last messages of a session wait for a client that reads them,
const READ: Duration = Duration::from_secs(5);
/// and for one that has yet to come.
const COME: Duration = Duration::from_millis(500);

/// What the transport of a session and its HTTP requests share.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) inbox: Inbox,
    pub(super) outbox: Arc<Outbox>,
    pub(super) waits: Waits,
}

/// A session as a transport.
pub(super) struct Channel {
    pipe: Arc<Pipe>,
    config: Arc<Config>,
    table: Weak<Table>,
    id: Arc<str>,
    remote: Option<String>,
    /// What was lent last.
    message: Bytes,
    /// How much the driver could not send.
    unsent: usize,
    hub: Arc<Hub>,
    /// How long it still waits for its client.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Channel {
    pub(super) fn new(
        pipe: &Arc<Pipe>,
        hub: &Arc<Hub>,
        table: &Arc<Table>,
        id: &Arc<str>,
        remote: Option<String>,
    ) -> Self {
        Self {
            pipe: Arc::clone(pipe),
            config: Arc::clone(&hub.config),
            table: Arc::downgrade(table),
            id: Arc::clone(id),
            remote,
            message: Bytes::new(),
            unsent: 0,
            hub: Arc::clone(hub),
            timer: None,
        }
    }

    /// Gives a message to the POST that waits for it, or to the outbox.
    fn poll_route(&self, cx: &mut Context<'_>, text: &[u8]) -> Poll<()> {
        let Pipe { outbox, waits, .. } = &*self.pipe;
        if let Some(subject) = self.subject(text)
            && waits.want(&subject, text.len())
        {
            // Who does not read its answers gets no more of them.
            ready!(outbox.poll_set_aside(cx, text.len()));
            if self.give(&subject, text) {
                return Poll::Ready(());
            }
        }
        outbox.poll_push(cx, text)
    }

    /// What of a POST a message may be about; `None` if nobody waits.
    fn subject(&self, text: &[u8]) -> Option<Subject> {
        if self.pipe.waits.is_empty() {
            return None;
        }
        let message = read_own(text);
        let Message::Notification(told) = &message else {
            return Ids::answered(&message).map(Subject::Answer);
        };
        let progress = self.config.dialect.progress.as_ref();
        let progress = progress.filter(|progress| progress.method == told.method)?;
        member(told.params, &progress.member).map(Subject::Report)
    }

    /// Gives a message that is set aside to the POST that waits for it; if that is gone,
    /// it is set aside no longer.
    fn give(&self, subject: &Subject, text: &[u8]) -> bool {
        let Pipe { outbox, waits, .. } = &*self.pipe;
        let taken = waits.give(subject, text, outbox.last());
        if !taken {
            outbox.release(text.len());
        }
        taken
    }

    /// There is no room for what is to be sent. That goes on until the client reads;
    /// but when the server stops, a client that is not there will not come.
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if !self.hub.stop.is_cancelled() || self.pipe.outbox.has_reader() {
            self.timer = None;
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(COME)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(io::ErrorKind::TimedOut.into())
    }

    /// Lets what waits in the driver count.
    fn set_unsent(&mut self, bytes: usize) {
        if bytes != self.unsent {
            self.unsent = bytes;
            self.pipe.outbox.set_before(bytes);
        }
    }

    /// How long the last messages wait from now on.
    fn patience(&self) -> Duration {
        if !self.pipe.outbox.has_reader() {
            return COME;
        }
        if !self.hub.stop.is_cancelled() {
            return READ;
        }
        // Soon after that all connections are cut.
        let left = self
            .hub
            .deadline()
            .saturating_duration_since(Instant::now());
        left.saturating_add(COME).min(READ)
    }

    /// Takes nothing in any more. What was accepted and has not begun is answered.
    fn end_input(&self) {
        for text in self.pipe.inbox.close() {
            let Some(answer) = refusal(&text, &self.config) else {
                continue;
            };
            let outbox = &self.pipe.outbox;
            let is_taken = |subject| {
                // Before it is there: it may be taken at once.
                outbox.set_aside(answer.len());
                self.give(&subject, &answer)
            };
            if !self.subject(&answer).is_some_and(is_taken) {
                outbox.push_back(answer);
            }
        }
    }

    fn end_output(&self) {
        self.pipe.waits.close();
        self.pipe.outbox.close();
    }
}

/// The answer to a message that came too late.
fn refusal(text: &[u8], config: &Config) -> Option<Bytes> {
    let mut out = BytesMut::new();
    let error = JsonRpcError::new(-32_000, "Server is shutting down");
    let refuse = |out: &mut BytesMut, id: Id<'_>| encode::error(out, id, &error);
    match decode(text, &config.policy) {
        Message::Request(request) => refuse(&mut out, request.id),
        Message::Batch(entries) => {
            for entry in &entries {
                let Some(id) = owed(entry) else { continue };
                out.extend_from_slice(if out.is_empty() { b"[" } else { b"," });
                refuse(&mut out, id);
            }
            if !out.is_empty() {
                out.extend_from_slice(b"]");
            }
        }
        _ => {}
    }
    (!out.is_empty()).then(|| out.freeze())
}

/// The id of what wants an answer.
fn owed<'a>(entry: &Message<'a>) -> Option<Id<'a>> {
    match entry {
        Message::Request(request) => Some(request.id),
        Message::Invalid(invalid) if invalid.wants_answer() => Some(invalid.id),
        _ => None,
    }
}

impl Transport for Channel {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        // Nobody looks at the one before it any more.
        self.message = Bytes::new();
        let may_begin = self.pipe.outbox.may_begin(cx);
        self.message = ready!(self.pipe.inbox.poll_pop(cx, may_begin));
        Poll::Ready(Ok(Some(&self.message)))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        while let Some(end) = out.iter().position(|byte| *byte == b'\n') {
            let text = out.get(..end).unwrap_or_default();
            if self.poll_route(cx, text).is_pending() {
                self.set_unsent(out.len());
                return self.poll_wait(cx).map(Err);
            }
            out.advance(end + 1);
        }
        self.set_unsent(0);
        self.timer = None;
        Poll::Ready(Ok(()))
    }

    fn closing(&mut self, _: &CloseReason) {
        self.timer = None;
        self.end_input();
        self.end_output();
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        let patience = self.patience();
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        if self.pipe.outbox.poll_drained(cx).is_pending() {
            ready!(timer.as_mut().poll(cx));
        }
        Poll::Ready(None)
    }

    fn queued(&mut self, bytes: usize) {
        self.pipe.inbox.set_queued(bytes);
    }

    fn output(&self) -> Option<usize> {
        Some(BEFORE)
    }

    fn remote(&self) -> Option<String> {
        self.remote.clone()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.end_input();
        self.end_output();
        self.set_unsent(0);
        if let Some(table) = self.table.upgrade() {
            table.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::super::budget::Budget;
    use super::super::outbox::{Bounds, Keep};
    use super::super::waits::Wait;
    use super::*;
    use crate::router::Router;

    fn channel() -> (Arc<Pipe>, Channel) {
        channel_of(&Hub::new(Router::new(), Config::default()))
    }

    fn channel_of(hub: &Arc<Hub>) -> (Arc<Pipe>, Channel) {
        let bounds = Bounds {
            output: 1000,
            all: 1000,
            each: 1000,
            share: 0,
            replay: 1000,
        };
        channel_within(hub, bounds)
    }

    fn channel_within(hub: &Arc<Hub>, bounds: Bounds) -> (Arc<Pipe>, Channel) {
        let pipe = Arc::new(Pipe {
            inbox: Inbox::new(bounds, &Arc::default(), None),
            outbox: Outbox::new(bounds, &Arc::new(Budget::default()), None),
            waits: Waits::default(),
        });
        let channel = Channel::new(&pipe, hub, &Arc::default(), &"id".into(), None);
        (pipe, channel)
    }

    fn refused(id: &str) -> String {
        let error = r#"{"code":-32000,"message":"Server is shutting down"}"#;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
    }

    #[tokio::test]
    async fn what_was_accepted_and_has_not_begun_is_answered() {
        let (pipe, mut channel) = channel();
        let waited = br#"{"jsonrpc":"2.0","id":3,"method":"a"}"#;
        let asked = Ids::asked(&decode(waited, &channel.config.policy));
        let wait = Wait::begin(&pipe, asked.unwrap(), Vec::new());
        for text in [
            &br#"{"jsonrpc":"2.0","id":1,"method":"a"}"#[..],
            br#"{"jsonrpc":"2.0","method":"a"}"#,
            br#"{"jsonrpc":"2.0","id":1,"result":1}"#,
            br#"[{"jsonrpc":"2.0","id":2,"method":"a"},{"jsonrpc":"2.0","method":"a"},7]"#,
            waited,
        ] {
            pipe.inbox.push(text, false).await.unwrap();
        }
        channel.closing(&CloseReason::local());
        assert!(pipe.inbox.push(b"late", false).await.is_err());
        assert_eq!(wait.take().unwrap(), refused("3"));
        let mut reader = pipe.outbox.attach(Keep::Replay);
        let mut next = async || poll_fn(|cx| reader.poll_next(cx)).await;
        assert_eq!(next().await, Some((1, refused("1").into())));
        let batch = format!("[{},{}]", refused("2"), refused("null"));
        assert_eq!(next().await, Some((2, batch.into())));
        assert_eq!(next().await, None);
        assert!(poll_fn(|cx| channel.poll_close(cx)).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_for_a_reader_longer_than_it_can_read() {
        let noop = &mut Context::from_waker(std::task::Waker::noop());
        for (deadline, least, most) in [(0, 0, 600), (2, 2000, 2600), (60, 4900, 5100)] {
            let hub = Hub::new(Router::new(), Config::default());
            let (pipe, mut channel) = channel_of(&hub);
            let _reader = pipe.outbox.attach(Keep::Replay);
            assert!(pipe.outbox.poll_push(noop, b"x").is_ready());
            hub.shutdown(Duration::from_secs(deadline)).await;
            channel.closing(&CloseReason::local());
            let start = Instant::now();
            poll_fn(|cx| channel.poll_close(cx)).await;
            let took = start.elapsed().as_millis();
            assert!((least..=most).contains(&took), "{deadline} s: {took} ms");
        }
    }

    #[tokio::test]
    async fn answers_that_nobody_reads_are_bounded() {
        let (pipe, mut channel) = channel();
        let noop = &mut Context::from_waker(std::task::Waker::noop());
        let waits: Vec<_> = (1..=4)
            .map(|id| {
                let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
                let asked = Ids::asked(&decode(text.as_bytes(), &channel.config.policy));
                Wait::begin(&pipe, asked.unwrap(), Vec::new())
            })
            .collect();
        let long = "x".repeat(500);
        let answer = |id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"{long}\"}}\n");
        let mut send = |id| {
            let mut out = BytesMut::from(&*answer(id));
            channel.poll_send(noop, &mut out).is_ready()
        };
        assert!(send(1) && send(2));
        assert!(!send(3), "more than 1000 bytes are there");
        assert!(waits[0].take().is_some());
        assert!(send(3));
        assert!(!send(4));
        // What nobody waits for any more counts no less.
        drop(waits);
        let mut reader = pipe.outbox.attach(Keep::Replay);
        let push = |text: &[u8]| {
            pipe.outbox
                .poll_push(&mut Context::from_waker(std::task::Waker::noop()), text)
                .is_ready()
        };
        assert!(!push(b"x"));
        let mut next = async || poll_fn(|cx| reader.poll_next(cx)).await;
        assert!(next().await.is_some());
        assert!(push(b"x"));
    }

    #[tokio::test]
    async fn who_leaves_its_answers_behind_gets_no_more_of_them() {
        for keep in [Keep::Replay, Keep::Acknowledged] {
            let all = Bounds {
                output: 1000,
                all: 1 << 20,
                each: 1 << 20,
                share: 0,
                replay: 0,
            };
            let hub = Hub::new(Router::new(), Config::default());
            let (pipe, mut channel) = channel_within(&hub, all);
            let noop = &mut Context::from_waker(std::task::Waker::noop());
            let mut reader = pipe.outbox.attach(keep);
            // Other messages do not count: whoever reads none gets answers anyway.
            assert!(pipe.outbox.poll_push(noop, &[b'x'; 5000]).is_ready());
            // The client is gone before each answer is taken.
            let text = br#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
            let answer = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{}\"}}\n",
                "x".repeat(500)
            );
            let mut leave = || {
                let asked = Ids::asked(&decode(text, &Default::default()));
                let _wait = Wait::begin(&pipe, asked.unwrap(), Vec::new());
                let mut out = BytesMut::from(&*answer);
                channel.poll_send(noop, &mut out).is_ready()
            };
            assert!(leave() && leave());
            assert!(!leave(), "more than 1000 bytes are there");
            let mut next = async || poll_fn(|cx| reader.poll_next(cx)).await;
            for _ in 0..2 {
                assert!(next().await.is_some());
            }
            // What is not acknowledged is not gone.
            assert_eq!(leave(), keep == Keep::Replay);
            pipe.outbox.acknowledge(2);
            assert_eq!(leave(), keep == Keep::Acknowledged);
            for _ in 0..2 {
                assert!(next().await.is_some());
            }
            pipe.outbox.acknowledge(u64::MAX);
            assert!(leave() && leave() && !leave());
        }
    }

    #[cfg(feature = "sse")]
    #[tokio::test]
    async fn progress_that_nobody_reads_is_bounded() {
        let config = Config {
            dialect: crate::dialect::Dialect::mcp(),
            ..Config::default()
        };
        let (pipe, mut channel) = channel_of(&Hub::new(Router::new(), config));
        let ids = |id| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
            Ids::asked(&decode(text.as_bytes(), &Default::default())).unwrap()
        };
        let one = Wait::begin(&pipe, ids(1), vec!["7".to_owned()]);
        let other = Wait::begin(&pipe, ids(2), vec!["8".to_owned()]);
        let noop = &mut Context::from_waker(std::task::Waker::noop());
        let mut report = |token| {
            let long = "x".repeat(500);
            let params = format!(r#"{{"progressToken":{token},"message":"{long}"}}"#);
            let mut out = BytesMut::from(&*format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{params}}}\n"
            ));
            channel.poll_send(noop, &mut out).is_ready()
        };
        assert!(report(7) && report(8));
        assert!(!report(7), "more than 1000 bytes are there");
        assert!(one.next_report().is_some());
        assert!(report(7));
        assert!(!report(8));
        // Those that nobody has read count no less, but may be read elsewhere.
        drop((one, other));
        assert!(!report(9));
        let mut reader = pipe.outbox.attach(Keep::Replay);
        let mut next = async || poll_fn(|cx| reader.poll_next(cx)).await;
        assert!(next().await.is_some() && next().await.is_some());
        assert!(report(9));
        assert!(next().await.is_some());
        pipe.outbox.set_aside(999);
        assert!(report(9), "nothing of what is gone is still counted");
    }

    #[tokio::test]
    async fn the_inbox_takes_so_much_and_no_more() {
        let (pipe, mut channel) = channel();
        let text = [b'x'; 500];
        pipe.inbox.push(&text, false).await.unwrap();
        pipe.inbox.push(&text, false).await.unwrap();
        let mut third = std::pin::pin!(pipe.inbox.push(b"y", false));
        let noop = &mut Context::from_waker(std::task::Waker::noop());
        assert!(third.as_mut().poll(noop).is_pending());
        assert!(channel.poll_receive(noop).is_ready());
        assert!(third.as_mut().poll(noop).is_pending(), "it is looked at");
        assert!(channel.poll_receive(noop).is_ready());
        third.await.unwrap();
        // One that is too large goes in alone.
        assert!(channel.poll_receive(noop).is_ready());
        assert!(channel.poll_receive(noop).is_pending());
        pipe.inbox.push(&[b'x'; 2000], false).await.unwrap();
    }
}
