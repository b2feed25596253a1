//! `caudal serve` as curl sees it: status, headers and body of every kind of request.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::{Served, finish};

const JSON: &str = "Content-Type: application/json";
const EVENTS: &str = "Accept: text/event-stream";
const ADD: &str = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
const SUM: &str = r#"{"jsonrpc":"2.0","id":1,"result":3}"#;

/// Whether there is a curl, or a loud word.
fn there_is_curl() -> bool {
    let there = Command::new("curl").arg("--version").output().is_ok();
    if !there {
        let _ = writeln!(std::io::stderr(), "NOT COUNTED: curl is not installed");
    }
    there
}

/// A response: its status, its headers, and its body.
#[derive(Debug)]
struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(one, _)| one.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    #[track_caller]
    fn is(&self, status: u16, body: &str) -> &Self {
        assert_eq!((self.status, &*self.body), (status, body), "{self:?}");
        self
    }
}

fn command(url: &str, arguments: &[&str]) -> Command {
    let mut curl = Command::new("curl");
    // A proxy of whoever runs the tests has no part in this.
    curl.args(["-q", "-sS", "-N", "--noproxy", "*", "--max-time", "60"])
        .args(arguments)
        .arg(url);
    curl
}

fn curl(url: &str, arguments: &[&str]) -> Got {
    let mut arguments = arguments.to_vec();
    // HTTP/1.1 100 would be another head.
    arguments.extend(["-i", "-H", "Expect:"]);
    let outcome = finish(command(url, &arguments), "");
    let (head, body) = outcome.ends(0).stdout.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Got {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

fn post(url: &str, body: &str, more: &[&str]) -> Got {
    let mut arguments = vec!["-H", JSON, "-d", body];
    arguments.extend(more);
    curl(url, &arguments)
}

fn server(more: &[&str]) -> Served {
    Served::on("http://127.0.0.1:0/rpc", more)
}

#[test]
fn a_post_is_one_exchange() {
    if !there_is_curl() {
        return;
    }
    let server = server(&[]);
    let url = server.endpoint.as_str();
    let got = post(url, ADD, &[]);
    got.is(200, SUM);
    assert_eq!(got.header("content-type"), Some("application/json"));
    post(url, &format!("[{ADD},{ADD}]"), &[]).is(200, &format!("[{SUM},{SUM}]"));
    let notification = r#"{"jsonrpc":"2.0","method":"update","params":[1]}"#;
    post(url, notification, &[]).is(204, "");
    post(url, &format!("[{notification}]"), &[]).is(204, "");
    for (body, code) in [("{", -32700), ("[]", -32600), ("1", -32600)] {
        let got = post(url, body, &[]);
        assert_eq!(got.status, 200);
        assert!(got.body.contains(&format!("\"code\":{code},")), "{got:?}");
        assert!(got.body.contains("\"id\":null"), "{got:?}");
    }
    post(url, ADD, &["--http2-prior-knowledge"]).is(200, SUM);
    post(url, ADD, &["--http1.0"]).is(200, SUM);
    post(url, ADD, &["-H", "Transfer-Encoding: chunked"]).is(200, SUM);
}

/// curl takes a stream that is reset for a failure, though its answer has come.
#[test]
fn what_is_refused_before_it_is_read_is_answered_all_the_same() {
    if !there_is_curl() {
        return;
    }
    let server = server(&[]);
    let url = server.endpoint.as_str();
    let file = crate::support::path("refused.json");
    std::fs::write(&file, format!("[{}]", " ".repeat(5 << 20))).unwrap();
    let body = format!("@{}", file.display());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let send = |url: &str, kind| {
            let kind = format!("Content-Type: {kind}");
            curl(url, &[version, "-H", &kind, "--data-binary", &body]).status
        };
        assert_eq!(send(url, "application/json"), 413, "{version}");
        assert_eq!(send(url, "text/plain"), 415, "{version}");
        assert_eq!(
            send(&url.replace("/rpc", "/other"), "application/json"),
            404
        );
    }
}

#[test]
fn what_is_no_exchange_is_refused() {
    if !there_is_curl() {
        return;
    }
    let server = server(&[]);
    let url = server.endpoint.as_str();
    for verb in ["GET", "PATCH", "DELETE"] {
        let got = curl(url, &["-X", verb]);
        assert_eq!(got.status, 405, "{verb}: {got:?}");
        let allow = got.header("allow").unwrap();
        assert!(allow.contains("POST") && allow.contains("GET"), "{allow}");
    }
    assert_eq!(curl(url, &["-d", ADD]).status, 415);
    let text = "Content-Type: text/plain";
    assert_eq!(curl(url, &["-H", text, "-d", ADD]).status, 415);
    let elsewhere = url.replace("/rpc", "/other");
    assert_eq!(post(&elsewhere, ADD, &[]).status, 404);
    let foreign = "Origin: https://evil.example";
    assert_eq!(post(url, ADD, &["-H", foreign]).status, 403);
    let rebound = "Host: evil.example";
    assert_eq!(post(url, ADD, &["-H", rebound]).status, 403);
    let own = format!("Origin: http://{}", server.address());
    post(url, ADD, &["-H", &own]).is(200, SUM);
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    if !there_is_curl() {
        return;
    }
    let server = server(&[]);
    let path = crate::support::path("large.json");
    // The default limit is 1 MiB. One that is much larger may see its connection end
    // before it has read why.
    for (size, status) in [(1 << 20, 200), ((1 << 20) + 1, 413)] {
        let (start, end) = (
            r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]"#,
            "}",
        );
        let blanks = " ".repeat(size - start.len() - end.len());
        std::fs::write(&path, format!("{start}{blanks}{end}")).unwrap();
        let file = format!("@{}", path.display());
        for more in [&[][..], &["-H", "Transfer-Encoding: chunked"]] {
            let mut arguments = vec!["-H", JSON, "--data-binary", &file];
            arguments.extend(more);
            let got = curl(&server.endpoint, &arguments);
            assert_eq!(got.status, status, "{size} {more:?} {got:?}");
            assert_eq!(got.body.contains("-32600"), status == 413);
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn who_has_no_token_is_not_let_in() {
    if !there_is_curl() {
        return;
    }
    let server = server(&["--token", "s3cret"]);
    let url = server.endpoint.as_str();
    for more in [
        &[][..],
        &["-H", "Authorization: Bearer wrong"],
        &["-u", "a:b"],
    ] {
        let got = post(url, ADD, more);
        assert_eq!(got.status, 401);
        assert_eq!(got.header("www-authenticate"), Some("Bearer"));
    }
    assert_eq!(curl(url, &["-H", EVENTS]).status, 401);
    let token = ["-H", "Authorization: Bearer s3cret"];
    post(url, ADD, &token).is(200, SUM);
}

/// A curl that reads events, killed with the test.
struct Stream {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Stream {
    fn open(url: &str, arguments: &[&str]) -> Self {
        let mut arguments = arguments.to_vec();
        arguments.extend(["-i", "-H", EVENTS]);
        let mut child = command(url, &arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The lines up to an empty one, or what there is before the end.
    fn block(&mut self) -> Vec<String> {
        let mut block = Vec::new();
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            match line.trim_end() {
                "" => return block,
                text => block.push(text.to_owned()),
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(ticks: u32) -> String {
    let params = format!(r#"{{"count":{ticks},"every_ms":1}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":5,"method":"ticks.start","params":{params}}}"#)
}

fn tick(n: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"tick","params":[{n}]}}"#)
}

#[test]
fn a_session_speaks_by_events() {
    if !there_is_curl() {
        return;
    }
    let server = server(&[]);
    let url = server.endpoint.as_str();
    let mut stream = Stream::open(url, &[]);
    let head = stream.block().join("\n").to_lowercase();
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    let mut first = stream.block();
    if first == ["retry: 1000"] {
        first = stream.block();
    }
    first.retain(|line| !line.starts_with("retry:"));
    assert_eq!(first[0], "event: session");
    let id = first[2].strip_prefix("data: ").unwrap();
    assert_eq!(first[1], format!("id: {id}.0"));
    assert!(head.contains(&format!("mcp-session-id: {id}")), "{head}");

    let by_header = ["-H", &format!("Mcp-Session-Id: {id}")];
    let by_query = format!("{url}?session={id}");
    post(url, ADD, &by_header).is(200, SUM);
    post(&by_query, ADD, &[]).is(200, SUM);
    let note = r#"{"jsonrpc":"2.0","method":"update"}"#;
    post(url, note, &by_header).is(202, "");
    let started = post(url, &start(3), &by_header);
    assert_eq!(started.status, 200);
    for n in 1..=3 {
        let event = [format!("id: {id}.{n}"), format!("data: {}", tick(n))];
        assert_eq!(stream.block(), event);
    }
    let mut later = ADD.replace("\"id\":1", "\"id\":\"later\"");
    let prefer = ["-H", "Prefer: respond-async", by_header[0], by_header[1]];
    let got = post(url, &later, &prefer);
    got.is(202, "");
    assert_eq!(got.header("preference-applied"), Some("respond-async"));
    later = format!("data: {}", SUM.replace("\"id\":1", "\"id\":\"later\""));
    assert_eq!(stream.block(), [format!("id: {id}.4"), later.clone()]);

    // A second one takes over, after what the client has got.
    let resume = ["-H", "Last-Event-ID: 2", by_header[0], by_header[1]];
    let mut second = Stream::open(url, &resume);
    assert!(second.block()[0].starts_with("HTTP/1.1 200 "));
    let mut events = Vec::new();
    while events.len() < 2 {
        let block = second.block();
        events.extend(block.into_iter().filter(|line| line.starts_with("data")));
    }
    assert_eq!(events, [format!("data: {}", tick(3)), later]);
    assert_eq!(stream.block(), [""; 0]);

    curl(url, &["-X", "DELETE", by_header[0], by_header[1]]).is(204, "");
    assert_eq!(second.block(), ["event: end", "data:"]);
    assert_eq!(second.block(), [""; 0]);
    assert_eq!(post(url, ADD, &by_header).status, 404);
    let again = curl(url, &["-X", "DELETE", by_header[0], by_header[1]]);
    assert_eq!(again.status, 404);
    assert_eq!(
        Stream::open(&by_query, &[]).block()[0],
        "HTTP/1.1 404 Not Found"
    );
}

#[test]
fn a_session_speaks_by_polling() {
    if !there_is_curl() {
        return;
    }
    let server = server(&[]);
    let url = server.endpoint.as_str();
    let accept = ["-H", "Accept: application/json"];
    let opened = curl(url, &accept);
    opened.is(200, r#"{"cursor":0,"messages":[]}"#);
    let session = format!(
        "Mcp-Session-Id: {}",
        opened.header("mcp-session-id").unwrap()
    );
    let poll = |cursor: u32, more: &[&str]| {
        let mut arguments = vec!["-H", &session, accept[0], accept[1]];
        arguments.extend(more);
        curl(&format!("{url}?cursor={cursor}"), &arguments)
    };
    assert_eq!(post(url, &start(1), &["-H", &session]).status, 200);
    let first = format!(r#"{{"cursor":1,"messages":[{}]}}"#, tick(1));
    poll(0, &[]).is(200, &first);
    // What is not acknowledged comes again.
    poll(0, &[]).is(200, &first);
    poll(1, &["-H", "Prefer: wait=0"]).is(204, "");
    assert_eq!(
        curl(&format!("{url}?cursor=x"), &["-H", &session]).status,
        400
    );
    let neither = ["-H", &session, "-H", "Accept: text/html"];
    assert_eq!(curl(url, &neither).status, 406);
    curl(url, &["-X", "DELETE", "-H", &session]).is(204, "");
    assert_eq!(poll(1, &[]).status, 404);
}
