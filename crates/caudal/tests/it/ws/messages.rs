//! Messages over a WebSocket.

use super::*;

#[tokio::test]
async fn calls_notifications_callbacks_and_batches_pass() {
    for scheme in ["ws", "http"] {
        let url = format!("{scheme}://127.0.0.1:0/rpc");
        let (server, log) = start(&url, Config::default(), Options::default()).await;
        let there = router(&Log::default());
        let connecting = connect(&*self::url(&server, "ws")).router(there);
        let peer = within(connecting).await.unwrap();
        assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
        assert_eq!(within(peer.call::<u32>("down", (7,))).await.unwrap(), 7);
        within(peer.notify("note", ("hello",))).await.unwrap();
        let mut batch = peer.batch();
        let one = batch.call::<i64>("add", (3, 4)).unwrap();
        batch.notify("note", ("batch",)).unwrap();
        let two = batch.call::<i64>("add", (5, 6)).unwrap();
        within(batch.send()).await.unwrap();
        assert_eq!(within(one).await.unwrap(), 7);
        assert_eq!(within(two).await.unwrap(), 11);
        assert_eq!(log.take(), ["hello", "batch"]);
        let remote: Option<String> = within(peer.call("remote", ())).await.unwrap();
        assert!(remote.unwrap().starts_with("127.0.0.1:"));
        // And the other way round.
        eventually("one is left", || server.connections() == 1).await;
        let there = &server.peers()[0];
        assert_eq!(within(there.call::<i64>("add", (2, 2))).await.unwrap(), 4);
        server.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn both_schemes_answer_a_post() {
    for scheme in ["ws", "http"] {
        let url = format!("{scheme}://127.0.0.1:0/rpc");
        let (server, _) = start(&url, Config::default(), Options::default()).await;
        let body = add(1).to_string();
        let mut socket = TcpStream::connect(address(&server)).await.unwrap();
        let request = format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(socket.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.ends_with(r#""result":2}"#), "{answer}");
    }
}

#[tokio::test]
async fn text_binary_and_fragments_are_messages() {
    let (server, _) = plain().await;
    let mut raw = open(&server).await;
    raw.text(&add(1)).await;
    assert_eq!(raw.json().await["result"], 2);
    raw.frame(0x82, add(2).to_string().as_bytes()).await;
    assert_eq!(raw.json().await["result"], 3);
    let text = add(3).to_string();
    let (one, two) = text.as_bytes().split_at(9);
    raw.frame(0x01, one).await;
    raw.frame(0x89, b"ping").await;
    raw.frame(0x00, two).await;
    raw.frame(0x80, b"").await;
    assert_eq!(raw.next().await, (0x8a, b"ping".to_vec()));
    assert_eq!(raw.json().await["result"], 4);
    // What is no JSON is answered, and the connection goes on.
    raw.frame(0x81, b"").await;
    assert_eq!(raw.json().await["error"]["code"], -32700);
    raw.frame(0x82, b"\xff").await;
    assert_eq!(raw.json().await["error"]["code"], -32700);
    raw.frame(
        0x81,
        b"{\n\"jsonrpc\": \"2.0\",\r\n\"id\": 4, \"method\": \"add\", \"params\": [1, 2]}\n",
    )
    .await;
    assert_eq!(raw.json().await["result"], 3);
}

#[tokio::test]
async fn another_implementation_is_understood() {
    let (server, _) = plain().await;
    let url = url(&server, "ws");
    let spoken = tokio::task::spawn_blocking(move || {
        let host = url
            .strip_prefix("ws://")
            .unwrap()
            .split('/')
            .next()
            .unwrap();
        let socket = std::net::TcpStream::connect(host).unwrap();
        let (mut ws, response) = tungstenite::client(&*url, socket).unwrap();
        assert!(!response.headers().contains_key("sec-websocket-extensions"));
        for id in 0..100 {
            ws.write(add(id).to_string().into()).unwrap();
        }
        ws.flush().unwrap();
        for id in 0..100 {
            let answer = ws.read().unwrap().into_text().unwrap();
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["result"], id + 1);
        }
        ws.close(None).unwrap();
        loop {
            match ws.read() {
                Ok(_) => {}
                Err(tungstenite::Error::ConnectionClosed) => break,
                Err(error) => panic!("{error}"),
            }
        }
    });
    within(spoken).await.unwrap();
}
