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
    site.peer().notify("tick", (1,)).await.unwrap();
    let expected = Event {
        name: None,
        id: Some(1),
        data: tick(1).to_string(),
    };
    let event = raw.event().await.unwrap();
    assert_eq!((event.json(), event.id), (expected.json(), expected.id));
}

#[tokio::test]
async fn silence_is_broken_by_comments() {
    let mut options = Options::default();
    options.keep_alive = ms(20);
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
