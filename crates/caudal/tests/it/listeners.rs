//! Servers on sockets that the application has bound, and on connections that it accepts.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::future::IntoFuture;
use std::time::Duration;

use caudal::{
    AcceptedStream, Endpoint, Error, Framing, Protocol, Router, Serve, Server, ServerLimits,
    connect, serve, serve_on, serve_stream,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::support::{eventually, within};

fn router() -> Router {
    Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b))
}

/// Calls the server at this endpoint.
async fn calls(endpoint: impl Into<Endpoint>) {
    let peer = within(connect(endpoint.into())).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

/// Sends this text on a connection, and returns the reply up to `end`.
async fn exchange(mut socket: impl AsyncReadExt + AsyncWriteExt + Unpin, text: &str) -> String {
    const END: &[u8] = br#""id":1,"result":3}"#;
    socket.write_all(text.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    while !reply.windows(END.len()).any(|window| window == END) {
        assert!(within(socket.read_buf(&mut reply)).await.unwrap() > 0);
    }
    String::from_utf8(reply).unwrap()
}

const ADD: &str = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;

fn post() -> String {
    format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{ADD}",
        ADD.len()
    )
}

#[tokio::test]
async fn a_socket_that_listens_already_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = serve_on(tcp, router()).await.unwrap();
    calls(server.endpoint()).await;
    let std = std::net::TcpListener::bind("[::1]:0").unwrap();
    let endpoint = server.listen_on(std, Framing::Header).unwrap();
    assert!(endpoint.to_string().starts_with("tcp://[::1]:"));
    calls(endpoint).await;
    let unix = UnixListener::bind(&path).unwrap();
    let endpoint = server.listen_on(unix, Protocol::default()).unwrap();
    assert_eq!(endpoint, Endpoint::unix(&path));
    calls(endpoint).await;
    let std = std::os::unix::net::UnixListener::bind(directory.path().join("other")).unwrap();
    calls(server.listen_on(std, Framing::Line).unwrap()).await;
    eventually("all have ended", || server.connections() == 0).await;
    assert_eq!(server.stats().requests_served, 4);
    server.shutdown(Duration::from_secs(5)).await;
    assert!(path.exists(), "the path belongs to its application");
    assert!(UnixStream::connect(&path).await.is_err());
}

#[tokio::test]
async fn http_is_spoken_on_the_path_of_its_url() {
    let directory = tempfile::tempdir().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    let server = serve_on(tcp, router())
        .protocol("http://localhost/rpc")
        .await
        .unwrap();
    let url = format!("http://localhost:{port}/rpc");
    assert_eq!(server.endpoint().to_string(), url);
    calls(server.endpoint()).await;
    let websocket: Endpoint = format!("ws://localhost:{port}/rpc").parse().unwrap();
    calls(websocket).await;
    let path = directory.path().join("socket");
    let unix = UnixListener::bind(&path).unwrap();
    server.listen_on(unix, "http://localhost/rpc").unwrap();
    let reply = exchange(UnixStream::connect(&path).await.unwrap(), &post()).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    let foreign = post().replace("Host: localhost", "Host: evil.example");
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    socket.write_all(foreign.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    within(socket.read_exact(&mut status)).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 403");
}

#[tokio::test]
async fn connections_of_an_accept_loop_share_one_server() {
    let server = Serve::new(router()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    for (protocol, text) in [
        (Protocol::default(), format!("{ADD}\n")),
        (
            Framing::Header.into(),
            format!("Content-Length: {}\r\n\r\n{ADD}", ADD.len()),
        ),
        (Protocol::try_from("http://localhost/rpc").unwrap(), post()),
    ] {
        let client = TcpStream::connect(address).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        server.serve_stream(stream, protocol.clone()).unwrap();
        exchange(client, &text).await;
        let (client, stream) = UnixStream::pair().unwrap();
        server.serve_stream(stream, protocol.clone()).unwrap();
        exchange(client, &text).await;
        let (client, stream) = tokio::io::duplex(4096);
        let stream = AcceptedStream::new(stream);
        server.serve_stream(stream, protocol).unwrap();
        exchange(client, &text).await;
    }
    assert_eq!(server.accepted(), 9);
    assert_eq!(server.stats().requests_served, 9);
    assert!(server.endpoints().is_empty());
    within(server.shutdown(Duration::from_secs(5))).await;
}

#[tokio::test]
async fn sessions_outlive_the_connections_of_an_accept_loop() {
    let server = Serve::new(router()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/rpc#sse", listener.local_addr().unwrap());
    let hand_over = server.clone();
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let served = hand_over.serve_stream(stream, "http://127.0.0.1/rpc");
            served.unwrap();
        }
    });
    let peer = within(connect(url)).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
    assert_eq!(server.peers().len(), 1);
    peer.close();
    within(peer.closed()).await;
    eventually("the session has ended", || server.peers().is_empty()).await;
    accepting.abort();
}

#[tokio::test]
async fn one_connection_is_a_server_of_its_own() {
    let (client, stream) = UnixStream::pair().unwrap();
    let server = serve_stream(stream, router()).await.unwrap();
    exchange(client, &format!("{ADD}\n")).await;
    within(server.wait()).await;
    assert_eq!(server.stats().requests_served, 1);
}

#[tokio::test]
async fn other_machines_are_let_in_on_request_alone() {
    let open = || TcpListener::bind("0.0.0.0:0");
    for protocol in ["http://localhost/rpc", "ws://localhost/"] {
        let refused = serve_on(open().await.unwrap(), router()).protocol(protocol);
        let error = refused.await.unwrap_err();
        assert!(matches!(error, Error::NotLoopback { .. }), "{error}");
    }
    let error = serve_on(open().await.unwrap(), router()).await.unwrap_err();
    assert!(matches!(error, Error::NotLoopback { .. }), "{error}");
    let server = serve("tcp://127.0.0.1:0", router()).await.unwrap();
    let error = server.listen("tcp://0.0.0.0:0").await.unwrap_err();
    assert!(matches!(error, Error::NotLoopback { .. }), "{error}");
    // A client of this machine reached a socket that others can reach.
    let listener = open().await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    server.serve_stream(stream, Framing::Line).unwrap();
    let allowed = serve_on(listener, router()).allow_remote().await.unwrap();
    calls(Endpoint::tcp(
        "127.0.0.1",
        allowed.endpoint().port().unwrap(),
    ))
    .await;
}

#[tokio::test]
async fn the_limits_of_a_server_hold_for_all_its_endpoints() {
    let limits = ServerLimits::default().connections(2);
    let server = Serve::new(router()).limits(limits).await.unwrap();
    let _one = hand_over(&server, "").await;
    let _two = hand_over(&server, "http://localhost/rpc").await;
    let mut refused = String::new();
    let mut third = hand_over(&server, "").await;
    within(third.read_to_string(&mut refused)).await.unwrap();
    assert!(refused.contains("-32000"), "{refused}");
    refused.clear();
    let mut fourth = hand_over(&server, "http://localhost/rpc").await;
    fourth.write_all(post().as_bytes()).await.unwrap();
    fourth.shutdown().await.unwrap();
    within(fourth.read_to_string(&mut refused)).await.unwrap();
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
}

/// Hands a connection over that has made one call; the client's end is returned.
async fn hand_over(server: &Server, url: &str) -> tokio::io::DuplexStream {
    let (mut client, stream) = tokio::io::duplex(4096);
    let stream = AcceptedStream::new(stream);
    let protocol = match url {
        "" => Protocol::default(),
        url => url.parse().unwrap(),
    };
    let before = server.connections();
    server.serve_stream(stream, protocol).unwrap();
    if before < 2 {
        let text = match url {
            "" => format!("{ADD}\n"),
            _ => post(),
        };
        exchange(&mut client, &text).await;
    }
    client
}

#[tokio::test]
async fn a_protocol_that_is_none_is_refused_with_advice() {
    let socket = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for (protocol, advice) in [
        ("tcp://localhost:1", "a URL such as `http://localhost/rpc`"),
        ("localhost", "no scheme"),
        ("", "empty"),
    ] {
        let error = serve_on(socket(), router()).protocol(protocol).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(advice), "{protocol}: {error}");
    }
    let error = serve_on(socket(), router()).protocol("https://localhost/");
    let error = error.await.unwrap_err();
    assert!(matches!(error, Error::Listen { .. }), "{error}");
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_is_spoken_on_sockets_and_connections_of_the_application() {
    use caudal::http::{ClientOptions, Options};
    use caudal::tls::ClientTls;

    let root = crate::support::root::Root::new("root");
    let trust = ClientTls::with_roots(root.pem.as_str()).unwrap();
    let client = ClientOptions::default().tls(trust);
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = serve_on(tcp, router())
        .protocol("https://localhost/rpc")
        .http(Options::default().tls(root.server()))
        .await
        .unwrap();
    let peer = connect(server.endpoint()).http(client.clone()).await;
    let call = peer.unwrap();
    assert_eq!(within(call.call::<i64>("add", (1, 2))).await.unwrap(), 3);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connecting = connect(format!("wss://localhost:{port}/rpc")).http(client);
    let connecting = tokio::spawn(connecting.into_future());
    let (stream, _) = listener.accept().await.unwrap();
    server.serve_stream(stream, "wss://localhost/rpc").unwrap();
    let peer = within(connecting).await.unwrap().unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

#[tokio::test]
async fn a_server_without_a_listener_waits_for_its_shutdown() {
    let server = Serve::new(router()).await.unwrap();
    let waiting = server.clone();
    let waiting = tokio::spawn(async move { waiting.wait().await });
    let client = hand_over(&server, "").await;
    drop(client);
    eventually("it has left", || server.connections() == 0).await;
    assert!(!waiting.is_finished());
    server.shutdown(None).await;
    within(waiting).await.unwrap();
    let error = server.listen("tcp://127.0.0.1:0").await.unwrap_err();
    assert!(error.to_string().contains("cannot listen"), "{error}");
    let stream = AcceptedStream::new(tokio::io::duplex(64).0);
    let error = server.serve_stream(stream, Framing::Line).unwrap_err();
    assert!(error.to_string().contains("shut down"), "{error}");
    assert!(server.endpoints().is_empty());
}

#[tokio::test]
async fn a_mounted_server_counts_its_posts_and_shares_its_sessions() {
    let server = Serve::new(router()).await.unwrap();
    let (one, other) = (server.http_service(), server.http_service());
    let request = |session: Option<&str>| {
        let builder = http::Request::post("http://localhost/")
            .header("host", "localhost")
            .header("content-type", "application/json");
        let builder = match session {
            Some(id) => builder.header("mcp-session-id", id),
            None => builder,
        };
        builder.body(ADD.to_owned()).unwrap()
    };
    assert_eq!(one.answer(request(None)).await.status(), 200);
    assert_eq!(server.stats().requests_served, 1);
    let opened = http::Request::get("http://localhost/")
        .header("host", "localhost")
        .header("accept", "text/event-stream")
        .body(String::new())
        .unwrap();
    let opened = one.answer(opened).await;
    assert_eq!(opened.status(), 200);
    let session = opened.headers()["mcp-session-id"].to_str().unwrap();
    let answered = other.answer(request(Some(session))).await;
    assert_eq!(answered.status(), 200);
}

#[tokio::test]
async fn a_protocol_that_would_be_ignored_is_an_error() {
    let serve = serve("tcp://127.0.0.1:0", router()).protocol(Framing::Header);
    let error = serve.await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}
