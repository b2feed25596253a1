//! How a WebSocket begins, and who is let in.

use super::*;

/// A client need not wait for the answer to its handshake, nor a server before its first
/// message: what comes in the same piece belongs to the WebSocket.
#[tokio::test]
async fn what_comes_with_a_handshake_is_read() {
    let (server, log) = plain().await;
    let note = json!({"jsonrpc": "2.0", "method": "note", "params": ["early"]});
    let frames = [
        masked(0x81, note.to_string().as_bytes()),
        masked(0x81, add(1).to_string().as_bytes()),
    ];
    let frames = frames.concat();
    for cut in [0, 1, 5, 60, frames.len() - 1, frames.len()] {
        let mut socket = TcpStream::connect(address(&server)).await.unwrap();
        let begin = format!("GET /rpc HTTP/1.1\r\nHost: localhost\r\n{HANDSHAKE}\r\n");
        let (with, later) = frames.split_at(cut);
        let begin = [begin.as_bytes(), with].concat();
        socket.write_all(&begin).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(within(socket.read_u8()).await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{answer:?}");
        socket.write_all(later).await.unwrap();
        let mut raw = RawWebSocket(socket);
        assert_eq!(raw.json().await["result"], 2, "cut at {cut}");
        assert_eq!(log.take(), ["early"], "cut at {cut}");
    }
}

#[tokio::test]
async fn what_comes_with_the_answer_to_a_handshake_is_read() {
    let note = json!({"jsonrpc": "2.0", "method": "note", "params": ["early"]}).to_string();
    let frame = [&[0x81, note.len() as u8], note.as_bytes()].concat();
    for cut in [0, 1, 2, 20, frame.len() - 1, frame.len()] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        let log = Log::default();
        let connecting = connect(&*url).router(router(&log)).into_future();
        let serving = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(socket.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let (_, key) = head.split_once("sec-websocket-key: ").unwrap();
            let key = key.split("\r\n").next().unwrap();
            let proof = tungstenite::handshake::derive_accept_key(key.as_bytes());
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Accept: {proof}\r\n\r\n"
            );
            let (with, later) = frame.split_at(cut);
            let begin = [answer.as_bytes(), with].concat();
            socket.write_all(&begin).await.unwrap();
            (socket, later)
        };
        let (peer, (mut socket, later)) = within(async { tokio::join!(connecting, serving) }).await;
        let peer = peer.unwrap();
        socket.write_all(later).await.unwrap();
        eventually("it is read", || log.len() == 1).await;
        assert_eq!(log.take(), ["early"], "cut at {cut}");
        // The two bytes of the head count, too.
        assert_eq!(peer.stats().bytes_received, frame.len() as u64);
    }
}

#[tokio::test]
async fn a_malformed_handshake_is_refused() {
    let (server, _) = plain().await;
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let begin = "Host: localhost\r\nUpgrade: websocket\r\n";
    let table = [
        (
            format!("{begin}Connection: Upgrade\r\nSec-WebSocket-Version: 8\r\n{key}"),
            "426",
        ),
        (format!("{begin}Connection: Upgrade\r\n{key}"), "426"),
        (
            format!("{begin}Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"),
            "400",
        ),
        (
            format!(
                "{begin}Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: short==\r\n"
            ),
            "400",
        ),
        (
            format!("{begin}Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n{key}{key}"),
            "400",
        ),
        (format!("{begin}Sec-WebSocket-Version: 13\r\n{key}"), "400"),
        (format!("Host: localhost\r\n{key}"), "405"),
        (format!("Host: evil.example\r\n{HANDSHAKE}"), "403"),
        (
            format!("Host: localhost\r\nOrigin: https://evil.example\r\n{HANDSHAKE}"),
            "403",
        ),
        (
            format!("Host: localhost\r\nOrigin: http://localhost\r\n{HANDSHAKE}"),
            "101",
        ),
        (
            format!("Host: localhost\r\nSec-WebSocket-Protocol: a, b\r\n{HANDSHAKE}"),
            "101",
        ),
    ];
    for (head, status) in table {
        let (_, answer) = ask(&server, &head).await;
        assert_eq!(&answer[9..12], status, "{head}{answer}");
        let answer = answer.to_ascii_lowercase();
        let tells = answer.contains("sec-websocket-version: 13\r\n");
        assert_eq!(tells, status == "426", "{answer}");
        assert!(!answer.contains("sec-websocket-protocol"), "{answer}");
    }
    // Another path.
    let elsewhere = url(&server, "ws").replace("/rpc", "/other");
    let error = within(connect(&*elsewhere)).await.unwrap_err();
    let text = error.source().unwrap().to_string();
    assert!(
        text.contains("404") && text.contains("nothing is served"),
        "{text}"
    );
}

#[tokio::test]
async fn a_token_lets_in() {
    let mut options = Options::default();
    options.tokens.push("s3cret".into());
    let (server, _) = start("ws://127.0.0.1:0/rpc", Config::default(), options).await;
    for token in [None, Some("wrong")] {
        let mut options = ClientOptions::default();
        options.token = token.map(Into::into);
        let connecting = connect(&*url(&server, "ws")).http(options);
        let Error::Connect { cause, .. } = within(connecting).await.unwrap_err() else {
            panic!("another error");
        };
        assert_eq!(cause.kind(), std::io::ErrorKind::PermissionDenied);
        let text = cause.to_string();
        assert!(
            text.contains("401") && text.contains("bearer token"),
            "{text}"
        );
    }
    let mut options = ClientOptions::default();
    options.token = Some("s3cret".into());
    let connecting = connect(&*url(&server, "ws")).http(options);
    let peer = within(connecting).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

#[tokio::test]
async fn handlers_see_what_was_found_out_about_the_caller() {
    let mut options = Options::default();
    options.authorize = Some(Arc::new(|request: &Parts, found: &Extensions| {
        let user = request.headers.get("x-user").ok_or(StatusCode::FORBIDDEN)?;
        found.insert(Caller::new(user.to_str().unwrap()));
        Ok(())
    }));
    let (server, _) = start("ws://127.0.0.1:0/rpc", Config::default(), options).await;
    for user in ["ada", "bob"] {
        let mut options = ClientOptions::default();
        options.headers.insert("x-user", user.parse().unwrap());
        let connecting = connect(&*url(&server, "ws")).http(options);
        let peer = within(connecting).await.unwrap();
        let who: String = within(peer.call("who", ())).await.unwrap();
        assert_eq!(who, user);
    }
    let error = within(connect(&*url(&server, "ws"))).await.unwrap_err();
    assert!(error.source().unwrap().to_string().contains("403"));
    assert!(!error.is_recoverable());
}

#[tokio::test]
async fn a_websocket_is_counted_while_it_lasts() {
    let mut options = Options::default();
    options.connections_per_address = 1;
    let (server, _) = start("ws://127.0.0.1:0/rpc", Config::default(), options).await;
    let peer = client(&server).await;
    within(peer.call::<i64>("add", (1, 2))).await.unwrap();
    eventually("one is left", || server.connections() == 1).await;
    assert!(within(connect(&*url(&server, "ws"))).await.is_err());
    peer.close();
    eventually("it is gone", || server.connections() == 0).await;
    let peer = client(&server).await;
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

/// Runs a service as an application would, and returns its address.
async fn mount(http: Http) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            serve_connection(&http, socket);
        }
    });
    format!("ws://{address}/anywhere")
}

#[tokio::test]
async fn a_mounted_service_has_its_limit_and_its_end() {
    let limits = caudal::ServerLimits::default().connections(1);
    let server = caudal::Serve::new(router(&Log::default())).limits(limits);
    let http = server.await.unwrap().http_service();
    let url = mount(http.clone()).await;
    let peer = within(connect(&*url)).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
    let refused = within(connect(&*url)).await.unwrap();
    let reason = within(refused.closed()).await;
    let text = reason.source().unwrap().to_string();
    assert_eq!(text, "close code 1013: too many connections");
    assert_eq!(http.peers().len(), 1);
    within(http.shutdown(Duration::from_secs(5))).await;
    let reason = within(peer.closed()).await;
    let text = reason.source().unwrap().to_string();
    assert_eq!(text, "close code 1001: shutting down");
    let error = within(connect(&*url)).await.unwrap_err();
    let text = error.source().unwrap().to_string();
    assert!(text.contains("503") && error.is_recoverable(), "{text}");
}

/// Takes one connection in and answers its first request with this.
async fn answering(answer: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/x?y=z", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("GET /x?y=z HTTP/1.1\r\n"), "{head}");
        socket.write_all(answer.as_bytes()).await.unwrap();
        let _ = socket.read_u8().await;
    });
    url
}

#[tokio::test]
async fn a_client_believes_no_false_answer() {
    let chunked = "HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n\
        4\r\ncome\r\n6\r\n later\r\n0\r\n\r\n";
    let table = [
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            "does not begin a WebSocket",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            "200 OK: hi",
        ),
        (chunked, "503 Service Unavailable: come later"),
        (
            "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
            "302 Found to `/`",
        ),
        ("SSH-2.0-OpenSSH_9.9\r\n", "is not HTTP"),
    ];
    for (answer, text) in table {
        let url = answering(answer).await;
        let error = within(connect(&*url)).await.unwrap_err();
        let cause = error.source().unwrap().to_string();
        assert!(cause.ends_with(text), "{cause}");
    }
}

#[tokio::test]
async fn a_lost_connection_is_made_again() {
    let (server, log) = plain().await;
    let mut backoff = Backoff::default();
    backoff.first = Duration::from_millis(20);
    let connecting = connect(&*url(&server, "ws")).reconnect(backoff);
    let peer = within(connecting).await.unwrap();
    let hanging = {
        let peer = peer.clone();
        tokio::spawn(async move { peer.call::<()>("hang", ()).await })
    };
    eventually("it runs", || log.len() == 1).await;
    server.peers().iter().for_each(Peer::close);
    let lost = within(hanging).await.unwrap();
    assert!(matches!(lost, Err(CallError::Closed(_))), "{lost:?}");
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}
