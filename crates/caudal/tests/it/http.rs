//! A router over HTTP: POST, the rules of its statuses, and who is let in.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::sync::Arc;
use std::time::Duration;

use crate::support::wire::{Answer, Wire};
use crate::support::{Log, eventually, within};
use caudal::http::{Allowed, Caller, Http, Options, Parts, Reply, StatusCode};
use caudal::{Config, Context, Extensions, JsonRpcError, Router, Server};
use tokio::sync::Semaphore;

fn router() -> Router {
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("fail", || Err::<(), _>(JsonRpcError::new(7, "no")))
        .method("boom", || -> Result<(), JsonRpcError> { panic!("secret") })
        .method("later", |(ms,): (u64,)| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok("done")
        })
        .method("remote", |cx: Context| {
            Ok(cx.peer().remote().map(str::to_owned))
        })
        .method("back", |cx: Context| async move {
            let answer: i64 = cx.peer().call("add", (1, 2)).await?;
            Ok(answer)
        })
}

async fn serve_with(router: Router, config: Config, options: Options) -> Server {
    caudal::serve("http://127.0.0.1:0/rpc", router)
        .config(config)
        .http(options)
        .await
        .unwrap()
}

async fn serve() -> Server {
    serve_with(router(), Config::default(), Options::default()).await
}

const ADD: &str = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;

async fn post(server: &Server, body: &str) -> Answer {
    Wire::to(server).await.post(body).await
}

async fn ask(server: &Server, verb: &str, head: &str) -> Answer {
    let head = format!("Content-Type: application/json\r\n{head}");
    Wire::to(server).await.request(verb, &head, ADD).await
}

/// A client that sends everything before it reads anything: what it has read when it
/// could send no more, or when the answer was there.
async fn send_all(server: &Server, head: &str, pieces: usize, piece: &str) -> String {
    use std::io::{Read, Write};
    let address = server.endpoint().to_string();
    let address = address.split('/').nth(2).unwrap().to_owned();
    let (head, piece) = (head.to_owned(), piece.to_owned());
    let sending = tokio::task::spawn_blocking(move || {
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        let limit = Some(Duration::from_secs(60));
        socket.set_read_timeout(limit).unwrap();
        socket.set_write_timeout(limit).unwrap();
        socket.write_all(head.as_bytes()).unwrap();
        for _ in 0..pieces {
            if let Err(error) = socket.write_all(piece.as_bytes()) {
                return error.to_string();
            }
        }
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer) {
            Ok(count) => String::from_utf8_lossy(&buffer[..count]).into_owned(),
            Err(error) => error.to_string(),
        }
    });
    sending.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_refused_may_send_everything_before_it_reads_so() {
    const PIECES: usize = 64;
    let mut options = Options::default();
    options.tokens.push("s3cret".into());
    let server = serve_with(router(), Config::default(), options).await;
    let piece = "x".repeat(1 << 20);
    let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
    let head = "Host: localhost\r\nContent-Type: application/json\r\n";
    let known = format!("{head}Authorization: Bearer s3cret\r\n");
    let length = format!("Content-Length: {}\r\n", PIECES << 20);
    let chunked = "Transfer-Encoding: chunked\r\n".to_owned();
    for (status, path, head, size, piece) in [
        (413, "rpc", &known, &length, &piece),
        (413, "rpc", &known, &chunked, &chunk),
        (401, "rpc", &head.to_owned(), &length, &piece),
        (404, "other", &known, &length, &piece),
    ] {
        let head = format!("POST /{path} HTTP/1.1\r\n{head}{size}\r\n");
        let read = send_all(&server, &head, PIECES, piece).await;
        assert!(read.starts_with(&format!("HTTP/1.1 {status}")), "{read}");
    }
    // There are limits to that.
    let length = format!("Content-Length: {}\r\n", 1_u64 << 40);
    let head = format!("POST /rpc HTTP/1.1\r\n{known}{length}\r\n");
    let read = send_all(&server, &head, 4 * PIECES, &piece).await;
    assert!(!read.starts_with("HTTP/1.1"), "{read}");
}

#[tokio::test]
async fn a_refused_body_that_came_to_its_end_leaves_the_connection_as_it_was() {
    let mut config = Config::default();
    config.policy.max_message = 100_000;
    let server = serve_with(router(), config, Options::default()).await;
    let mut wire = Wire::to(&server).await;
    let long = " ".repeat(500_000);
    let refused = wire.post(&long).await;
    assert_eq!(refused.status, 413);
    assert_eq!(wire.post(ADD).await.json()["result"], 3);
    // Who asks whether to send is told not to, and sends nothing.
    let head = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let expect = "Expect: 100-continue\r\nContent-Length: 200000\r\n\r\n";
    wire.send(&format!("{head}{expect}")).await;
    assert_eq!(wire.answer().await.status, 413);
    assert_eq!(wire.end().await, "");
}

/// Proves: J25
#[tokio::test]
async fn every_answer_is_200_also_an_error() {
    let server = serve().await;
    let mut wire = Wire::to(&server).await;
    let cases = [
        (ADD, r#"{"jsonrpc":"2.0","id":1,"result":3}"#),
        ("", r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"#),
        ("{", r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"#),
        (
            "[]",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"x","method":"nothing"}"#,
            r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"#,
        ),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]},{"jsonrpc":"2.0","method":"add"},{"jsonrpc":"2.0","id":2,"method":"later","params":[1]}]"#,
            r#"[{"jsonrpc":"2.0","id":1,"result":3},{"jsonrpc":"2.0","id":2,"result":"done"}]"#,
        ),
    ];
    for (body, expected) in cases {
        let answer = wire.post(body).await;
        assert_eq!(answer.status, 200, "{body}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert!(answer.body.starts_with(expected), "{body}: {answer:?}");
    }
    let answer = wire
        .post(r#"{"jsonrpc":"2.0","id":1,"method":"boom"}"#)
        .await;
    assert_eq!(answer.json()["error"]["code"], -32603);
    assert!(!answer.body.contains("secret"));
}

/// Proves: J26
#[tokio::test]
async fn notifications_alone_get_204() {
    let server = serve().await;
    let mut wire = Wire::to(&server).await;
    let note = r#"{"jsonrpc":"2.0","method":"add","params":[1,2]}"#;
    for body in [note, &format!("[{note},{note}]")] {
        let answer = wire.post(body).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""));
        assert_eq!(answer.header("content-type"), None);
    }
    assert_eq!(wire.post(ADD).await.status, 200, "the connection goes on");
}

/// Proves: J27
#[tokio::test]
async fn the_application_chooses_the_status() {
    let mut options = Options::default();
    options.status = Some(Arc::new(|reply: Reply<'_>| match reply.error_code() {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(_) => StatusCode::INTERNAL_SERVER_ERROR,
        None if reply.is_empty() => StatusCode::ACCEPTED,
        None if reply.is_batch() => StatusCode::MULTI_STATUS,
        None => StatusCode::OK,
    }));
    let server = serve_with(router(), Config::default(), options).await;
    let cases = [
        (ADD, 200),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#, 404),
        (r#"{"jsonrpc":"2.0","id":1,"method":"fail"}"#, 500),
        (r#"{"jsonrpc":"2.0","method":"add"}"#, 202),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"fail"}]"#, 207),
    ];
    for (body, status) in cases {
        assert_eq!(post(&server, body).await.status, status, "{body}");
    }
}

/// Proves: J27
#[tokio::test]
async fn the_application_may_keep_or_change_413() {
    let (mut config, mut options) = (Config::default(), Options::default());
    config.policy.max_message = ADD.len();
    let large = format!("{ADD} ");
    options.status = Some(Arc::new(|reply: Reply<'_>| reply.default_status()));
    let server = serve_with(router(), config.clone(), options.clone()).await;
    for (body, status) in [
        (ADD, 200),
        (&ADD.replace(r#""id":1,"#, ""), 204),
        (&large, 413),
    ] {
        assert_eq!(post(&server, body).await.status, status, "{body}");
    }
    options.status = Some(Arc::new(|_: Reply<'_>| StatusCode::OK));
    let server = serve_with(router(), config, options).await;
    let answer = post(&server, &large).await;
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_i64()),
        (200, Some(-32600))
    );
}

#[tokio::test]
async fn other_verbs_paths_and_types_are_refused() {
    let server = serve().await;
    for verb in ["PATCH", "HEAD", "TRACE"] {
        let mut wire = Wire::to(&server).await;
        wire.send(&format!("{verb} /rpc HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .await;
        let answer = wire.head().await;
        assert_eq!(answer.status, 405, "{verb}");
        assert!(answer.header("allow").unwrap().contains("POST"));
    }
    let mut wire = Wire::to(&server).await;
    wire.send("POST /other HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        .await;
    assert_eq!(wire.answer().await.status, 404);
    let kinds = [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("application/json;CharSet=\"UTF-8\"", 200),
        ("application/json; profile=\"a;charset=utf-16\"", 200),
        ("application/json; charset=utf-16", 415),
        ("application/json; CHARSET=\"UTF-16\"", 415),
        ("application/json ;charset=iso-8859-1; profile=x", 415),
        ("application/json-rpc; charset=", 415),
        ("application/json-rpc", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/jsonx", 415),
    ];
    for (kind, status) in kinds {
        let head = format!("Content-Type: {kind}\r\n");
        let answer = Wire::to(&server).await.request("POST", &head, ADD).await;
        assert_eq!(answer.status, status, "{kind}");
    }
    let answer = Wire::to(&server).await.request("POST", "", ADD).await;
    assert_eq!(answer.status, 415, "a page may send this without asking");
    for second in ["application/json", "text/plain"] {
        let head = format!("Content-Type: application/json\r\nContent-Type: {second}\r\n");
        let answer = Wire::to(&server).await.request("POST", &head, ADD).await;
        assert_eq!(answer.status, 415, "{second}");
    }
    for (encoding, status) in [("identity", 200), ("gzip", 415), ("x-y", 415)] {
        let head = format!("Content-Type: application/json\r\nContent-Encoding: {encoding}\r\n");
        let answer = Wire::to(&server).await.request("POST", &head, ADD).await;
        assert_eq!(answer.status, status, "{encoding}");
    }
}

#[tokio::test]
async fn options_that_is_no_preflight_tells_the_verbs() {
    let server = serve().await;
    let mut wire = Wire::to(&server).await;
    for more in [
        "",
        "Mcp-Session-Id: none\r\n",
        "Origin: http://localhost\r\n",
    ] {
        wire.send(&format!(
            "OPTIONS /rpc HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"
        ))
        .await;
        let answer = wire.answer().await;
        assert_eq!((answer.status, &*answer.body), (204, ""), "{more}");
        let allow = answer.header("allow").unwrap();
        assert!(
            allow.contains("POST") && allow.contains("OPTIONS"),
            "{allow}"
        );
        let shared = answer.header("access-control-allow-origin");
        assert_eq!(shared.is_some(), more.contains("Origin"), "{more}");
    }
    assert_eq!(wire.post(ADD).await.status, 200, "the connection goes on");
}

/// Proves: J28
#[tokio::test]
async fn a_body_over_the_limit_is_refused_while_it_is_read() {
    let mut config = Config::default();
    config.policy.max_message = 100;
    let server = serve_with(router(), config, Options::default()).await;
    let fits = format!("{ADD}{}", " ".repeat(100 - ADD.len()));
    assert_eq!(post(&server, &fits).await.json()["result"], 3);
    let head = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    // By its own word, before any of it has come,
    let mut wire = Wire::to(&server).await;
    wire.send(&format!("{head}Content-Length: 101\r\n\r\n"))
        .await;
    let said = wire.answer().await;
    // and without any word, as it comes.
    let mut wire = Wire::to(&server).await;
    wire.send(&format!("{head}Transfer-Encoding: chunked\r\n\r\n"))
        .await;
    wire.send(&format!("65\r\n{fits} \r\n")).await;
    let found = wire.answer().await;
    for answer in [said, found] {
        assert_eq!(answer.status, 413);
        assert_eq!(answer.json()["error"]["code"], -32600);
        assert_eq!(
            answer.json()["error"]["message"],
            "Request payload too large"
        );
        assert!(answer.json()["id"].is_null());
    }
    let mut wire = Wire::to(&server).await;
    wire.send(&format!("{head}Transfer-Encoding: chunked\r\n\r\n"))
        .await;
    wire.send(&format!("32\r\n{}\r\n", &fits[..50])).await;
    wire.send(&format!("32\r\n{}\r\n0\r\n\r\n", &fits[50..]))
        .await;
    assert_eq!(wire.answer().await.json()["result"], 3);
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let mut options = Options::default();
    options.hosts = Allowed::of(["api.example.com", "other.example.com:8443"]);
    options.origins = Allowed::of(["https://app.example.com"]);
    let server = serve_with(router(), Config::default(), options).await;
    let hosts = [
        ("localhost", 200),
        ("LOCALHOST:9", 200),
        ("127.0.0.1:4100", 200),
        ("[::1]:80", 200),
        ("api.example.com", 200),
        ("api.example.com:1", 200),
        ("other.example.com:8443", 200),
        ("other.example.com", 403),
        ("evil.example.com", 403),
        ("localhost.evil.com", 403),
        ("127.0.0.1.evil.com", 403),
        ("evil@localhost", 400),
        ("localhost:", 200),
        ("localhost:65535", 200),
        ("localhost:abc", 400),
        ("localhost:+1", 400),
        ("127.0.0.1:99999", 400),
        ("[::1]:65536", 400),
        ("[::1]x", 400),
        ("localhost:1:2", 400),
        (":80", 400),
        ("evil.example.com:abc", 400),
    ];
    for (host, status) in hosts {
        let answer = ask(&server, "POST", &format!("Host: {host}\r\n")).await;
        assert_eq!(answer.status, status, "{host}: {answer:?}");
    }
    for two in [
        "Host: localhost\r\nHost: evil.example.com\r\n",
        "Host: localhost\r\nHost: localhost\r\n",
        "Origin: http://localhost\r\nOrigin: https://evil.example.com\r\n",
        "Origin: https://evil.example.com\r\nOrigin: http://localhost\r\n",
    ] {
        assert_eq!(ask(&server, "POST", two).await.status, 400, "{two}");
    }
    // The URL of a proxy's request is no way around.
    let mut wire = Wire::to(&server).await;
    let two = "Host: localhost\r\nHost: evil.example.com\r\n";
    wire.send(&format!(
        "OPTIONS http://localhost/rpc HTTP/1.1\r\n{two}\r\n"
    ))
    .await;
    assert_eq!(wire.answer().await.status, 400);
    let origins = [
        ("https://app.example.com", 200),
        ("http://localhost", 200),
        ("http://localhost:3000", 403),
        ("https://evil.example.com", 403),
        ("https://app.example.com.evil.com", 403),
        ("null", 403),
    ];
    for (origin, status) in origins {
        for verb in ["POST", "GET", "DELETE", "PUT"] {
            let answer = ask(&server, verb, &format!("Origin: {origin}\r\n")).await;
            let allowed = answer.header("access-control-allow-origin");
            if status == 403 {
                assert_eq!((answer.status, allowed), (403, None), "{verb} {origin}");
            } else {
                assert_ne!(answer.status, 403, "{verb} {origin}");
                assert_eq!(allowed, Some(origin));
            }
        }
    }
}

#[tokio::test]
async fn a_foreign_host_is_refused_whatever_is_asked() {
    let server = serve().await;
    let page = "Origin: http://evil.example.com\r\nAccess-Control-Request-Method: POST\r\n";
    for verb in ["GET", "DELETE", "PUT", "OPTIONS", "PATCH"] {
        // The page of such a host says that it is at home.
        for more in ["", "Accept: text/event-stream\r\n", page] {
            let answer = ask(&server, verb, &format!("Host: evil.example.com\r\n{more}")).await;
            let allowed = answer.header("access-control-allow-origin");
            assert_eq!((answer.status, allowed), (403, None), "{verb} {more}");
            assert_eq!(answer.header("mcp-session-id"), None);
        }
        let answer = ask(&server, verb, "Host: localhost\r\n").await;
        assert_ne!(answer.status, 403, "{verb}");
    }
}

#[tokio::test]
async fn a_page_of_another_site_cannot_ask_without_an_origin() {
    let server = serve().await;
    for (site, refused) in [
        ("cross-site", true),
        ("same-site", true),
        ("same-origin", false),
        ("none", false),
    ] {
        let head = format!("Sec-Fetch-Site: {site}\r\nAccept: text/event-stream\r\n");
        for verb in ["GET", "DELETE", "PUT"] {
            let mut wire = Wire::to(&server).await;
            wire.send(&format!(
                "{verb} /rpc HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: 0\r\n\r\n"
            ))
            .await;
            assert_eq!(wire.head().await.status == 403, refused, "{verb} {site}");
        }
    }
}

#[tokio::test]
async fn an_answer_has_no_header_of_its_request() {
    let server = serve().await;
    let mut wire = Wire::to(&server).await;
    for many in [1, 90] {
        let own: String = (0..many).map(|n| format!("X-Own-{n}: a\r\n")).collect();
        let head = format!("Content-Type: application/json\r\n{own}");
        let answer = wire.request("POST", &head, ADD).await;
        assert_eq!(answer.status, 200);
        let mut names: Vec<_> = answer.headers.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-length", "content-type", "date"]);
    }
}

#[tokio::test]
async fn what_one_post_leaves_the_next_does_not_find() {
    let router = Router::new()
        .method("login", |cx: Context| {
            cx.peer().extensions().insert(Caller::new("ada"));
            Ok(())
        })
        .method("who", |cx: Context| {
            let caller = cx.peer().extensions().get::<Caller>();
            Ok(caller.map(|caller| caller.name().to_owned()))
        });
    let server = serve_with(router, Config::default(), Options::default()).await;
    let mut wire = Wire::to(&server).await;
    let call = |method| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
    assert_eq!(wire.post(&call("login")).await.status, 200);
    assert!(wire.post(&call("who")).await.json()["result"].is_null());
}

#[tokio::test]
async fn a_mounted_service_waits_for_what_it_has_accepted() {
    let http = Http::new(router());
    let slow = r#"{"jsonrpc":"2.0","id":1,"method":"later","params":[200]}"#;
    let asked = http.clone();
    let answer = tokio::spawn(async move { asked.answer(http_request(slow)).await.status() });
    eventually("it happens", || http.stats().in_flight == 1).await;
    http.shutdown(Duration::from_secs(30)).await;
    assert_eq!(http.stats().in_flight, 0);
    assert_eq!(answer.await.unwrap(), StatusCode::OK);
    let late = http.answer(http_request(ADD)).await;
    assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_preflight_is_answered_for_allowed_origins_only() {
    let mut options = Options::default();
    options.origins = Allowed::of(["https://app.example.com"]);
    options.tokens.push("t".into());
    let server = serve_with(router(), Config::default(), options).await;
    let asks =
        |origin: &str| format!("Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\n");
    let good = ask(&server, "OPTIONS", &asks("https://app.example.com")).await;
    assert_eq!(good.status, 204);
    assert_eq!(
        good.header("access-control-allow-origin"),
        Some("https://app.example.com")
    );
    assert!(
        good.header("access-control-allow-methods")
            .unwrap()
            .contains("POST")
    );
    let headers = good.header("access-control-allow-headers").unwrap();
    assert!(headers.contains("content-type") && headers.contains("mcp-session-id"));
    let bad = ask(&server, "OPTIONS", &asks("https://evil.example.com")).await;
    assert_eq!(
        (bad.status, bad.header("access-control-allow-origin")),
        (403, None)
    );
}

#[tokio::test]
async fn a_page_that_is_let_in_may_send_the_headers_it_asks_for() {
    let mut options = Options::default();
    options.origins = Allowed::of(["https://app.example.com"]);
    let server = serve_with(router(), Config::default(), options).await;
    let asks = |origin: &str| {
        format!(
            "Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\n\
             Access-Control-Request-Headers: content-type,x-tenant\r\n"
        )
    };
    let good = ask(&server, "OPTIONS", &asks("https://app.example.com")).await;
    let allowed = good.header("access-control-allow-headers");
    assert_eq!(allowed, Some("content-type,x-tenant"));
    let vary = good.headers.iter().filter(|(name, _)| name == "vary");
    let vary: Vec<_> = vary.map(|(_, value)| &**value).collect();
    assert_eq!(vary, ["access-control-request-headers", "origin"]);
    let bad = ask(&server, "OPTIONS", &asks("https://evil.example.com")).await;
    assert_eq!(bad.header("access-control-allow-headers"), None);
}

#[tokio::test]
async fn only_a_page_of_a_listed_origin_may_send_credentials() {
    let listed = Allowed::of(["https://app.example.com"]);
    let page = "Origin: https://app.example.com\r\n";
    let asks = format!("{page}Access-Control-Request-Method: POST\r\n");
    let own = "Origin: http://localhost\r\n".to_owned();
    for (origins, allowed, head, expected) in [
        (&listed, true, page, Some("true")),
        (&listed, true, &*asks, Some("true")),
        (&listed, true, &*own, None),
        (&listed, false, page, None),
        (&listed, false, &*asks, None),
        (&Allowed::Any, true, page, None),
        (&Allowed::Any, true, &*asks, None),
    ] {
        let mut options = Options::default();
        options.origins = origins.clone();
        options.credentials = allowed;
        let server = serve_with(router(), Config::default(), options).await;
        let verb = if head == asks { "OPTIONS" } else { "POST" };
        let answer = ask(&server, verb, head).await;
        assert!(answer.header("access-control-allow-origin").is_some());
        let credentials = answer.header("access-control-allow-credentials");
        assert_eq!(credentials, expected, "{origins:?} {allowed} {head}");
    }
}

#[tokio::test]
async fn a_token_or_the_application_lets_callers_in() {
    let mut options = Options::default();
    options.tokens = vec!["one".into(), "two".into()];
    let server = serve_with(router(), Config::default(), options).await;
    for (head, status) in [
        ("", 401),
        ("Authorization: Bearer one\r\n", 200),
        ("Authorization: bearer two\r\n", 200),
        ("Authorization: Bearer on\r\n", 401),
        ("Authorization: Bearer one1\r\n", 401),
        ("Authorization: Bearer \r\n", 401),
        ("Authorization: Basic one\r\n", 401),
    ] {
        let answer = ask(&server, "POST", head).await;
        assert_eq!(answer.status, status, "{head}");
        assert_eq!(answer.header("www-authenticate").is_some(), status == 401);
    }
    let mut options = Options::default();
    options.authorize = Some(Arc::new(|request: &Parts, found: &Extensions| {
        let key = request
            .headers
            .get("x-key")
            .ok_or(StatusCode::UNAUTHORIZED)?;
        match key.to_str() {
            Ok("mallory") | Err(_) => Err(StatusCode::FORBIDDEN),
            Ok(name) => {
                found.insert(Caller::new(name));
                Ok(())
            }
        }
    }));
    let who = Router::new().method("add", |cx: Context, _: (i64, i64)| {
        Ok(cx
            .peer()
            .extensions()
            .get::<Caller>()
            .map(|caller| caller.name().to_owned()))
    });
    let server = serve_with(who, Config::default(), options).await;
    assert_eq!(ask(&server, "POST", "").await.status, 401);
    assert_eq!(ask(&server, "POST", "X-Key: mallory\r\n").await.status, 403);
    for name in ["ada", "bob"] {
        let answer = ask(&server, "POST", &format!("X-Key: {name}\r\n")).await;
        assert_eq!(answer.json()["result"], name);
    }
}

#[tokio::test]
async fn a_handler_cannot_call_back_on_a_single_post() {
    let server = serve().await;
    let answer = post(&server, r#"{"jsonrpc":"2.0","id":1,"method":"back"}"#).await;
    let error = answer.json()["error"].clone();
    assert_eq!(error["code"], -32603);
    let reason = error["data"]["reason"].as_str().unwrap();
    assert!(reason.contains("single POST"), "{reason}");
    let reply = Router::new().method("back", |cx: Context| async move {
        use std::error::Error as _;
        let error = cx.peer().notify("hello", ()).await.unwrap_err();
        let reason = error.source();
        Ok(format!(
            "{error}: {}",
            reason.map_or(String::new(), ToString::to_string)
        ))
    });
    let server = serve_with(reply, Config::default(), Options::default()).await;
    let answer = post(&server, r#"{"jsonrpc":"2.0","id":1,"method":"back"}"#).await;
    let text = answer.json()["result"].as_str().unwrap().to_owned();
    assert!(text.contains("single POST"), "{text}");
    assert!(server.peers().is_empty());
}

#[tokio::test]
async fn handlers_know_who_is_there() {
    let server = serve().await;
    let mut wire = Wire::to(&server).await;
    let local = wire.0.get_ref().local_addr().unwrap().to_string();
    let answer = wire
        .post(r#"{"jsonrpc":"2.0","id":1,"method":"remote"}"#)
        .await;
    assert_eq!(answer.json()["result"], local);
}

/// Sets a flag when it is dropped.
struct Dropped(Log);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_handlers() {
    let log = Log::default();
    let stuck = log.clone();
    let told = log.clone();
    let router = Router::new().method("stuck", move || {
        let dropped = Dropped(stuck.clone());
        stuck.add("started");
        async move {
            std::future::pending::<()>().await;
            drop(dropped);
            Ok(())
        }
    });
    let finishing = caudal::Method::new(move |cx: Context| {
        let told = told.clone();
        async move {
            told.add("started");
            cx.cancelled().await;
            told.add("finished");
            Ok(())
        }
    });
    let router = router.method("finish", finishing.finish_when_cancelled());
    let server = serve_with(router, Config::default(), Options::default()).await;
    for (method, last) in [("stuck", "dropped"), ("finish", "finished")] {
        let mut wire = Wire::to(&server).await;
        let body = format!(r#"[{{"jsonrpc":"2.0","id":1,"method":"{method}"}}]"#);
        let length = body.len();
        wire.send(&format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await;
        eventually("it happens", || log.len() == 1).await;
        drop(wire);
        eventually("it happens", || log.len() == 2).await;
        assert_eq!(log.take(), ["started", last]);
        eventually("it happens", || {
            server.stats().in_flight == 0 && server.connections() == 0
        })
        .await;
    }
}

#[tokio::test]
async fn handlers_that_outlive_their_caller_are_bounded() {
    let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (held, counted) = (Arc::clone(&gate), Arc::clone(&running));
    let finishing = caudal::Method::new(move || {
        let (gate, running) = (Arc::clone(&held), Arc::clone(&counted));
        async move {
            running.add_permits(1);
            gate.acquire().await.unwrap().forget();
            Ok("finished")
        }
    });
    let router = router().method("finish", finishing.finish_when_cancelled());
    let mut config = Config::default();
    config.in_flight = 2;
    let server = serve_with(router, config, Options::default()).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"finish"}"#;
    let length = call.len();
    for gone in 1..=2 {
        let mut wire = Wire::to(&server).await;
        wire.send(&format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{call}"
        ))
        .await;
        eventually("it happens", || running.available_permits() == gone).await;
        drop(wire);
        eventually("it happens", || server.connections() == 0).await;
    }
    for _ in 0..2 {
        let answer = post(&server, call).await.json();
        assert_eq!(answer["error"]["code"], -32000);
        // What ends with its caller needs no such room.
        assert_eq!(post(&server, ADD).await.json()["result"], 3);
    }
    let told = r#"{"jsonrpc":"2.0","method":"finish"}"#;
    assert_eq!(post(&server, told).await.status, 204);
    assert_eq!(server.stats().dropped, 1);
    assert_eq!(running.available_permits(), 2);
    gate.add_permits(2);
    eventually("it happens", || gate.available_permits() == 0).await;
    gate.add_permits(1);
    assert_eq!(post(&server, call).await.json()["result"], "finished");
}

#[tokio::test]
async fn too_many_at_once_are_told_so() {
    let mut config = Config::default();
    config.in_flight = 2;
    let server = serve_with(router(), config, Options::default()).await;
    let call = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"later","params":[50]}}"#);
    let batch = format!("[{},{},{}]", call(1), call(2), call(3));
    let answer = post(&server, &batch).await.json();
    assert_eq!(answer[0]["result"], "done");
    assert_eq!(answer[1]["result"], "done");
    assert_eq!(answer[2]["error"]["code"], -32000);
}

#[tokio::test]
async fn all_posts_of_a_mounted_service_share_its_limit() {
    let mut config = Config::default();
    config.in_flight = 2;
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let router = router().method("hold", move || {
        let gate = Arc::clone(&opened);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok("held")
        }
    });
    let http = Http::with(router, config, Options::default());
    let hold = r#"{"jsonrpc":"2.0","id":1,"method":"hold"}"#;
    let held: Vec<_> = (0..2)
        .map(|_| {
            let http = http.clone();
            tokio::spawn(async move { answered(&http, hold).await })
        })
        .collect();
    eventually("it happens", || http.stats().in_flight == 2).await;
    assert_eq!(answered(&http, ADD).await["error"]["code"], -32000);
    gate.add_permits(2);
    for held in held {
        assert_eq!(held.await.unwrap()["result"], "held");
    }
    assert_eq!(answered(&http, ADD).await["result"], 3);
}

async fn answered(http: &Http, body: &'static str) -> serde_json::Value {
    use http_body_util::BodyExt as _;
    let answer = http.answer(http_request(body)).await.into_body();
    serde_json::from_slice(&answer.collect().await.unwrap().to_bytes()).unwrap()
}

/// A server with so many connections, or so many of an address.
async fn bounded(all: usize, each: usize) -> Server {
    let serve = caudal::serve("http://127.0.0.1:0/rpc", router())
        .limits(caudal::ServerLimits::default().connections(all))
        .http(Options::default().connections_per_address(each));
    serve.await.unwrap()
}

#[tokio::test]
async fn connections_are_bounded_in_all_and_for_each_address() {
    for (all, each, says) in [
        (10_000, 2, "connections from one address are limited to 2;"),
        (2, 1024, "connections are limited to 2 in all;"),
    ] {
        let server = bounded(all, each).await;
        let mut first = Wire::to(&server).await;
        let mut second = Wire::to(&server).await;
        assert_eq!(first.post(ADD).await.status, 200);
        assert_eq!(second.post(ADD).await.status, 200);
        let mut third = Wire::to(&server).await;
        let answer = third.post(ADD).await;
        assert_eq!(answer.status, 503);
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(answer.body.contains(says), "{}", answer.body);
        assert_eq!(third.end().await, "");
        drop(first);
        eventually("it happens", || server.connections() == 1).await;
        assert_eq!(Wire::to(&server).await.post(ADD).await.status, 200);
    }
}

#[tokio::test]
async fn whoever_is_one_too_many_reads_why_and_sees_no_reset() {
    let server = bounded(10_000, 1).await;
    let mut first = Wire::to(&server).await;
    assert_eq!(first.post(ADD).await.status, 200);
    // Who says nothing is told all the same,
    let told = Wire::to(&server).await.end().await;
    assert!(told.starts_with("HTTP/1.1 503 "), "{told:?}");
    // and so is who sends much before it reads.
    let length = 1 << 20;
    let head = format!("POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    let told = send_all(&server, &head, 1, &"x".repeat(length)).await;
    assert!(told.starts_with("HTTP/1.1 503 "), "{told:?}");
    assert_eq!(first.post(ADD).await.status, 200);
    assert_eq!((server.connections(), server.accepted()), (1, 1));
}

#[tokio::test]
async fn refusals_are_bounded_too() {
    const MANY: usize = 200;
    let server = bounded(10_000, 1).await;
    let mut first = Wire::to(&server).await;
    assert_eq!(first.post(ADD).await.status, 200);
    let mut others = Vec::new();
    for _ in 0..MANY {
        others.push(Wire::to(&server).await);
    }
    let mut told = 0;
    for mut other in others {
        told += usize::from(other.end().await.starts_with("HTTP/1.1 503 "));
    }
    assert!((1..MANY).contains(&told), "{told}");
    assert_eq!(first.post(ADD).await.status, 200);
}

#[tokio::test]
async fn slow_heads_slow_bodies_and_idle_connections_end() {
    let mut options = Options::default();
    options.header_timeout = Duration::from_millis(200);
    options.idle_timeout = Duration::from_millis(300);
    let mut config = Config::default();
    config.message_timeout = Some(Duration::from_millis(200));
    let server = serve_with(router(), config, options).await;
    // Nothing at all, half a head, drop by drop.
    assert!(!Wire::to(&server).await.end().await.contains("200 OK"));
    let mut wire = Wire::to(&server).await;
    wire.send("POST /rpc HTTP/1.1\r\nHost: local").await;
    assert!(!wire.end().await.contains("200 OK"));
    let mut wire = Wire::to(&server).await;
    let dripping = async {
        for _ in 0..10_000 {
            use tokio::io::AsyncWriteExt as _;
            if wire.0.write_all(b"X").await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it may drip for ever");
    };
    within(dripping).await;
    let mut wire = Wire::to(&server).await;
    wire.send("POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{").await;
    assert_eq!(wire.answer().await.status, 408);
    let mut wire = Wire::to(&server).await;
    assert_eq!(wire.post(ADD).await.status, 200);
    assert_eq!(wire.end().await, "", "it was idle for too long");
    // A handler may take its time.
    let slow = r#"{"jsonrpc":"2.0","id":1,"method":"later","params":[1000]}"#;
    let mut wire = Wire::to(&server).await;
    assert_eq!(wire.post(slow).await.json()["result"], "done");
    assert_eq!(wire.end().await, "", "it was idle after that");
    eventually("it happens", || server.connections() == 0).await;
}

#[tokio::test]
async fn shutdown_answers_what_was_accepted() {
    let server = serve().await;
    let mut wire = Wire::to(&server).await;
    let mut idle = Wire::to(&server).await;
    assert_eq!(idle.post(ADD).await.status, 200);
    let slow = r#"{"jsonrpc":"2.0","id":1,"method":"later","params":[300]}"#;
    let asked = tokio::spawn(async move { (wire.post(slow).await, wire) });
    eventually("it happens", || server.stats().in_flight == 1).await;
    server.shutdown(Duration::from_secs(30)).await;
    let (answer, mut wire) = asked.await.unwrap();
    assert_eq!(answer.json()["result"], "done");
    assert_eq!(wire.end().await, "");
    assert_eq!(idle.end().await, "");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn shutdown_does_not_wait_longer_than_asked() {
    let server = serve().await;
    let mut wire = Wire::to(&server).await;
    let slow = r#"{"jsonrpc":"2.0","id":1,"method":"later","params":[3600000]}"#;
    let length = slow.len();
    wire.send(&format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{slow}"
    ))
    .await;
    eventually("it happens", || server.stats().in_flight == 1).await;
    server.shutdown(Duration::from_millis(50)).await;
    wire.end().await;
}

#[tokio::test]
async fn a_service_answers_without_any_server() {
    use caudal::middleware::Service as _;
    let mut http = Http::new(router());
    let request = http_request(ADD);
    let response = http.call(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(http.stats().requests_served, 1);
    http.shutdown(Duration::from_secs(1)).await;
}

fn http_request(body: &'static str) -> http::Request<http_body_util::Full<bytes::Bytes>> {
    let request = http::Request::post("/rpc")
        .header("host", "localhost")
        .header("content-type", "application/json");
    request
        .body(http_body_util::Full::new(body.into()))
        .unwrap()
}
