//! The server's messages by polling.

use super::service::{Service, text};
use super::*;

#[tokio::test]
async fn polls_acknowledge_and_repeat() {
    let site = Site::new().await;
    let mut client = site.open_polling().await;
    let peer = site.peer();
    let nothing = client
        .ask("GET", "/?cursor=0", &[ACCEPT_JSON, "Prefer: wait=0"], "")
        .await;
    assert_eq!((nothing.status, &*nothing.body), (204, ""));
    peer.notify("tick", (1,)).await.unwrap();
    peer.notify("tick", (2,)).await.unwrap();
    eventually("both are sent", || peer.stats().bytes_sent > 80).await;
    let both = json!({"cursor": 2, "messages": [tick(1), tick(2)]});
    assert_eq!(client.poll(0).await.json(), both);
    assert_eq!(client.poll(0).await.json(), both, "it was not acknowledged");
    let second = json!({"cursor": 2, "messages": [tick(2)]});
    assert_eq!(client.poll(1).await.json(), second);
    assert_eq!(client.poll(0).await.json(), second, "it was acknowledged");
    // A poll waits for what comes next.
    client.send("GET", "/?cursor=2", &[ACCEPT_JSON], "").await;
    client.raw.silence().await;
    peer.notify("tick", (3,)).await.unwrap();
    let third = json!({"cursor": 3, "messages": [tick(3)]});
    assert_eq!(client.raw.reply().await.json(), third);
    // What was not sent cannot be acknowledged.
    let mut other = site.again(&client).await;
    let far = format!("/?cursor={}", u64::MAX);
    other.send("GET", &far, &[ACCEPT_JSON], "").await;
    other.raw.silence().await;
    peer.notify("tick", (4,)).await.unwrap();
    let reply = other.raw.reply().await.json();
    assert_eq!(reply, json!({"cursor": 4, "messages": [tick(4)]}));
}

/// A poll's response may have been lost.
#[cfg(feature = "sse")]
#[tokio::test]
async fn what_no_poll_has_acknowledged_comes_again_as_events() {
    const LARGE: usize = 200_000;
    for (last, size, first) in [
        (None, 1, 1),
        // More than is kept for who is cut off.
        (None, LARGE, 1),
        (Some(0), LARGE, 1),
        (Some(1), LARGE, 2),
        (Some(4), LARGE, 5),
    ] {
        let site = Site::new().await;
        let mut client = site.open_polling().await;
        let peer = site.peer();
        for _ in 0..4 {
            peer.notify("tick", ("x".repeat(size),)).await.unwrap();
        }
        eventually("all are sent", || peer.stats().bytes_sent > 4 * size as u64).await;
        let page = client.poll(0).await.json();
        assert_eq!(page["cursor"], 4, "{last:?}, {size}");
        let mut events = site.listen(&client, last).await;
        peer.notify("tick", ("last",)).await.unwrap();
        for number in first..=5 {
            let event = events.event().await.unwrap();
            assert_eq!((event.name, event.id), (None, Some(number)), "{last:?}");
        }
    }
}

#[tokio::test]
async fn a_poll_ends_in_time_or_when_another_comes() {
    let mut options = Options::default();
    options.poll_timeout = ms(50);
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open_polling().await;
    assert_eq!(client.poll(0).await.status, 204);
    let longer = ["Prefer: wait=3600", ACCEPT_JSON];
    assert_eq!(client.ask("GET", "/", &longer, "").await.status, 204);
    let site = Site::new().await;
    let mut client = site.open_polling().await;
    let mut other = site.again(&client).await;
    client.send("GET", "/", &[ACCEPT_JSON], "").await;
    client.raw.silence().await;
    other.send("GET", "/", &[ACCEPT_JSON], "").await;
    assert_eq!(client.raw.reply().await.status, 204);
    site.peer().notify("tick", (1,)).await.unwrap();
    let reply = other.raw.reply().await.json();
    assert_eq!(reply, json!({"cursor": 1, "messages": [tick(1)]}));
}

#[tokio::test]
async fn a_response_has_so_much_and_no_more() {
    let site = Site::new().await;
    let mut client = site.open_polling().await;
    let peer = site.peer();
    for n in 1..=101 {
        peer.notify("tick", (n,)).await.unwrap();
    }
    eventually("all are sent", || peer.stats().bytes_sent > 101 * 40).await;
    let page = client.poll(0).await.json();
    assert_eq!(page["messages"].as_array().unwrap().len(), 100);
    assert_eq!(page["cursor"], 100);
    let page = client.poll(100).await.json();
    assert_eq!(page, json!({"cursor": 101, "messages": [tick(101)]}));
    let large = "x".repeat(400 << 10);
    let before = peer.stats().bytes_sent;
    for _ in 0..4 {
        peer.notify("large", (&large,)).await.unwrap();
    }
    eventually("all are sent", || {
        peer.stats().bytes_sent - before > 1600 << 10
    })
    .await;
    let page = client.poll(101).await.json();
    assert_eq!(page["messages"].as_array().unwrap().len(), 3, "past 1 MiB");
    assert_eq!(page["cursor"], 104);
    assert_eq!(client.poll(104).await.json()["cursor"], 105);
}

#[tokio::test]
async fn answers_come_by_polling_too() {
    let site = Site::new().await;
    let mut client = site.open_polling().await;
    let mut posts = site.again(&client).await;
    for n in 1..50 {
        let add = call(n, "add", json!([n, 1]));
        assert_eq!(posts.post(&[ASYNC], &add).await.status, 202);
    }
    let (mut cursor, mut next) = (0, 1);
    while next < 50 {
        // Each response is lost once.
        client.poll(cursor).await;
        let page = client.poll(cursor).await.json();
        for message in page["messages"].as_array().unwrap() {
            assert_eq!(*message, ok(next, json!(next + 1)));
            next += 1;
        }
        cursor = page["cursor"].as_u64().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_does_not_expire_while_a_poll_is_answered() {
    let service = Service::open().await;
    service.poll(0).await;
    service.post(&call(1, "large", json!([12 << 20]))).await;
    let page = service.begin_poll().await;
    // It lasts for five minutes without a request or a stream.
    tokio::time::sleep(Duration::from_secs(700)).await;
    let page: Value = serde_json::from_str(&text(page).await).unwrap();
    let messages = [ok(1, "x".repeat(12 << 20).into())];
    assert!(page == json!({"cursor": 1, "messages": messages}));
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert!(service.http.peers().is_empty(), "nobody asks any more");
}
