//! Limits of a WebSocket, and how it ends.

use super::*;

#[tokio::test]
async fn what_is_too_large_is_answered_and_ends_with_1009() {
    let mut config = Config::default();
    config.policy.max_message = 4096;
    let (server, _) = start("ws://127.0.0.1:0/rpc", config, Options::default()).await;
    let mut raw = open(&server).await;
    let mut fits = add(1).to_string();
    fits.push_str(&" ".repeat(4096 - fits.len()));
    raw.frame(0x81, fits.as_bytes()).await;
    assert_eq!(raw.json().await["result"], 2);
    // A megabyte more is on its way when the answer comes.
    raw.frame(0x81, &vec![b' '; 1 << 20]).await;
    let error = raw.json().await;
    assert_eq!(error["error"]["code"], -32600);
    assert_eq!(error["error"]["message"], "Request payload too large");
    assert_eq!(error["id"], Value::Null);
    assert_eq!(raw.goodbye().await, 1009);
}

#[tokio::test]
async fn broken_text_ends_with_1007_and_broken_frames_with_1002() {
    let (server, _) = plain().await;
    let mut raw = open(&server).await;
    raw.frame(0x81, b"\"\xff\"").await;
    assert_eq!(raw.goodbye().await, 1007);
    let mut raw = open(&server).await;
    raw.bytes(b"\x81\x02{}").await;
    assert_eq!(raw.goodbye().await, 1002);
}

#[tokio::test]
async fn an_end_says_1000_and_a_shutdown_1001() {
    let (server, _) = plain().await;
    let mut raw = open(&server).await;
    raw.text(&add(1)).await;
    raw.json().await;
    server.peers().iter().for_each(Peer::close);
    assert_eq!(raw.goodbye().await, 1000);
    let mut raw = open(&server).await;
    raw.text(&add(1)).await;
    raw.json().await;
    let peer = client(&server).await;
    let ending = {
        let server = server.clone();
        tokio::spawn(async move { server.shutdown(Duration::from_secs(5)).await })
    };
    assert_eq!(raw.goodbye().await, 1001);
    let reason = within(peer.closed()).await;
    assert!(reason.is_remote());
    let text = reason.source().unwrap().to_string();
    assert_eq!(text, "close code 1001: shutting down");
    within(ending).await.unwrap();
}

#[tokio::test]
async fn a_goodbye_is_answered_and_cancels_what_runs() {
    let (server, log) = plain().await;
    for politely in [true, false] {
        let mut raw = open(&server).await;
        raw.text(&json!({"jsonrpc": "2.0", "id": 1, "method": "hang"}))
            .await;
        eventually("it runs", || log.len() == 1).await;
        if politely {
            raw.frame(0x88, &4000_u16.to_be_bytes()).await;
            assert_eq!(raw.goodbye().await, 4000);
        } else {
            drop(raw);
        }
        eventually("it is dropped", || log.len() == 2).await;
        assert_eq!(log.take(), ["hangs", "dropped"]);
        eventually("it is gone", || server.connections() == 0).await;
    }
}

#[tokio::test]
async fn what_was_asked_before_a_goodbye_is_answered_before_it_is_said_back() {
    let (server, log) = plain().await;
    let mut raw = open(&server).await;
    let hang = json!({"jsonrpc": "2.0", "id": 2, "method": "hang"});
    let last_words = [
        masked(0x81, add(1).to_string().as_bytes()),
        masked(0x81, hang.to_string().as_bytes()),
        masked(0x81, add(3).to_string().as_bytes()),
        masked(0x88, &1000_u16.to_be_bytes()),
    ];
    // One piece, as `printf … | websocat` sends it.
    raw.bytes(&last_words.concat()).await;
    assert_eq!(raw.json().await["id"], 1);
    assert_eq!(raw.json().await["id"], 3);
    assert_eq!(raw.goodbye().await, 1000);
    // Nobody is there for what was not ready.
    eventually("it is dropped", || log.len() == 2).await;
    assert_eq!(log.take(), ["hangs", "dropped"]);
}

#[tokio::test]
async fn a_clients_close_is_an_end_in_good_order() {
    let (server, _) = plain().await;
    let peer = client(&server).await;
    within(peer.call::<i64>("add", (1, 2))).await.unwrap();
    eventually("one is left", || server.connections() == 1).await;
    let there = server.peers().remove(0);
    peer.close();
    let reason = within(there.closed()).await;
    assert!(reason.is_remote());
    assert_eq!(reason.source().unwrap().to_string(), "close code 1000");
    assert!(within(peer.closed()).await.is_local());
}

#[tokio::test]
async fn whoever_does_not_answer_a_ping_is_given_up() {
    let mut options = Options::default();
    options.ping_interval = Some(Duration::from_millis(50));
    options.ping_timeout = Duration::from_millis(150);
    let (server, log) = start("ws://127.0.0.1:0/rpc", Config::default(), options).await;
    let mut raw = open(&server).await;
    raw.text(&json!({"jsonrpc": "2.0", "id": 1, "method": "hang"}))
        .await;
    assert_eq!(raw.next().await, (0x89, vec![]));
    raw.frame(0x8a, b"").await;
    assert_eq!(raw.next().await, (0x89, vec![]));
    assert_eq!(raw.goodbye().await, 1008);
    eventually("it is dropped", || log.len() == 2).await;
    // One who answers stays.
    let peer = client(&server).await;
    let pings = || peer.stats().bytes_received / 2;
    eventually("five pings have come", || pings() >= 5).await;
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

#[tokio::test]
async fn a_slow_reader_does_not_make_memory_grow() {
    let mut config = Config::default();
    config.output = 256 << 10;
    let (server, _) = start("ws://127.0.0.1:0/rpc", config, Options::default()).await;
    let mut raw = open(&server).await;
    const CALLS: u32 = 1000;
    let mut requests = Vec::new();
    for id in 0..CALLS {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "much", "params": [50_000]});
        requests.extend(masked(0x81, request.to_string().as_bytes()));
    }
    let (mut reader, mut writer) = raw.0.split();
    let write = async { writer.write_all(&requests).await.unwrap() };
    let read = async {
        // It answers until there is room for no more.
        let (mut sent, mut looks) = (0, 0);
        eventually("it waits", || {
            let now = server.stats().bytes_sent;
            looks = if now == sent { looks + 1 } else { 0 };
            sent = now;
            sent > 0 && looks == 20
        })
        .await;
        // The system's buffers take some megabytes of these fifty.
        assert!(sent < 20 << 20, "{sent} bytes are on their way");
        let mut refused = 0;
        for _ in 0..CALLS {
            let (_, payload) = within(read_frame(&mut reader)).await;
            let answer: Value = serde_json::from_slice(&payload).unwrap();
            refused += u32::from(answer["error"]["code"] == -32000);
        }
        refused
    };
    let ((), refused) = tokio::join!(write, read);
    assert!(refused < CALLS, "{refused}");
}
