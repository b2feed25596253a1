//! What a session may hold.

use super::*;

#[tokio::test]
async fn whoever_sends_waits_for_a_client_that_does_not_read() {
    for share in [false, true] {
        let (mut options, mut config) = (Options::default(), Config::default());
        // So much waits in the peer, and as much in the session if it may.
        config.limits.output = 500_000;
        options.session_bytes = if share { 10_000 } else { 1 << 30 };
        let most = if share { 700 } else { 1_100 };
        let site = Site::with(options, config).await;
        let mut client = site.open_polling().await;
        let peer = site.peer();
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let text = "x".repeat(1000);
        let sender = tokio::spawn(async move {
            for _ in 0..3_000 {
                peer.notify("tick", (&text,)).await.unwrap();
                counter.fetch_add(1, SeqCst);
            }
        });
        // It comes to a halt, and stays so.
        let stalled = tokio::time::timeout(ms(500), async {
            loop {
                tokio::task::yield_now().await;
                if sender.is_finished() {
                    return;
                }
            }
        });
        assert!(stalled.await.is_err(), "it never waits");
        let halted = sent.load(SeqCst);
        assert!(halted < most, "{halted} KB have gone somewhere");
        let mut cursor = 0;
        while cursor < 3_000 {
            let reply = client.poll(cursor).await;
            assert_eq!(reply.status, 200);
            cursor = reply.json()["cursor"].as_u64().unwrap();
        }
        within(sender).await.unwrap();
    }
}

#[tokio::test]
async fn an_event_stream_that_is_not_read_is_bounded_too() {
    let mut config = Config::default();
    config.limits.output = 10_000;
    let site = Site::with(Options::default(), config).await;
    let client = site.open().await;
    let mut events = site.listen(&client, None).await;
    let peer = site.peer();
    let text = "x".repeat(100_000);
    let sender = tokio::spawn(async move {
        for _ in 0..300 {
            peer.notify("tick", (&text,)).await.unwrap();
        }
    });
    let stalled = tokio::time::timeout(ms(1000), async {
        while !sender.is_finished() {
            tokio::time::sleep(ms(5)).await;
        }
    });
    assert!(stalled.await.is_err(), "30 MB are in nobody's memory");
    for n in 1..=300 {
        assert_eq!(events.event().await.unwrap().id, Some(n));
    }
    within(sender).await.unwrap();
}
