//! One message on WebSocket, server-sent events, polling and webhook.
#![cfg(all(
    feature = "polling",
    feature = "sse",
    feature = "webhook",
    feature = "ws"
))]
#![allow(clippy::unwrap_used, reason = "a test may")]

use caudal::http::Options;
use caudal::{Context, RawValue, Router};

use crate::support::downlink::Downlink;
use crate::support::raw_http::Raw;

/// Everything in JSON that a second encoder would write in another way: white space,
/// escapes, text that is not ASCII, digits beyond a double, exponents, and line breaks,
/// which a message on a line of its own cannot have.
const PARAMS: &str = concat!(
    "{ \"text\" :\t\"\\u00e9 é 😀 \\ud83d\\ude00 \\/ \\\\ \\\" \\u0000 \u{2028} data: </x>\" ,\r\n",
    " \"numbers\" : [ 123456789012345678901234567890.0 , 0.10 , 1E+400 , -0 ] ,\n",
    "\"\" : { } }"
);
const METHOD: &str = "naïve \"name\"\n";

/// A server that answers one request with a notification and a reply.
fn router() -> Router {
    Router::new().method("repeat", |cx: Context, params: Box<RawValue>| async move {
        cx.peer().notify(METHOD, &*params).await?;
        Ok(params)
    })
}

/// Text of both messages, as they stand on the wire of this kind.
async fn on_the_wire(kind: &str) -> [String; 2] {
    let mut options = Options::default();
    options.private_webhooks = true;
    let serving = caudal::serve("http://127.0.0.1:0/rpc", router()).http(options);
    let server = serving.await.unwrap();
    let endpoint = server.endpoint().to_string();
    let port = endpoint.trim_end_matches("/rpc").rsplit(':').next();
    let port = port.unwrap().parse().unwrap();
    let request =
        format!(r#"{{"jsonrpc":"2.0","id":"\u00e9\/1","method":"repeat","params":{PARAMS}}}"#);
    let (mut downlink, session) = match kind {
        "WebSocket" => {
            let mut socket = Downlink::frames(port).await;
            socket.frame(0x81, request.as_bytes()).await;
            let mut downlink = Downlink::Frames(socket);
            return [downlink.next().await, downlink.next().await];
        }
        "SSE" => Downlink::events(port).await,
        "polling" => Downlink::polls(port).await,
        "webhook" => Downlink::hook(port).await,
        _ => unreachable!("{kind}"),
    };
    let headers = [
        &*session,
        "Content-Type: application/json",
        "Prefer: respond-async",
    ];
    let mut posts = Raw::connect(port).await;
    let accepted = posts.ask("POST", "/rpc", &headers, &request).await;
    assert_eq!(accepted.status, 202);
    [downlink.next().await, downlink.next().await]
}

/// Proves: C40
#[tokio::test]
async fn c40_a_message_is_the_same_bytes_on_all_four_ways_to_a_client() {
    // A line break in JSON is space, and is sent as a space.
    let params = PARAMS.replace(['\r', '\n'], " ");
    let expected = [
        format!(r#"{{"jsonrpc":"2.0","method":"naïve \"name\"\n","params":{params}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"\u00e9\/1","result":{params}}}"#),
    ];
    for kind in ["WebSocket", "SSE", "polling", "webhook"] {
        assert_eq!(on_the_wire(kind).await, expected, "{kind}");
    }
}
