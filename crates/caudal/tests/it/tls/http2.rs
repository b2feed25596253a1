//! HTTP/2 by TLS.
#![cfg(feature = "http2")]

use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;

#[tokio::test]
async fn http2_is_chosen_where_it_is_offered() {
    let root = Root::new("a");
    let server = serving(with(root.server())).await;
    let mut client = Client::of(&root);
    for (offered, chosen) in [
        (vec!["http/1.1", "h2"], Some("h2")),
        (vec!["h2"], Some("h2")),
        (vec!["http/1.1"], Some("http/1.1")),
        (vec![], None),
    ] {
        client.alpn = offered;
        let stream = client.connect(&server).await.unwrap();
        let alpn = stream.get_ref().1.alpn_protocol();
        assert_eq!(alpn, chosen.map(str::as_bytes));
    }
    answered(client.post(&server).await);
    client.alpn = vec!["gopher"];
    let refused = client.post(&server).await;
    refused.expect_err("there is no such protocol");
}

#[tokio::test]
async fn a_post_is_answered_by_http2() {
    let root = Root::new("a");
    let server = serving(with(root.server())).await;
    let mut client = Client::of(&root);
    client.alpn = vec!["h2"];
    let stream = TokioIo::new(client.connect(&server).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = http::Request::post("https://localhost/rpc")
        .header("content-type", "application/json")
        .body(CALL.to_owned())
        .unwrap();
    let mut response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.body_mut();
    let frame =
        std::future::poll_fn(|cx| hyper::body::Body::poll_frame(std::pin::pin!(&mut *body), cx));
    let frame = frame.await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(frame, ANSWER);
}
