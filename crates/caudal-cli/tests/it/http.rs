//! `caudal call` over HTTP, WebSocket, server-sent events and long polling.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use crate::support::{Served, caudal, finish, nobody, paste, path, run};

/// The ways to speak to a server at `host:port/path`.
fn ways(rest: &str) -> [String; 4] {
    [
        format!("http://{rest}"),
        format!("ws://{rest}"),
        format!("http://{rest}#sse"),
        format!("http://{rest}#poll"),
    ]
}

fn served(more: &[&str]) -> (Served, [String; 4]) {
    let server = Served::on("http://127.0.0.1:0/rpc", more);
    let ways = ways(server.endpoint.strip_prefix("http://").unwrap());
    (server, ways)
}

/// An HTTP server that answers each request with these bytes; what it was sent is
/// returned in the end.
fn answering(response: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&request).contains("\r\n\r\n") {
            let read = stream.read(&mut buffer).unwrap();
            request.extend_from_slice(&buffer[..read]);
            if read == 0 {
                break;
            }
        }
        stream.write_all(response.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut request);
        String::from_utf8_lossy(&request).into_owned()
    });
    (address, server)
}

/// A server that speaks before it is spoken to, and listens to nothing.
fn greeting(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The other side may have gone.
            let _ = stream.write_all(text.as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    address
}

#[test]
fn every_way_gives_the_result() {
    let (_server, ways) = served(&[]);
    for to in &ways {
        run(&["call", to, "add", "[1,2]"]).ends(0).prints("3\n");
        let exact = "[123456789012345678901234567890,1.50,1E400]";
        run(&["call", to, "echo", exact])
            .ends(0)
            .prints(&format!("{exact}\n"));
        run(&["call", to, "fail"])
            .ends(5)
            .prints("")
            .complains(&["{\"code\":1001"]);
        run(&["call", to, "update", "--notify"]).ends(0).prints("");
        let slow = ["call", to, "slow", r#"{"ms":600000}"#, "--timeout", "500ms"];
        run(&slow).ends(2).prints("");
    }
}

#[test]
fn every_way_back_carries_notifications() {
    let (_server, ways) = served(&[]);
    let ticks = r#"{"every_ms":1,"count":3,"wait":true}"#;
    for to in &ways[1..] {
        let outcome = run(&["call", to, "ticks.start", ticks, "--verbose"]);
        outcome.ends(0).prints("{\"ticks\":3}\n");
        let shown = outcome.stderr.lines();
        assert_eq!(shown.filter(|line| line.contains("\"tick\"")).count(), 3);
    }
    run(&["call", &ways[0], "ticks.start", ticks])
        .ends(5)
        .complains(&["1002"]);
}

#[test]
fn what_it_says_works_when_pasted() {
    for more in [&[][..], &["--token", "it's$HOME"]] {
        let (server, _) = served(more);
        let tries = server.tries();
        assert_eq!(tries.len(), 5);
        paste(&tries[0]).ends(0).prints("3\n");
        for line in &tries[1..4] {
            paste(line).ends(0).prints("{\"ticks\":3}\n");
        }
    }
}

#[test]
fn whoever_is_not_let_in_ends_with_3() {
    let (_server, ways) = served(&["--token", "s3cret"]);
    for to in &ways {
        let add = ["call", to, "add", "[1,2]"];
        let reason = "a bearer token is needed";
        run(&add).ends(3).prints("").complains(&["--token", reason]);
        let wrong = run(&[&add[..], &["--token", "s3cre7"]].concat());
        wrong.ends(3).prints("").complains(&["the right token"]);
        assert!(!wrong.stderr.contains("s3cre7"), "{wrong:?}");
        run(&[&add[..], &["--token", "s3cret"]].concat())
            .ends(0)
            .prints("3\n");
        let header = "Authorization: Bearer s3cret";
        run(&[&add[..], &["--header", header]].concat())
            .ends(0)
            .prints("3\n");
        let mut command = caudal(&add);
        command.env("CAUDAL_TOKEN", "s3cret");
        finish(command, "").ends(0).prints("3\n");
        let mut command = caudal(&[&add[..], &["--header", header]].concat());
        command.env("CAUDAL_TOKEN", "wrong");
        finish(command, "").ends(0).prints("3\n");
    }
}

#[test]
fn a_host_that_is_not_served_ends_with_3_and_says_so() {
    for (more, served_here) in [(&[][..], false), (&["--allow-host", "127.1"], true)] {
        let (server, _) = served(more);
        // The same address, under a name that nobody has listed.
        let (_, port) = server.address().rsplit_once(':').unwrap();
        for to in ways(&format!("127.1:{port}/rpc")) {
            for rest in [&["add", "[1,2]"][..], &["update", "--notify"]] {
                let outcome = run(&[&["call", &to][..], rest].concat());
                if served_here {
                    outcome.ends(0);
                    continue;
                }
                let parts = [
                    "403",
                    "this Host is not served here",
                    "`hosts` list",
                    "--allow-host",
                ];
                outcome.ends(3).prints("").complains(&parts);
                // No token would help.
                assert!(!outcome.stderr.contains("--token"), "{outcome:?}");
            }
        }
    }
    run(&[
        "serve",
        "--listen",
        "tcp://127.0.0.1:0",
        "--allow-host",
        "a",
    ])
    .ends(1)
    .complains(&["--allow-host"]);
}

#[test]
fn an_origin_that_is_not_let_in_is_to_be_left_out() {
    let (_server, ways_in) = served(&[]);
    let origin = ["--header", "Origin: https://evil.example"];
    for to in &ways_in {
        for rest in [&["add", "[1,2]"][..], &["update", "--notify"]] {
            let outcome = run(&[&["call", to][..], rest, &origin].concat());
            outcome.ends(3).prints("").complains(&[
                "403",
                "this Origin",
                "leave the Origin header out",
            ]);
            // That is for hosts.
            assert!(!outcome.stderr.contains("--allow-host"), "{outcome:?}");
        }
    }
}

#[test]
fn an_error_of_the_server_may_have_a_status_of_its_own() {
    let (address, _server) = answering(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 83\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1001,\"message\":\"no\",\"data\":{\"status\":403}}}",
    );
    run(&["call", &format!("http://{address}/"), "x"])
        .ends(5)
        .complains(&["\"code\":1001"]);
}

#[test]
fn whoever_is_not_there_ends_with_4() {
    for to in ways(&format!("{}/rpc", nobody())) {
        run(&["call", &to, "add", "[1,2]"])
            .ends(4)
            .prints("")
            .complains(&[&to]);
    }
    run(&["call", "http://no-such-host.invalid/rpc", "x"]).ends(4);
}

#[test]
fn whoever_does_not_speak_tls_ends_with_4() {
    let address = greeting("HTTP/1.1 400 Bad Request\r\n\r\n");
    for to in ways(&format!("{address}/")) {
        let to = to.replace("http:", "https:").replace("ws:", "wss:");
        let outcome = run(&["call", &to, "x"]);
        outcome.ends(4).prints("").complains(&[&to]);
        assert!(!outcome.stderr.contains("JSON-RPC"), "{outcome:?}");
    }
}

#[test]
fn without_certificates_to_trust_it_says_how_to_get_some() {
    let empty = path("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let to = format!("https://{}/", silent());
    let mut command = caudal(&["call", &to, "x"]);
    command
        .env("SSL_CERT_FILE", &*empty)
        .env_remove("SSL_CERT_DIR");
    let outcome = finish(command, "");
    let path_of_it = empty.display().to_string();
    outcome.ends(4).complains(&[
        &to,
        "SSL_CERT_FILE names",
        &path_of_it,
        "holds no certificate",
    ]);
    assert!(!outcome.stderr.contains("the system has"), "{outcome:?}");
    // That is for who writes programs.
    assert!(!outcome.stderr.contains("ClientTls"), "{outcome:?}");
    assert_eq!(outcome.stderr.matches("SSL_CERT_FILE").count(), 1);
    let mut command = caudal(&["call", &to, "x"]);
    command
        .env("SSL_CERT_FILE", "/no/such.pem")
        .env_remove("SSL_CERT_DIR");
    let outcome = finish(command, "");
    outcome
        .ends(4)
        .complains(&["SSL_CERT_FILE names `/no/such.pem`, which cannot be read"]);
    assert_eq!(outcome.stderr.matches("os error 2").count(), 1);
}

#[test]
fn headers_are_sent() {
    let (address, server) = answering(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 38\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}",
    );
    let to = format!("http://{address}/");
    let headers = ["--header", "X-Tenant: blue", "--header", "x-tenant:green"];
    run(&[&["call", &to, "x"][..], &headers].concat())
        .ends(0)
        .prints("null\n");
    let request = server.join().unwrap().to_ascii_lowercase();
    for header in ["x-tenant: blue\r\n", "x-tenant: green\r\n"] {
        assert!(request.contains(header), "{request}");
    }
}

#[test]
fn what_is_not_json_rpc_ends_with_6() {
    let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>";
    for way in 0..4 {
        let (address, _server) = answering(html);
        let to = &ways(&format!("{address}/"))[way];
        let outcome = run(&["call", to, "x"]);
        outcome.ends(6).prints("").complains(&["at this path?"]);
        // It speaks HTTP, so nothing else is to be tried.
        for other in ["tcp://", "TLS"] {
            assert!(!outcome.stderr.contains(other), "{outcome:?}");
        }
    }
    // A status that is none of an error is not what is wrong.
    let (address, _server) = answering(html);
    run(&["call", &format!("http://{address}/"), "x"])
        .ends(6)
        .complains(&["not answer with JSON-RPC: HTTP 200 OK: `<html>`"]);
    // The demo serves one path.
    let (server, _) = served(&[]);
    for to in ways(&format!("{}/wrong", server.address())) {
        run(&["call", &to, "x"]).ends(6).prints("").complains(&[
            "HTTP 404 Not Found: nothing is served at this path",
            "at this path?",
        ]);
    }
}

/// What a server of today answers to a call of `echo` with [`PADDED`], and what an old one
/// would: both have the same length.
const TODAY: &str = r#""id":1,"result":["____________"]"#;
const OLD: &str = r#""id":"1","error":null,"result":3"#;
const PADDED: &str = r#"["____________"]"#;

/// Stands before a server, and answers as if it was an old one.
fn aged(server: &str) -> String {
    assert_eq!(TODAY.len(), OLD.len());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = server.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(&server).unwrap();
            for (mut from, mut to) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server, client),
            ] {
                std::thread::spawn(move || {
                    let mut buffer = [0; 1 << 16];
                    while let Ok(read @ 1..) = from.read(&mut buffer) {
                        let piece = &mut buffer[..read];
                        let mut windows = piece.windows(TODAY.len());
                        if let Some(at) = windows.position(|text| text == TODAY.as_bytes()) {
                            piece[at..][..OLD.len()].copy_from_slice(OLD.as_bytes());
                        }
                        if to.write_all(piece).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    address
}

#[test]
fn what_an_old_server_answers_is_accepted_with_lenient_and_names_it_without() {
    let server = Served::on("http://127.0.0.1:0/rpc", &[]);
    for to in &ways(&format!("{}/rpc", aged(server.address()))) {
        let call = ["call", to, "echo", PADDED];
        let strict = run(&call);
        let says = ["JSON-RPC 2.0", to, OLD.trim(), "`--lenient`"];
        strict.ends(6).prints("").complains(&says);
        assert!(!strict.stderr.contains("at this path"), "{strict:?}");
        let lenient = run(&[&call[..], &["--lenient"]].concat());
        lenient.ends(0).prints("3\n");
        assert_eq!(lenient.stderr, "");
    }
}

/// A response without an id says what was wrong with the request that it came for.
#[test]
fn an_old_error_without_an_id_is_one_with_lenient_and_names_it_without() {
    let body = r#"{"jsonrpc":"2.0","result":null,"error":{"code":7,"message":"no"},"id":null}"#;
    for status in ["200 OK", "500 Internal Server Error"] {
        for more in [&[][..], &["--notify"]] {
            for lenient in [false, true] {
                let (address, _server) = answering(replying(status, body));
                let to = format!("http://{address}/rpc");
                let call = ["call", &to, "x"];
                let flag = if lenient { &["--lenient"][..] } else { &[] };
                let outcome = run(&[&call[..], more, flag].concat());
                match lenient {
                    true => outcome.ends(5).prints("").complains(&["\"code\":7"]),
                    false => outcome.ends(6).prints("").complains(&[body, "`--lenient`"]),
                };
            }
        }
    }
}

#[test]
fn lenient_is_not_named_where_it_would_not_help() {
    let error = r#"{"jsonrpc":"2.0","result":null,"error":{"code":7,"message":"no"},"id":null}"#;
    for (status, body, code) in [
        // Who is not let in is not listened to.
        ("401 Unauthorized", error, 3),
        ("403 Forbidden", error, 3),
        (
            "200 OK",
            r#"{"jsonrpc":"2.0","result":3,"error":null,"id":null}"#,
            6,
        ),
        (
            "200 OK",
            r#"{"jsonrpc":"2.0","result":3,"error":{"code":7,"message":"no"},"id":null}"#,
            6,
        ),
        ("200 OK", r#"{"jsonrpc":"2.0","result":3,"id":"2"}"#, 6),
        ("404 Not Found", "no", 6),
    ] {
        for more in [&[][..], &["--notify"], &["--lenient"]] {
            let (address, _server) = answering(replying(status, body));
            let to = format!("http://{address}/rpc");
            let outcome = run(&[&["call", &to, "x"][..], more].concat());
            // Nobody waits for what answers a notification.
            if more != ["--notify"] || outcome.code != Some(0) {
                outcome.ends(code);
            }
            assert!(!outcome.stderr.contains("--lenient"), "{outcome:?}");
        }
    }
}

/// A response with this status and body.
fn replying(status: &str, body: &str) -> &'static str {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n");
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).leak()
}

#[test]
fn a_page_is_told_in_one_line() {
    let page =
        "HTTP/1.1 501 Not Implemented\r\nContent-Length: 22\r\n\r\n<html>\n<body>\n<p>no</p>";
    let (address, _server) = answering(page);
    let outcome = run(&["call", &format!("http://{address}/"), "x"]);
    let said = "HTTP 501 Not Implemented: a page for browsers; ";
    outcome.ends(6).prints("").complains(&[said]);
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
}

#[test]
fn what_http_says_instead_of_an_answer_is_shown() {
    let said = |status: &str| {
        let text: &'static str = format!(
            "HTTP/1.1 {status}\r\nLocation: https://b.invalid/rpc\r\nContent-Length: 8\r\n\r\nbecause!"
        )
        .leak();
        text
    };
    for (status, code, hint) in [
        ("500 Internal Server Error", 6, "log"),
        ("429 Too Many Requests", 4, "try again later"),
        ("503 Service Unavailable", 4, "try again later"),
        ("407 Proxy Authentication Required", 3, "proxy"),
        ("308 Permanent Redirect", 6, "redirects are not followed"),
    ] {
        for way in 0..4 {
            for rest in [&["x"][..], &["x", "--notify"]] {
                let (address, _server) = answering(said(status));
                let to = &ways(&format!("{address}/"))[way];
                let outcome = run(&[&["call", to][..], rest].concat());
                let shown = format!("HTTP {status}");
                outcome.ends(code).prints("");
                outcome.complains(&[to, &shown, ": because!; ", hint]);
                let leads = status.starts_with('3');
                let told = outcome.stderr.contains(" to `https://b.invalid/rpc`: ");
                assert_eq!(told, leads, "{outcome:?}");
            }
        }
    }
}

#[test]
fn how_long_a_server_asks_to_wait_is_told() {
    let date = "Wed, 21 Oct 2015 07:28:00 GMT";
    for (status, asked, said) in [
        ("429 Too Many Requests", "5", "the server asks to wait 5 s"),
        (
            "503 Service Unavailable",
            "120",
            "the server asks to wait 120 s",
        ),
        (
            "503 Service Unavailable",
            date,
            "the server asks to wait until Wed, 21 Oct 2015",
        ),
    ] {
        for way in 0..4 {
            for rest in [&["x"][..], &["x", "--notify"]] {
                let response = format!(
                    "HTTP/1.1 {status}\r\nRetry-After: {asked}\r\nContent-Length: 8\r\n\r\nbecause!"
                );
                let (address, _server) = answering(response.leak());
                let to = &ways(&format!("{address}/"))[way];
                let outcome = run(&[&["call", to][..], rest].concat());
                outcome
                    .ends(4)
                    .prints("")
                    .complains(&[status, said, "because!"]);
            }
        }
    }
}

#[test]
fn a_server_without_websocket_may_be_called_by_http() {
    for status in ["404 Not Found", "405 Method Not Allowed", "200 OK"] {
        for way in 0..2 {
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno");
            let (address, _server) = answering(response.leak());
            let outcome = run(&["call", &ways(&format!("{address}/"))[way], "x"]);
            outcome.ends(6).prints("").complains(&["at this path?"]);
            let proposed = outcome.stderr.contains("as http:// or https://");
            assert_eq!(proposed, way == 1, "{outcome:?}");
        }
    }
}

#[test]
fn a_server_that_goes_away_has_closed_the_connection() {
    for way in 0..2 {
        let (address, _server) = answering("");
        let to = &ways(&format!("{address}/"))[way];
        let outcome = run(&["call", to, "x"]);
        let parts = [to, "the server closed the connection before it answered"];
        outcome.ends(4).prints("").complains(&parts);
        assert!(!outcome.stderr.contains("message completed"), "{outcome:?}");
    }
    // It is killed while the call runs.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut byte) = (Vec::new(), [0]);
        while !request.ends_with(b"}") {
            stream.read_exact(&mut byte).unwrap();
            request.extend(byte);
        }
    });
    let outcome = run(&["call", &format!("http://{address}/"), "x"]);
    outcome
        .ends(4)
        .complains(&["the server closed the connection"]);
    assert!(!outcome.stderr.contains("check the address"), "{outcome:?}");
    server.join().unwrap();
}

#[test]
fn what_is_not_even_http_ends_with_6() {
    let address = greeting("SSH-2.0-OpenSSH_9.9\r\n");
    for to in ways(&format!("{address}/")) {
        let outcome = run(&["call", &to, "x"]);
        outcome
            .ends(6)
            .prints("")
            .complains(&["tcp://", "https://"]);
        // No path would help.
        assert!(!outcome.stderr.contains("at this path?"), "{outcome:?}");
    }
}

/// A server that never answers.
fn silent() -> String {
    greeting("")
}

#[test]
fn a_notification_that_is_not_accepted_in_time_ends_with_2() {
    let to = format!("http://{}/", silent());
    run(&["call", &to, "x", "--notify", "--timeout", "300ms"])
        .ends(2)
        .prints("")
        .complains(&[&to, "`x`", "300ms", "--timeout"]);
    // The connection has limits of its own, which end it sooner.
    let outcome = run(&["call", &to, "x", "--notify", "--timeout", "50s"]);
    outcome.ends(2).complains(&[&to, "`x`", "may still run"]);
    assert!(!outcome.stderr.contains("50s"), "{outcome:?}");
}

/// As the help has it.
#[test]
fn a_notification_waits_for_its_handler_except_in_a_session() {
    let (_server, ways_in) = served(&[]);
    let tell = |to: &str, ms: &str| run(&["call", to, "slow", ms, "--notify", "--timeout", "1s"]);
    tell(&ways_in[0], r#"{"ms":600000}"#).ends(2);
    for to in &ways_in[2..] {
        tell(to, r#"{"ms":600000}"#).ends(0);
    }
}

#[test]
fn a_notification_that_is_not_accepted_says_why() {
    let (server, ways_in) = served(&["--token", "s3cret"]);
    for to in &ways_in {
        let tell = ["call", to, "update", "--notify"];
        run(&tell).ends(3).prints("").complains(&["--token"]);
        run(&[&tell[..], &["--token", "s3cret"]].concat()).ends(0);
    }
    for to in ways(&format!("{}/wrong", server.address())) {
        run(&["call", &to, "x", "--notify", "--token", "s3cret"])
            .ends(6)
            .prints("")
            .complains(&[&to, "404", "path"]);
    }
    let (address, _server) = answering("HTTP/1.1 501 Unsupported method\r\n\r\n");
    run(&["call", &format!("http://{address}/"), "x", "--notify"]).ends(6);
    let (address, _server) = answering("");
    run(&["call", &format!("http://{address}/"), "x", "--notify"]).ends(4);
}

#[test]
fn an_error_that_answers_a_notification_is_shown_as_that_of_a_call() {
    let (_server, ways_in) = served(&[]);
    // More than the server takes.
    let large = format!("[\"{}\"]", "x".repeat(5 << 20));
    for to in [&ways_in[0], &ways_in[2], &ways_in[3]] {
        let asked = finish(caudal(&["call", to, "echo", "-"]), &large);
        asked.ends(5).prints("").complains(&["{\"code\":-32600,"]);
        let told = finish(caudal(&["call", to, "echo", "-", "--notify"]), &large);
        told.ends(5).prints("");
        assert_eq!(told.stderr, asked.stderr);
    }
    let error = r#"{"code":-32700,"message":"Parse error","data":[1]}"#;
    for status in ["200 OK", "400 Bad Request"] {
        let (address, _server) = answering(refusing(status, "null", error));
        let outcome = run(&["call", &format!("http://{address}/"), "x", "--notify"]);
        outcome.ends(5).prints("");
        assert_eq!(outcome.stderr, format!("{error}\n"));
    }
}

/// A response that is an error of JSON-RPC.
fn refusing(status: &str, id: &str, error: &str) -> &'static str {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
    replying(status, &body)
}

#[test]
fn a_notification_whose_status_is_an_error_was_not_accepted() {
    let error = r#"{"code":1001,"message":"no"}"#;
    for status in ["400 Bad Request", "500 Internal Server Error"] {
        for id in ["1", "\"a\"", "null"] {
            let (address, _server) = answering(refusing(status, id, error));
            let outcome = run(&["call", &format!("http://{address}/"), "x", "--notify"]);
            outcome.ends(5).prints("");
            assert_eq!(outcome.stderr, format!("{error}\n"), "{status} {id}");
        }
    }
    // It is no error of JSON-RPC, and yet not well.
    let (address, _server) = answering(
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 38\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}",
    );
    run(&["call", &format!("http://{address}/"), "x", "--notify"])
        .ends(6)
        .complains(&["HTTP 500", "log"]);
}
