//! WebSockets in streams of HTTP/2.

use super::*;

/// A connection of HTTP/2 that knows that there are WebSockets.
async fn http2(server: &Server) -> hyper::client::conn::http2::SendRequest<String> {
    use hyper_util::rt::TokioExecutor;
    let socket = TcpStream::connect(address(server)).await.unwrap();
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.handshake(TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    // The server's settings, which come before its first answer, allow it.
    let request = http::Request::post(url(server, "http"))
        .header("content-type", "application/json")
        .body(add(1).to_string())
        .unwrap();
    let response = within(sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 200);
    sender
}

fn extended_connect(server: &Server, version: &str) -> http::Request<String> {
    http::Request::connect(url(server, "http"))
        .extension(hyper::ext::Protocol::from_static("websocket"))
        .header("sec-websocket-version", version)
        .body(String::new())
        .unwrap()
}

#[tokio::test]
async fn a_websocket_runs_in_a_stream_of_http2() {
    let (server, _) = plain().await;
    let mut sender = http2(&server).await;
    for (version, status) in [("12", 426), ("13", 200)] {
        let request = extended_connect(&server, version);
        let response = within(sender.send_request(request)).await.unwrap();
        assert_eq!(response.status(), status);
        if status != 200 {
            continue;
        }
        let mut io = TokioIo::new(within(hyper::upgrade::on(response)).await.unwrap());
        let text = add(1).to_string();
        io.write_all(&masked(0x81, text.as_bytes())).await.unwrap();
        let (first, payload) = within(read_frame(&mut io)).await;
        assert_eq!(first, 0x81);
        assert!(payload.ends_with(b"\"result\":2}"));
        let goodbye = 1000_u16.to_be_bytes();
        io.write_all(&masked(0x88, &goodbye)).await.unwrap();
        assert_eq!(within(read_frame(&mut io)).await, (0x88, goodbye.to_vec()));
        assert_eq!(within(io.read(&mut [0])).await.unwrap(), 0);
    }
    eventually("the stream is gone", || server.connections() == 1).await;
    drop(sender);
    eventually("all is gone", || server.connections() == 0).await;
}

#[tokio::test]
async fn the_websockets_of_one_connection_count_as_connections() {
    let mut options = Options::default();
    options.connections_per_address = 3;
    let (each, _) = start("ws://127.0.0.1:0/rpc", Config::default(), options).await;
    let limits = caudal::ServerLimits::default().connections(3);
    let all = serve("ws://127.0.0.1:0/rpc", router(&Log::default())).limits(limits);
    let all = within(all).await.unwrap();
    for server in [each, all] {
        let mut sender = http2(&server).await;
        let mut open = async || {
            let response = sender.send_request(extended_connect(&server, "13"));
            let response = within(response).await.unwrap();
            assert_eq!(response.status(), 200);
            TokioIo::new(within(hyper::upgrade::on(response)).await.unwrap())
        };
        let (mut one, other) = (open().await, open().await);
        let mut third = open().await;
        let (first, payload) = within(read_frame(&mut third)).await;
        assert_eq!((first, &payload[..2]), (0x88, &1013_u16.to_be_bytes()[..]));
        // What is there goes on.
        one.write_all(&masked(0x81, add(1).to_string().as_bytes()))
            .await
            .unwrap();
        assert_eq!(within(read_frame(&mut one)).await.0, 0x81);
        drop((other, third));
        eventually("there is room", || server.connections() == 2).await;
        let mut fourth = open().await;
        fourth
            .write_all(&masked(0x81, add(1).to_string().as_bytes()))
            .await
            .unwrap();
        assert_eq!(within(read_frame(&mut fourth)).await.0, 0x81);
    }
}
