//! The server's messages as events.

use super::*;

#[tokio::test]
async fn an_event_stream_opens_a_session() {
    let site = Site::new().await;
    let mut raw = site.raw().await;
    raw.send("GET", "/", &[ACCEPT_EVENTS], "").await;
    let head = raw.head().await;
    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(head.header("cache-control"), Some("no-store"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    assert_eq!(raw.block().await.unwrap(), "retry: 1000");
    let first = raw.event().await.unwrap();
    assert_eq!(first.name.as_deref(), Some("session"));
    assert_eq!(first.data, head.session());
    assert_eq!((first.session, first.id), (Some(head.session()), Some(0)));
    site.peer().notify("tick", (1,)).await.unwrap();
    let event = raw.event().await.unwrap();
    assert_eq!((event.json(), event.id), (tick(1), Some(1)));
    assert_eq!(event.session, Some(head.session()));
}

/// What a browser does: the URL that it began with, and the last id that it has got.
async fn come_back(site: &Site, last: &str, headers: &[&str]) -> (Raw, String) {
    let mut raw = site.raw().await;
    let last = format!("Last-Event-ID: {last}");
    let headers = [headers, &[ACCEPT_EVENTS, &*last]].concat();
    raw.send("GET", "/", &headers, "").await;
    let head = raw.head().await;
    assert!(head.is_stream());
    assert_eq!(raw.block().await.unwrap(), "retry: 1000");
    (raw, head.session())
}

/// A new session of one that comes from another.
async fn begins_anew(raw: &mut Raw, session: &str) {
    let first = raw.event().await.unwrap();
    assert_eq!(
        (first.name.as_deref(), &*first.data),
        (Some("session"), session)
    );
    let gap = within(raw.event()).await.unwrap();
    assert_eq!((gap.name.as_deref(), gap.id), (Some("gap"), None));
    assert_eq!(gap.json(), json!({"missed": null}));
}

#[tokio::test]
async fn who_cannot_name_its_session_comes_back_by_the_last_id() {
    let mut options = Options::default();
    options.replay = 3 * tick(1).to_string().len();
    let site = Site::with(options, Config::default()).await;
    let mut raw = site.raw().await;
    raw.send("GET", "/", &[ACCEPT_EVENTS], "").await;
    let session = raw.head().await.session();
    let peer = site.peer();
    for n in 1..=3 {
        peer.notify("tick", (n,)).await.unwrap();
    }
    while raw.event().await.unwrap().id != Some(3) {}
    // From the very first id on, and again and again.
    for last in [0, 1, 0] {
        let (mut events, same) = come_back(&site, &format!("{session}.{last}"), &[]).await;
        assert_eq!(same, session);
        for n in last + 1..=3 {
            let event = events.event().await.unwrap();
            assert_eq!((event.id, event.json()), (Some(n), tick(n)));
            assert_eq!(event.session.as_ref(), Some(&session));
        }
    }
    // Who names it as well may say the same, and gets plain numbers.
    let target = format!("/?session={session}&last-event-id={session}.2");
    raw = site.raw().await;
    raw.send("GET", &target, &[ACCEPT_EVENTS], "").await;
    assert!(raw.head().await.is_stream());
    let event = raw.event().await.unwrap();
    assert_eq!((event.id, event.session), (Some(3), None));
    let target = format!("/?session={session}&last-event-id=other.2");
    let mut wrong = site.raw().await;
    let reply = wrong.ask("GET", &target, &[ACCEPT_EVENTS], "").await;
    assert_eq!(reply.status, 400);
    // What is not kept is missed here too.
    peer.notify("tick", (4,)).await.unwrap();
    assert_eq!(raw.event().await.unwrap().id, Some(4));
    let (mut events, _) = come_back(&site, &format!("{session}.0"), &[]).await;
    assert_eq!(events.event().await.unwrap().json(), json!({"missed": 1}));
    assert_eq!(events.event().await.unwrap().id, Some(2));
    assert_eq!(site.server.peers().len(), 1, "no other session was opened");
}

#[tokio::test]
async fn who_has_got_nothing_of_the_first_stream_gets_it_all_with_zero() {
    let site = Site::new().await;
    let mut raw = site.raw().await;
    raw.send("GET", "/", &[ACCEPT_EVENTS], "").await;
    let session = raw.head().await.session();
    let peer = site.peer();
    for n in 1..=3 {
        peer.notify("tick", (n,)).await.unwrap();
    }
    while raw.event().await.unwrap().id != Some(3) {}
    let target = format!("/?session={session}");
    raw = site.raw().await;
    let headers = [ACCEPT_EVENTS, "Last-Event-ID: 0"];
    raw.send("GET", &target, &headers, "").await;
    assert!(raw.head().await.is_stream());
    for n in 1..=3 {
        let event = within(raw.event()).await.unwrap();
        assert_eq!((event.id, event.json()), (Some(n), tick(n)));
    }
}

#[tokio::test]
async fn who_comes_back_to_nothing_is_told_that_something_is_missing() {
    let site = Site::new().await;
    let mut client = site.open().await;
    assert_eq!(client.ask("DELETE", "/", &[], "").await.status, 204);
    let gone = format!("{}.7", client.session);
    for last in [&*gone, "7", "x", ".7", "\u{e9}"] {
        let (mut events, session) = come_back(&site, last, &[]).await;
        assert_ne!(session, client.session, "{last}");
        begins_anew(&mut events, &session).await;
    }
    // Who has got nothing has missed nothing.
    let (mut events, session) = come_back(&site, "", &[]).await;
    assert_eq!(events.event().await.unwrap().data, session);
    let peers = site.server.peers();
    for peer in peers {
        peer.notify("tick", (1,)).await.unwrap();
    }
    assert_eq!(events.event().await.unwrap().json(), tick(1));
}

#[tokio::test]
async fn nobody_comes_back_to_the_session_of_another() {
    let mut options = Options::default();
    options.tokens = vec!["ada".into(), "bob".into()];
    let site = Site::with(options, Config::default()).await;
    let (ada, bob) = ("Authorization: Bearer ada", "Authorization: Bearer bob");
    let mut raw = site.raw().await;
    raw.send("GET", "/", &[ACCEPT_EVENTS, ada], "").await;
    let session = raw.head().await.session();
    let peer = site.peer();
    peer.notify("tick", (1,)).await.unwrap();
    while raw.event().await.unwrap().id != Some(1) {}
    let last = format!("{session}.0");
    let (mut events, other) = come_back(&site, &last, &[bob]).await;
    assert_ne!(other, session);
    begins_anew(&mut events, &other).await;
    events.silence().await;
    // It has not taken the stream over.
    peer.notify("tick", (2,)).await.unwrap();
    assert_eq!(raw.event().await.unwrap().json(), tick(2));
    let (mut events, same) = come_back(&site, &last, &[ada]).await;
    assert_eq!((same, events.event().await.unwrap().id), (session, Some(1)));
}

#[tokio::test]
async fn silence_is_broken_by_comments() {
    let mut options = Options::default();
    options.keep_alive = Some(ms(20));
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open().await;
    let mut events = site.listen(&client, None).await;
    for _ in 0..3 {
        assert_eq!(events.block().await.unwrap(), ":");
    }
    let hold = call(1, "hold", json!([])).to_string();
    client.send("POST", "/", &[ACCEPT_BOTH], &hold).await;
    assert!(client.raw.head().await.is_stream());
    for _ in 0..3 {
        assert_eq!(client.raw.block().await.unwrap(), ":");
    }
}

#[tokio::test]
async fn who_comes_back_goes_on_where_it_was() {
    let site = Site::new().await;
    let client = site.open().await;
    let peer = site.peer();
    for n in 1..=4 {
        peer.notify("tick", (n,)).await.unwrap();
    }
    let mut events = site.listen(&client, None).await;
    for n in 1..=4 {
        assert_eq!(events.event().await.unwrap().id, Some(n));
    }
    peer.notify("tick", (5,)).await.unwrap();
    assert_eq!(events.event().await.unwrap().id, Some(5));
    drop(events);
    let mut events = site.listen(&client, Some(2)).await;
    for n in 3..=5 {
        let event = events.event().await.unwrap();
        assert_eq!((event.id, event.json()), (Some(n), tick(n)));
    }
    // Without a number: what was never sent.
    peer.notify("tick", (6,)).await.unwrap();
    assert_eq!(events.event().await.unwrap().id, Some(6));
    let mut again = site.listen(&client, None).await;
    peer.notify("tick", (7,)).await.unwrap();
    assert_eq!(again.event().await.unwrap().id, Some(7));
    assert_eq!(events.event().await, None, "a new stream ends the old one");
    let mut raw = site.raw().await;
    let target = format!("/?session={}&last-event-id=5", client.session);
    raw.send("GET", &target, &[ACCEPT_EVENTS], "").await;
    assert!(raw.head().await.is_stream());
    assert_eq!(raw.event().await.unwrap().id, Some(6));
    // A number that was never given is taken as the last one.
    let mut far = site.listen(&client, Some(u64::MAX)).await;
    peer.notify("tick", (8,)).await.unwrap();
    assert_eq!(far.event().await.unwrap().id, Some(8));
}

#[tokio::test]
async fn what_is_kept_is_bounded_and_a_gap_is_told() {
    let size = tick(1).to_string().len();
    let mut options = Options::default();
    options.replay = 3 * size;
    let site = Site::with(options, Config::default()).await;
    let client = site.open().await;
    let peer = site.peer();
    let mut events = site.listen(&client, None).await;
    for n in 1..=9 {
        peer.notify("tick", (n,)).await.unwrap();
        assert_eq!(events.event().await.unwrap().id, Some(n));
    }
    let mut events = site.listen(&client, Some(6)).await;
    assert_eq!(events.event().await.unwrap().id, Some(7), "just no gap");
    let mut events = site.listen(&client, Some(4)).await;
    let gap = events.event().await.unwrap();
    assert_eq!((gap.name.as_deref(), gap.id), (Some("gap"), None));
    assert_eq!(gap.json(), json!({"missed": 2}));
    for n in 7..=9 {
        assert_eq!(events.event().await.unwrap().id, Some(n));
    }
}

/// Connections are cut anywhere, streams are replaced while the server sends: who
/// tells its last number gets every message exactly once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_event_comes_exactly_once_over_broken_connections() {
    const ALL: u64 = 3000;
    let mut options = Options::default();
    options.replay = 8 << 20;
    let site = Site::with(options, Config::default()).await;
    let client = site.open().await;
    let peer = site.peer();
    let sender = tokio::spawn(async move {
        for n in 1..=ALL {
            peer.notify("tick", (n,)).await.unwrap();
            if n % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
    let (mut last, mut cuts) = (0, 0_u64);
    let mut old = None;
    while last < ALL {
        let mut events = site.listen(&client, Some(last)).await;
        for _ in 0..(cuts * 37) % 200 + 1 {
            if last == ALL {
                break;
            }
            let event = events.event().await.unwrap();
            assert_eq!((event.id, event.name.as_deref()), (Some(last + 1), None));
            assert_eq!(event.json(), tick(last + 1));
            last += 1;
        }
        // Every other stream is left open, for the next to replace.
        old = (cuts % 2 == 0).then_some(events);
        cuts += 1;
    }
    drop(old);
    within(sender).await.unwrap();
    assert!(cuts > 10);
}

#[tokio::test]
async fn the_last_event_is_kept_however_large_it_is_unless_nothing_is() {
    for (replay, is_kept) in [(10, true), (0, false)] {
        let mut options = Options::default();
        options.replay = replay;
        let site = Site::with(options, Config::default()).await;
        let client = site.open().await;
        let peer = site.peer();
        let mut events = site.listen(&client, None).await;
        for _ in 0..2 {
            peer.notify("tick", ("x".repeat(1000),)).await.unwrap();
            assert!(events.event().await.unwrap().id.is_some());
        }
        let mut events = site.listen(&client, Some(1)).await;
        let first = events.event().await;
        let peer = peer.notify("tick", (3,)).await;
        peer.unwrap();
        let event = match is_kept {
            true => first,
            false => {
                assert_eq!(first.unwrap().json(), json!({"missed": 1}));
                events.event().await
            }
        };
        assert_eq!(event.unwrap().id, Some(if is_kept { 2 } else { 3 }));
    }
}
