//! Sessions are opened, found again, and expire.

use http_body_util::BodyExt as _;

use super::service::{Service, text};
use super::*;

#[tokio::test]
async fn a_session_is_opened_used_and_ended() {
    let site = Site::new().await;
    let mut client = site.open().await;
    assert_eq!(client.session.len(), 32, "128 bits");
    let reply = client.post(&[], &call(1, "add", json!([1, 2]))).await;
    assert_eq!((reply.status, reply.json()), (200, ok(1, json!(3))));
    assert_eq!(reply.header("mcp-session-id"), None);
    let in_query = format!("/?session={}", client.session);
    let text = call(2, "add", json!([2, 2])).to_string();
    let reply = client.raw.ask("POST", &in_query, &[JSON], &text).await;
    assert_eq!(reply.json(), ok(2, json!(4)));
    let peer = site.peer();
    assert_eq!(client.ask("DELETE", "/", &[], "").await.status, 204);
    eventually("the peer is closed", || peer.state().is_closed()).await;
    assert_eq!(client.ask("DELETE", "/", &[], "").await.status, 404);
    let reply = client.post(&[], &call(3, "add", json!([1, 2]))).await;
    assert_eq!(reply.status, 404);
    assert_eq!(client.poll(0).await.status, 404);
}

#[tokio::test]
async fn every_id_is_another_one() {
    let site = Site::new().await;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..50 {
        for id in [site.open().await.session, site.open_polling().await.session] {
            let is_hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            assert!(id.len() == 32 && id.bytes().all(is_hex), "{id}");
            assert!(ids.insert(id), "it was there before");
        }
    }
}

#[tokio::test]
async fn only_the_call_of_its_method_opens_a_session() {
    let site = Site::new().await;
    let mut raw = site.raw().await;
    let others = [
        call(1, "add", json!([1, 2])),
        note("initialize"),
        json!([call(1, "initialize", json!([]))]),
    ];
    for body in others {
        let reply = raw.ask("POST", "/", &[JSON], &body.to_string()).await;
        assert_eq!(reply.header("mcp-session-id"), None, "{body}");
    }
    let late = r#"{"params":[],"id":1,"method":"\u0069nitialize","jsonrpc":"2.0"}"#;
    let reply = raw.ask("POST", "/", &[JSON], late).await;
    assert!(reply.header("mcp-session-id").is_some());
    let mut options = Options::default();
    options.session_method = None;
    let site = Site::with(options, Config::default()).await;
    let reply = site.raw().await.ask("POST", "/", &[JSON], INITIALIZE).await;
    assert_eq!(reply.header("mcp-session-id"), None);
}

#[tokio::test]
async fn a_header_of_another_name_is_the_only_one() {
    let mut options = Options::default();
    options.session_header = http::HeaderName::from_static("x-session");
    let site = Site::with(options, Config::default()).await;
    let mut raw = site.raw().await;
    let reply = raw.ask("POST", "/", &[JSON], INITIALIZE).await;
    assert_eq!(reply.header("mcp-session-id"), None);
    let id = reply.header("x-session").unwrap().to_owned();
    for (name, status) in [("X-Session", 204), ("Mcp-Session-Id", 405)] {
        let session = format!("{name}: {id}");
        let wait = "Prefer: wait=0";
        let reply = raw.ask("GET", "/", &[&session, wait], "").await;
        assert_eq!(reply.status, status, "{name}");
    }
}

#[tokio::test]
async fn a_get_says_what_it_wants_to_hear() {
    let site = Site::new().await;
    let mut raw = site.raw().await;
    for accept in ["Accept: */*", "Accept: text/html", "X: y"] {
        assert_eq!(raw.ask("GET", "/", &[accept], "").await.status, 405);
    }
    // A message by the wrong verb is not lost in a session that nobody asked for.
    for message in [INITIALIZE, ""] {
        let reply = raw.ask("GET", "/", &[ACCEPT_JSON, JSON], message).await;
        assert_eq!(reply.status, 405, "{message}");
        assert!(reply.header("allow").unwrap().contains("POST"));
    }
    assert_eq!(raw.ask("DELETE", "/", &[], "").await.status, 405);
    assert_eq!(site.server.connections(), 1, "no session was opened");
    let mut client = site.open().await;
    for accept in ["Accept: text/html", "Accept: text/event-stream;q=0"] {
        assert_eq!(client.ask("GET", "/", &[accept], "").await.status, 406);
    }
    let any = ["Accept: */*", "Prefer: wait=0"];
    assert_eq!(client.ask("GET", "/", &any, "").await.status, 204);
    for target in ["/?cursor=x", "/?cursor=-1", "/?cursor="] {
        let reply = client.ask("GET", target, &[ACCEPT_JSON], "").await;
        assert_eq!(reply.status, 400, "{target}");
    }
    for last in ["Last-Event-ID: x", "Last-Event-ID: 99999999999999999999"] {
        let reply = client.ask("GET", "/", &[ACCEPT_EVENTS, last], "").await;
        assert_eq!(reply.status, 400, "{last}");
    }
}

#[tokio::test]
async fn there_are_so_many_sessions_and_no_more() {
    let mut options = Options::default();
    options.sessions = 2;
    let site = Site::with(options, Config::default()).await;
    let (mut one, _other) = (site.open().await, site.open_polling().await);
    let mut raw = site.raw().await;
    assert_eq!(raw.ask("POST", "/", &[JSON], INITIALIZE).await.status, 503);
    for accept in [ACCEPT_JSON, ACCEPT_EVENTS] {
        assert_eq!(raw.ask("GET", "/", &[accept], "").await.status, 503);
    }
    assert_eq!(one.ask("DELETE", "/", &[], "").await.status, 204);
    let reply = raw.ask("POST", "/", &[JSON], INITIALIZE).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn one_caller_has_so_many_sessions_and_no_more() {
    let mut options = Options::default();
    options.sessions_per_caller = 2;
    options.session_timeout = Some(ms(2000));
    options.authorize = Some(Arc::new(|request: &Parts, found: &Extensions| {
        if let Some(name) = request.headers.get("x-user") {
            found.insert(Caller::new(name.to_str().unwrap()));
        }
        Ok(())
    }));
    let site = Site::with(options, Config::default()).await;
    let mut raw = site.raw().await;
    let mut open = async |name: &str| raw.ask("POST", "/", &[JSON, name], INITIALIZE).await;
    for name in ["X-User: ada", "X-User: bob"] {
        let (one, other) = (open(name).await, open(name).await);
        assert_eq!((one.status, other.status), (200, 200));
        assert_eq!(open(name).await.status, 503);
    }
    // Who has no name is known by the address, whatever it says of itself.
    let (mut one, _other) = (site.open().await, site.open_polling().await);
    for name in ["X: y", "Authorization: Bearer new"] {
        assert_eq!(open(name).await.status, 503, "{name}");
    }
    assert_eq!(one.ask("DELETE", "/", &[], "").await.status, 204);
    assert_eq!(open("X: y").await.status, 200);
    assert_eq!(open("X: y").await.status, 503);
    // Those that expire make room too.
    eventually("all have expired", || site.server.connections() <= 4).await;
    assert_eq!(site.open().await.session.len(), 32);
}

#[tokio::test]
async fn a_session_that_nobody_uses_expires() {
    let mut options = Options::default();
    options.session_timeout = Some(ms(1000));
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open().await;
    let peer = site.peer();
    eventually("it is closed", || peer.state().is_closed()).await;
    assert_eq!(client.poll(0).await.status, 404);
    // And again, after there was none.
    let mut client = site.open().await;
    let peer = site.peer();
    eventually("it is closed", || peer.state().is_closed()).await;
    assert_eq!(client.poll(0).await.status, 404);
}

/// By default it lasts for five minutes without a request or a stream.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_used_does_not_expire() {
    let (streams, waits, idle) = (
        Service::open().await,
        Service::open().await,
        Service::open().await,
    );
    let mut events = streams.listen().await.into_body();
    let headers = [("content-type", "application/json")];
    let hold = call(1, "hold", json!([])).to_string();
    let held = waits.ask("POST", "/", &headers, &hold);
    let later = async {
        tokio::time::sleep(Duration::from_secs(700)).await;
        waits.gate.add_permits(1);
    };
    let (held, ()) = tokio::join!(held, later);
    let held: Value = serde_json::from_str(&text(held).await).unwrap();
    assert_eq!(held, ok(1, json!("held")));
    streams.post(&call(2, "add", json!([1, 2]))).await;
    let answer = async {
        loop {
            let frame = events.frame().await.unwrap().unwrap().into_data().unwrap();
            if frame.windows(11).any(|part| part == br#""result":3}"#) {
                return;
            }
        }
    };
    within(answer).await;
    assert!(idle.http.peers().is_empty());
}
