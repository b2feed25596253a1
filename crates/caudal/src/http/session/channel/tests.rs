//! What a session holds, and how it ends.

use std::future::poll_fn;

use caudal_core::decode;

use super::*;
use crate::http::session::budget::Budget;
use crate::http::session::outbox::{Bounds, Keep};
use crate::http::session::waits::{Asked, Wait};
use crate::router::Router;

fn channel() -> (Arc<Pipe>, Channel) {
    channel_of(&ConnectionGroup::new(Router::new(), Config::default()))
}

fn channel_of(hub: &Arc<ConnectionGroup>) -> (Arc<Pipe>, Channel) {
    let bounds = Bounds {
        output: 1000,
        all: 1000,
        each: 1000,
        share: 0,
        replay: 1000,
    };
    channel_within(hub, bounds)
}

fn channel_within(hub: &Arc<ConnectionGroup>, bounds: Bounds) -> (Arc<Pipe>, Channel) {
    let asked = Bounds {
        output: 1 << 20,
        all: 1 << 20,
        each: 1 << 20,
        ..bounds
    };
    let pipe = Arc::new(Pipe {
        inbox: Inbox::new(bounds, &Arc::default(), None),
        outbox: Outbox::new(bounds, &Arc::new(Budget::default()), None),
        waits: Waits::new(asked, &Arc::default()),
    });
    let channel = Channel::new(&pipe, hub, &Arc::default(), &"id".into(), None);
    (pipe, channel)
}

fn refused(id: &str) -> String {
    let error = r#"{"code":-32010,"message":"Server is shutting down"}"#;
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

#[tokio::test]
async fn what_was_accepted_and_has_not_begun_is_answered() {
    let (pipe, mut channel) = channel();
    let waited = br#"{"jsonrpc":"2.0","id":3,"method":"a"}"#;
    let asked = Asked::of(&decode(waited, &channel.config.policy));
    let wait = Wait::begin(&pipe, asked.unwrap()).unwrap();
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
    let mut reader = pipe.outbox.attach(Keep::Replay, None);
    let mut next = async || poll_fn(|cx| reader.poll_next(cx)).await;
    assert_eq!(next().await, Some((1, refused("1").into())));
    let batch = format!("[{},{}]", refused("2"), refused("null"));
    assert_eq!(next().await, Some((2, batch.into())));
    assert_eq!(next().await, None);
    assert!(poll_fn(|cx| channel.poll_close(cx)).await.is_none());
}

/// How long a session takes to end with a server, in milliseconds.
async fn end(limit: u64, prepare: impl FnOnce(&Arc<Pipe>)) -> u128 {
    let hub = ConnectionGroup::new(Router::new(), Config::default());
    let (pipe, mut channel) = channel_of(&hub);
    let noop = &mut Context::from_waker(std::task::Waker::noop());
    assert!(pipe.outbox.poll_push(noop, b"x").is_ready());
    prepare(&pipe);
    hub.shutdown(Duration::from_secs(limit)).await;
    channel.closing(&CloseReason::local());
    let (start, most) = (Instant::now(), channel.close_timeout());
    poll_fn(|cx| channel.poll_close(cx)).await;
    assert!(start.elapsed() <= most);
    start.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn who_is_owed_something_is_waited_for_as_long_as_the_server_lasts() {
    let listen = |pipe: &Arc<Pipe>| drop(pipe.outbox.attach(Keep::Replay, None));
    let read = |pipe: &Arc<Pipe>| {
        let mut reader = pipe.outbox.attach(Keep::Acknowledged, None);
        let noop = &mut Context::from_waker(std::task::Waker::noop());
        assert!(reader.poll_next(noop).is_ready());
    };
    for limit in [0, 2, 60] {
        let most = u128::from(limit) * 1000;
        let (come, ack) = (most.min(500), most.min(5000));
        let near = |took: u128, due: u128| (due..due + 100).contains(&took);
        let mut reader = None;
        let reads = end(limit, |pipe| {
            reader = Some(pipe.outbox.attach(Keep::Replay, None))
        })
        .await;
        assert!(near(reads, most + 500), "{limit} s: {reads} ms");
        let listens = end(limit, listen).await;
        assert!(near(listens, most), "{limit} s: {listens} ms");
        let promised = end(limit, |pipe| pipe.outbox.promise()).await;
        assert!(near(promised, most), "{limit} s: {promised} ms");
        let never = end(limit, |_| ()).await;
        assert!(near(never, come), "{limit} s: {never} ms");
        let got = end(limit, read).await;
        assert!(near(got, ack), "{limit} s: {got} ms");
        let none = end(limit, |pipe| {
            read(pipe);
            pipe.outbox.acknowledge(1);
        });
        assert!(near(none.await, 0), "{limit} s");
    }
}

#[tokio::test(start_paused = true)]
async fn who_polls_without_end_does_not_keep_a_session_that_was_closed() {
    let (pipe, mut channel) = channel();
    let noop = &mut Context::from_waker(std::task::Waker::noop());
    assert!(pipe.outbox.poll_push(noop, b"x").is_ready());
    channel.closing(&CloseReason::local());
    let start = Instant::now();
    let polls = async {
        loop {
            let mut reader = pipe.outbox.attach(Keep::Acknowledged, None);
            reader.resume_after(0);
            assert!(poll_fn(|cx| reader.poll_next(cx)).await.is_some());
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        _ = poll_fn(|cx| channel.poll_close(cx)) => {}
        () = polls => {}
    }
    let took = start.elapsed();
    assert!(
        took > COME && took <= READ + Duration::from_millis(100),
        "{took:?}"
    );
}

#[tokio::test]
async fn answers_that_nobody_reads_are_bounded() {
    let (pipe, mut channel) = channel();
    let noop = &mut Context::from_waker(std::task::Waker::noop());
    let waits: Vec<_> = (1..=4)
        .map(|id| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
            let asked = Asked::of(&decode(text.as_bytes(), &channel.config.policy));
            Wait::begin(&pipe, asked.unwrap()).unwrap()
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
    let looks = pipe.waits.looks();
    assert!(!send(3) && !send(3));
    assert_eq!(pipe.waits.looks(), looks, "who gets it is known");
    assert!(waits[0].take().is_some());
    assert!(send(3));
    assert!(!send(4));
    // What nobody waits for any more counts no less.
    drop(waits);
    let mut reader = pipe.outbox.attach(Keep::Replay, None);
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
        let hub = ConnectionGroup::new(Router::new(), Config::default());
        let (pipe, mut channel) = channel_within(&hub, all);
        let noop = &mut Context::from_waker(std::task::Waker::noop());
        let mut reader = pipe.outbox.attach(keep, None);
        // Other messages do not count: whoever reads none gets answers anyway.
        assert!(pipe.outbox.poll_push(noop, &[b'x'; 5000]).is_ready());
        // The client is gone before each answer is taken.
        let text = br#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
        let answer = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{}\"}}\n",
            "x".repeat(500)
        );
        let mut leave = || {
            let asked = Asked::of(&decode(text, &Default::default()));
            let _wait = Wait::begin(&pipe, asked.unwrap()).unwrap();
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
    let (pipe, mut channel) = channel_of(&ConnectionGroup::new(Router::new(), config));
    let ids = |id| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
        Asked::of(&decode(text.as_bytes(), &Default::default())).unwrap()
    };
    let one = Wait::begin(&pipe, ids(1).with_tokens(&["7".to_owned()])).unwrap();
    let other = Wait::begin(&pipe, ids(2).with_tokens(&["8".to_owned()])).unwrap();
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
    let mut reader = pipe.outbox.attach(Keep::Replay, None);
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
