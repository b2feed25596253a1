//! Each example, run as a program: what it prints, how it answers, how it ends.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a test may"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::support::{LIMIT, eventually, example};
use caudal_core::{FrameReader, Framing};
use serde_json::{Value, json};

/// A program that runs; it is killed if the test ends before it.
struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    framing: Framing,
    frames: mpsc::Receiver<String>,
    stderr: Option<JoinHandle<String>>,
}

impl Program {
    fn start(name: &str, arguments: &[&str]) -> Self {
        Self::framed(name, arguments, Framing::Line)
    }

    fn framed(name: &str, arguments: &[&str], framing: Framing) -> Self {
        let mut child = example(name)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (sender, frames) = mpsc::channel();
        std::thread::spawn(move || {
            let mut reader = FrameReader::new(framing, 1 << 20);
            let mut buffer = [0; 4096];
            while let Ok(bytes @ 1..) = stdout.read(&mut buffer) {
                reader.push(&buffer[..bytes]);
                while let Some(frame) = reader.next_frame().unwrap() {
                    let _ = sender.send(String::from_utf8(frame.to_vec()).unwrap());
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        Self {
            stdin: child.stdin.take(),
            child,
            framing,
            frames,
            stderr: Some(stderr),
        }
    }

    fn send(&mut self, message: &str) {
        let mut bytes = Vec::new();
        let Ok(()) = self.framing.write(&mut bytes, |out| {
            out.extend_from_slice(message.as_bytes());
            Ok::<_, std::convert::Infallible>(())
        });
        self.stdin.as_mut().unwrap().write_all(&bytes).unwrap();
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    fn request(&mut self, id: u32, method: &str, params: Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request.to_string());
    }

    /// A request, and the next message, which is its answer.
    fn call(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.request(id, method, params);
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn line(&mut self) -> String {
        self.frames.recv_timeout(LIMIT).unwrap()
    }

    fn receive(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Waits for its end: how it ended, what else it wrote, and its stderr.
    fn end(&mut self) -> (ExitStatus, Vec<String>, String) {
        let status = eventually("it ends", || self.child.try_wait().unwrap());
        let stderr = self.stderr.take().unwrap().join().unwrap();
        (status, self.frames.iter().collect(), stderr)
    }

    /// Ends its input, and waits for its end.
    fn finish(&mut self) -> (ExitStatus, Vec<String>, String) {
        self.stdin = None;
        self.end()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It fails if the program has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_default()
}

/// What a program prints that ends by itself, in success.
fn output(name: &str, arguments: &[&str]) -> Vec<String> {
    let (status, lines, stderr) = Program::start(name, arguments).finish();
    assert!(status.success(), "{status}: {stderr}");
    lines
}

#[test]
fn the_quickstart_shows_both_directions_and_the_same_each_time() {
    let lines = output("quickstart", &[]);
    let methods: Vec<String> = lines
        .iter()
        .filter_map(|line| line.trim().split_once(' '))
        .filter(|(arrow, _)| ["-->", "<--"].contains(arrow))
        .map(|(arrow, message)| {
            let message: Value = serde_json::from_str(message).unwrap();
            let what = ["method", "result", "error"].map(|member| message[member].to_string());
            format!("{arrow} {}", what.join(" ").replace("null", "").trim())
        })
        .collect();
    assert_eq!(
        methods,
        [
            r#"--> "add""#,
            "<-- 3",
            r#"--> "count""#,
            r#"<-- "tick""#,
            r#"<-- "go_on""#,
            "--> true",
            r#"<-- "tick""#,
            r#"<-- "go_on""#,
            "--> false",
            "<-- 2",
            r#"--> "divide""#,
            r#"<-- {"code":1,"message":"division by zero"}"#,
            r#"--> "sleep""#,
            r#"--> "add""#,
            "<-- 42",
        ]
    );
    for said in [
        "  1 + 2 = 3",
        "      tick 2",
        "  error 1: division by zero",
        "  no answer within 100ms",
    ] {
        assert!(lines.iter().any(|line| line == said), "{said}");
    }
    assert_eq!(lines, output("quickstart", &[]));
}

#[test]
fn a_stray_print_and_garbage_do_not_hurt_the_plug_in() {
    let mut server = Program::start("stdio_server", &[]);
    server.send("this is not JSON");
    let refused = server.receive();
    assert_eq!((code(&refused), &refused["id"]), (-32700, &Value::Null));
    let greeting = server.call(1, "greet", json!(["Ada"]));
    assert_eq!(greeting["result"], "Hello, Ada!");
    server.notify("log", json!(["noted"]));
    assert_eq!(
        server.call(2, "counters", json!([]))["result"],
        json!([1, 1])
    );
    assert_eq!(code(&server.call(3, "greet", json!([1]))), -32602);
    assert_eq!(code(&server.call(4, "dance", json!([]))), -32601);
    let (status, more, stderr) = server.finish();
    assert!(status.success());
    assert_eq!(more, [""; 0], "stdout has messages and nothing else");
    assert_eq!(stderr, "greeting Ada\nlog: noted\n");
}

#[test]
fn the_plug_in_quits_when_it_is_told() {
    let mut server = Program::start("stdio_server", &[]);
    server.send(r#"{"jsonrpc":"2.0","method":"quit"}"#);
    let (status, more, _) = server.end();
    assert!(status.success());
    assert_eq!(more, [""; 0]);
}

#[test]
fn the_child_client_starts_the_plug_in_and_sees_its_end() {
    let expected = [
        "greet: Hello, Ada!",
        "counters: 1 greeted, 1 logged",
        "dance: Method not found: dance (code -32601)",
        "end: closed by the other side",
        "the program: exit status: 0",
    ];
    assert_eq!(output("child_client", &[]), expected);
    let plug_in = example("stdio_server");
    let named = plug_in.get_program().to_str().unwrap();
    assert_eq!(output("child_client", &[named]), expected);
}

#[test]
fn the_child_client_says_what_is_wrong_with_a_program() {
    let (status, lines, stderr) = Program::start("child_client", &["/no/such/program"]).finish();
    assert_eq!((status.code(), lines), (Some(1), vec![]));
    assert!(stderr.contains("/no/such/program"), "{stderr}");
    let (status, lines, stderr) = Program::start("child_client", &["false"]).finish();
    assert_eq!((status.code(), lines), (Some(1), vec![]));
    assert!(stderr.contains("ExitError"), "{stderr}");
}

/// A chat server, and where it listens.
fn chat() -> (Program, String) {
    let mut server = Program::start("chat", &["serve", "tcp://127.0.0.1:0"]);
    let line = server.line();
    let endpoint = line.strip_prefix("serving on ").unwrap().to_owned();
    (server, endpoint)
}

#[test]
fn two_who_chat_hear_each_other() {
    let (server, endpoint) = chat();
    let mut ann = Program::start("chat", &["join", &endpoint, "Ann"]);
    assert_eq!(ann.line(), "Ann has joined");
    let mut bob = Program::start("chat", &["join", &endpoint, "Bob"]);
    for member in [&mut ann, &mut bob] {
        assert_eq!(member.line(), "Bob has joined");
    }
    ann.send("hello");
    for member in [&mut ann, &mut bob] {
        assert_eq!(member.line(), "Ann: hello");
    }
    bob.send("{\"not\": \"a message\"}");
    for member in [&mut ann, &mut bob] {
        assert_eq!(member.line(), "Bob: {\"not\": \"a message\"}");
    }
    assert!(bob.finish().0.success());
    assert_eq!(ann.line(), "Bob has left");
    drop(server);
    let (status, _, stderr) = ann.end();
    assert!(!status.success(), "the server is gone");
    assert!(stderr.starts_with("Error:"), "{stderr}");
}

#[test]
fn members_of_the_chat_do_not_wait_for_one_who_does_not_read() {
    let (_server, endpoint) = chat();
    let address = endpoint.strip_prefix("tcp://").unwrap();
    let mut silent = TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    let join = br#"{"jsonrpc":"2.0","id":1,"method":"join","params":["Sam"]}"#;
    silent.write_all(join).unwrap();
    silent.write_all(b"\n").unwrap();
    let mut joined = String::new();
    BufReader::new(&silent).read_line(&mut joined).unwrap();
    assert!(joined.contains("Sam has joined"), "{joined}");

    let mut ann = Program::start("chat", &["join", &endpoint, "Ann"]);
    assert_eq!(ann.line(), "Ann has joined");
    let mut bob = Program::start("chat", &["join", &endpoint, "Bob"]);
    for member in [&mut ann, &mut bob] {
        assert_eq!(member.line(), "Bob has joined");
    }
    // More than sockets and the server hold for a member that reads nothing.
    let long = "x".repeat(500_000);
    let lines = (0..30)
        .map(|n| format!("{n} {long}"))
        .chain((0..60).map(|n| n.to_string()));
    for line in lines {
        ann.send(&line);
        let said = format!("Ann: {line}");
        for member in [&mut ann, &mut bob] {
            assert!(member.line() == said, "another line than {said:.20}");
        }
    }
    drop(silent);
}

#[test]
fn the_chat_goes_on_after_garbage_and_wants_a_name_first() {
    let (_server, endpoint) = chat();
    let address = endpoint.strip_prefix("tcp://").unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
        .write_all(
            b"garbage\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"say\",\"params\":[\"x\"]}\n",
        )
        .unwrap();
    let codes: Vec<i64> = BufReader::new(socket)
        .lines()
        .take(2)
        .map(|line| code(&serde_json::from_str(&line.unwrap()).unwrap()))
        .collect();
    assert_eq!(codes, [-32700, 1]);
    let (status, _, stderr) = Program::start("chat", &["jion", "x"]).finish();
    assert!(
        !status.success() && stderr.contains("use: chat"),
        "{stderr}"
    );
}

fn lsp() -> Program {
    Program::framed("lsp_server", &[], Framing::Header)
}

fn initialized() -> Program {
    let mut server = lsp();
    let answer = server.call(
        1,
        "initialize",
        json!({"processId": null, "capabilities": {}}),
    );
    assert_eq!(answer["result"]["capabilities"]["hoverProvider"], true);
    server.notify("initialized", json!({}));
    server
}

fn open(server: &mut Program, text: &str) {
    let document = json!({"uri": "file:///a", "languageId": "x", "version": 1, "text": text});
    server.notify("textDocument/didOpen", json!({"textDocument": document}));
}

fn hover(server: &mut Program, id: u32, line: u32, character: u32) -> Value {
    let position = json!({"line": line, "character": character});
    let params = json!({"textDocument": {"uri": "file:///a"}, "position": position});
    server.call(id, "textDocument/hover", params)
}

#[test]
fn a_language_server_lives_in_the_order_of_lsp() {
    let mut server = lsp();
    assert_eq!(code(&hover(&mut server, 1, 0, 0)), -32002);
    server.notify("textDocument/didOpen", json!({}));
    let answer = server.call(2, "initialize", json!({"capabilities": {}}));
    assert_eq!(answer["result"]["serverInfo"]["name"], "caudal-lsp");
    server.notify("initialized", json!({}));
    assert_eq!(hover(&mut server, 3, 0, 0)["result"], Value::Null);
    server.send(r#"{"jsonrpc":"2.0","id":4,"method":"shutdown"}"#);
    assert_eq!(
        server.receive(),
        json!({"jsonrpc": "2.0", "id": 4, "result": null})
    );
    assert_eq!(code(&hover(&mut server, 5, 0, 0)), -32600);
    server.send(r#"{"jsonrpc":"2.0","method":"exit"}"#);
    assert_eq!(server.end().0.code(), Some(0));
}

#[test]
fn a_language_server_that_was_not_shut_down_fails() {
    let mut server = initialized();
    server.send(r#"{"jsonrpc":"2.0","method":"exit"}"#);
    assert_eq!(server.end().0.code(), Some(1));
    let mut early = lsp();
    early.send(r#"{"jsonrpc":"2.0","method":"exit"}"#);
    assert_eq!(early.end().0.code(), Some(1));
}

#[test]
fn a_hover_sees_every_change_that_was_sent_before_it() {
    let mut server = initialized();
    open(&mut server, "first");
    for n in 0..200 {
        let changes = json!([{"text": "old"}, {"text": format!("é𝄞 x\n  word_{n};")}]);
        let params = json!({"textDocument": {"uri": "file:///a"}, "contentChanges": changes});
        server.notify("textDocument/didChange", params);
        let answer = hover(&mut server, 100 + n, 1, 4);
        assert_eq!(answer["result"]["contents"], format!("word_{n}"));
    }
    // The clef has two units of UTF-16.
    assert_eq!(hover(&mut server, 1, 0, 4)["result"]["contents"], "x");
    assert_eq!(hover(&mut server, 2, 0, 3)["result"], Value::Null);
    assert_eq!(hover(&mut server, 3, 9, 0)["result"], Value::Null);
    server.send("garbage");
    assert_eq!(code(&server.receive()), -32700);
    assert_eq!(
        hover(&mut server, 4, 1, 2)["result"]["contents"],
        "word_199"
    );
}

#[test]
fn a_search_is_cancelled_at_once_and_the_session_goes_on() {
    let mut server = initialized();
    open(&mut server, "alpha beta");
    let params = json!({"query": "", "workDoneToken": "search"});
    server.request(7, "workspace/symbol", params);
    assert_eq!(server.receive()["params"]["value"]["kind"], "begin");
    server.notify("$/cancelRequest", json!({"id": 7}));
    let answer = loop {
        let message = server.receive();
        match message["method"].as_str() {
            Some(method) => assert_eq!(method, "$/progress"),
            None => break message,
        }
    };
    assert_eq!((code(&answer), &answer["id"]), (-32800, &json!(7)));
    assert_eq!(hover(&mut server, 8, 0, 7)["result"]["contents"], "beta");
}

#[test]
fn a_search_reports_its_progress_and_then_its_result() {
    let mut server = initialized();
    open(&mut server, "alpha beta gamma");
    server.request(
        7,
        "workspace/symbol",
        json!({"query": "et", "workDoneToken": 5}),
    );
    let mut kinds = Vec::new();
    let answer = loop {
        let message = server.receive();
        if message["id"] == 7 {
            break message;
        }
        assert_eq!(message["params"]["token"], 5);
        kinds.push(
            message["params"]["value"]["kind"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    };
    assert_eq!(answer["result"], json!([symbol("beta", 0, 6)]));
    assert_eq!((kinds.len(), &*kinds[0], &*kinds[21]), (22, "begin", "end"));
    assert!(kinds[1..21].iter().all(|kind| kind == "report"));
}

/// A word as `workspace/symbol` answers it: a `SymbolInformation` of LSP.
fn symbol(word: &str, line: usize, character: usize) -> Value {
    let end = character + word.encode_utf16().count();
    let range = json!({
        "start": {"line": line, "character": character},
        "end": {"line": line, "character": end},
    });
    json!({"name": word, "kind": 15, "location": {"uri": "file:///a", "range": range}})
}

#[test]
fn a_search_says_where_each_word_is_until_its_document_is_closed() {
    let mut server = initialized();
    open(&mut server, "beta, é𝄞 (beta_2)\n\n alpha\tbeta");
    let search = |server: &mut Program, id, query| {
        let answer = server.call(id, "workspace/symbol", json!({"query": query}));
        answer["result"].clone()
    };
    // The clef has two units of UTF-16.
    let everywhere = [
        symbol("beta", 0, 0),
        symbol("beta_2", 0, 11),
        symbol("beta", 2, 7),
    ];
    assert_eq!(search(&mut server, 7, "beta"), json!(everywhere));
    assert_eq!(search(&mut server, 8, "ALPHA"), json!([]));
    let params = json!({"textDocument": {"uri": "file:///a"}});
    server.notify("textDocument/didClose", params);
    assert_eq!(search(&mut server, 9, ""), json!([]));
    assert_eq!(hover(&mut server, 10, 0, 0)["result"], Value::Null);
}

#[test]
fn a_language_server_is_initialized_once() {
    let mut server = initialized();
    let again = json!({"processId": null, "capabilities": {}});
    assert_eq!(code(&server.call(2, "initialize", again)), -32600);
    open(&mut server, "alpha");
    assert_eq!(hover(&mut server, 3, 0, 0)["result"]["contents"], "alpha");
}

fn tool(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

#[test]
fn an_mcp_server_lists_and_calls_its_tools() {
    let mut server = Program::start("mcp_server", &[]);
    server.send("garbage");
    assert_eq!(code(&server.receive()), -32700);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    let answer = server.call(1, "initialize", hello);
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    let answer = server.receive();
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["add", "greet", "sleep", "count", "roots"]);
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["a", "b"]));
    for (id, call, is_error, text) in [
        (3, tool("add", json!({"a": 2, "b": 3})), false, "5"),
        (
            4,
            tool("greet", json!({"name": "Ada"})),
            false,
            "Hello, Ada!",
        ),
        (5, tool("sleep", json!({"seconds": 0})), false, "slept 0 s"),
        (
            6,
            tool("dance", json!({})),
            true,
            "there is no tool `dance`",
        ),
        (
            7,
            tool("add", json!({"a": 2})),
            true,
            "wrong arguments: missing field `b`",
        ),
        (
            8,
            tool("add", json!({"a": i64::MAX, "b": 1})),
            true,
            "the sum is too large",
        ),
    ] {
        let result = server.call(id, "tools/call", call)["result"].clone();
        assert_eq!(result["content"], json!([{"type": "text", "text": text}]));
        assert_eq!(result["isError"], is_error, "{text}");
    }
    assert_eq!(code(&server.call(9, "tools/call", json!({}))), -32602);
    assert!(server.finish().0.success());
}

#[test]
fn an_mcp_tool_that_fails_says_why_to_the_last_cause() {
    let mut server = Program::start("mcp_server", &[]);
    server.request(1, "tools/call", tool("roots", json!({})));
    let asked = server.receive();
    assert_eq!(asked["method"], "roots/list");
    server.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {}}).to_string());
    let result = server.receive()["result"].clone();
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(": missing field `roots`"), "{text}");
}

#[test]
fn an_mcp_call_that_is_cancelled_has_no_answer() {
    let mut server = Program::start("mcp_server", &[]);
    server.request(1, "tools/call", tool("sleep", json!({"seconds": 3600})));
    server.notify(
        "notifications/cancelled",
        json!({"requestId": 1, "reason": "enough"}),
    );
    assert_eq!(server.call(2, "ping", json!({}))["result"], json!({}));
    let (status, more, _) = server.finish();
    assert!(status.success());
    assert_eq!(more, [""; 0]);
}

/// Proves: A56, A59
#[test]
fn a_transport_of_the_application_carries_calls_both_ways() {
    for kind in ["channel", "tcp"] {
        let expected = [
            format!("over {kind}: Hello, Ada!"),
            "the other end: closed by the other side".to_owned(),
        ];
        assert_eq!(output("custom_transport", &[kind]), expected);
    }
    let (status, _, stderr) = Program::start("custom_transport", &["pigeon"]).finish();
    assert!(!status.success() && stderr.contains("`pigeon` is no transport"));
}

#[test]
fn layers_see_the_calls_of_a_batch_one_at_a_time() {
    let lines = output("middleware", &[]);
    assert_eq!(
        lines,
        [
            "Who has not logged in is refused:",
            "  [nobody] add failed: Log in first (code -32001)",
            "  [nobody] login failed: Wrong password (code -32003)",
            "Then each call of a batch is seen on its own:",
            "  [ada] login = null",
            "  [ada] add = 3",
            "  [ada] add = 7",
            "Three calls are free, and then one a minute:",
            "  [ada] add = 11",
            "  [ada] add failed: Too many requests (code -32029)",
        ]
    );
}

/// Pages of this origin may use the axum application.
const PAGE: &str = "https://app.example.com";

/// The axum application, and where it listens.
fn axum() -> (Program, String) {
    let mut server = Program::start("axum", &["127.0.0.1:0"]);
    let line = server.line();
    let address = line.strip_prefix("listening on http://").unwrap();
    let address = address.strip_suffix("/rpc").unwrap().to_owned();
    (server, address)
}

/// A response whose body is still to be read.
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    io: BufReader<TcpStream>,
}

impl Response {
    /// Sends a request on a connection of its own.
    fn to(address: &str, verb: &str, headers: &[&str], body: &str) -> Self {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let length = body.len();
        let headers = [headers, &["Connection: close"]].concat().join("\r\n");
        let head = format!("{verb} /rpc HTTP/1.1\r\nHost: {address}\r\n{headers}");
        let text = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
        socket.write_all(text.as_bytes()).unwrap();
        let mut response = Self {
            status: 0,
            headers: Vec::new(),
            io: BufReader::new(socket),
        };
        let line = response.line();
        response.status = line.split(' ').nth(1).unwrap().parse().unwrap();
        while let Some((name, value)) = response.line().split_once(": ") {
            let header = (name.to_ascii_lowercase(), value.to_owned());
            response.headers.push(header);
        }
        response
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.io.read_line(&mut line).unwrap(), 0, "it has ended");
        line.trim_end().to_owned()
    }

    /// All values of a header, with commas between.
    fn header(&self, name: &str) -> String {
        let own = self.headers.iter().filter(|(own, _)| own == name);
        let values: Vec<&str> = own.map(|(_, value)| value.as_str()).collect();
        values.join(",")
    }

    /// The body, with its chunks put together.
    fn body(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        if self.header("transfer-encoding") != "chunked" {
            self.io.read_to_end(&mut body).unwrap();
            return body;
        }
        loop {
            let size = usize::from_str_radix(&self.line(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            self.io.read_exact(&mut chunk).unwrap();
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return body;
            }
        }
    }

    /// The data of the next event.
    fn event(&mut self) -> String {
        loop {
            if let Some(data) = self.line().strip_prefix("data: ") {
                return data.to_owned();
            }
        }
    }
}

const JSON: &str = "Content-Type: application/json";
const ADD: &str = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;

#[test]
fn an_axum_application_lets_one_page_use_sessions() {
    let (_server, address) = axum();
    let asked = "content-type,authorization,prefer,last-event-id,mcp-protocol-version,\
                 mcp-session-id";
    let asks = |origin: &str| {
        let origin = format!("Origin: {origin}");
        let headers = format!("Access-Control-Request-Headers: {asked}");
        let method = "Access-Control-Request-Method: POST";
        Response::to(&address, "OPTIONS", &[&origin, method, &headers], "")
    };
    let good = asks(PAGE);
    assert_eq!(good.status, 200);
    assert_eq!(good.header("access-control-allow-origin"), PAGE);
    let methods = good.header("access-control-allow-methods");
    assert!(methods.split(',').any(|one| one == "POST"), "{methods}");
    let allowed = good.header("access-control-allow-headers");
    for name in asked.split(',') {
        assert!(allowed.split(',').any(|one| one == name), "{allowed}");
    }
    // The layer names the page that it allows, and no browser takes that for another.
    let bad = asks("https://evil.example.com");
    assert_eq!(bad.header("access-control-allow-origin"), PAGE);
    let origin = "Origin: https://evil.example.com";
    let bad = Response::to(&address, "POST", &[JSON, origin], ADD);
    assert_eq!(bad.status, 403);
    let origin = format!("Origin: {PAGE}");
    let accept = "Accept: application/json";
    let opened = Response::to(&address, "GET", &[&origin, accept], "");
    assert_eq!(opened.status, 200);
    assert_eq!(opened.header("access-control-allow-origin"), PAGE);
    let exposed = opened.header("access-control-expose-headers");
    assert_eq!(exposed, "mcp-session-id");
    assert_eq!(opened.header("mcp-session-id").len(), 32);
}

#[test]
fn an_axum_application_compresses_what_is_large() {
    let (_server, address) = axum();
    let long = r#"{"jsonrpc":"2.0","id":1,"method":"long","params":[50000]}"#;
    let plain = Response::to(&address, "POST", &[JSON], long);
    assert_eq!(
        (plain.status, &*plain.header("content-encoding")),
        (200, "")
    );
    let plain = plain.body();
    let answer: Value = serde_json::from_slice(&plain).unwrap();
    assert_eq!(answer["result"], "=".repeat(50_000));
    let gzip = "Accept-Encoding: gzip";
    let packed = Response::to(&address, "POST", &[JSON, gzip], long);
    assert_eq!(packed.status, 200);
    assert_eq!(packed.header("content-encoding"), "gzip");
    let packed = packed.body();
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() < plain.len() / 10);
    // The last that gzip says is how much it has packed.
    let length = u32::try_from(plain.len()).unwrap().to_le_bytes();
    assert!(packed.ends_with(&length));
}

#[tokio::test]
async fn an_axum_application_speaks_websocket_through_its_layers() {
    let (_server, address) = axum();
    let peer = caudal::connect(&*format!("ws://{address}/rpc"));
    let peer = peer.await.unwrap();
    for n in 0..3_i64 {
        let sum: i64 = peer.call("add", (n, 1)).timeout(LIMIT).await.unwrap();
        assert_eq!(sum, n + 1);
    }
    let long: String = peer.call("long", (50_000,)).timeout(LIMIT).await.unwrap();
    assert_eq!(long.len(), 50_000);
}

#[test]
fn an_axum_application_holds_no_event_back_and_ends_in_good_order() {
    let (mut server, address) = axum();
    let accept = ["Accept: text/event-stream", "Accept-Encoding: gzip"];
    let mut events = Response::to(&address, "GET", &accept, "");
    assert_eq!(events.status, 200);
    assert_eq!(events.header("content-type"), "text/event-stream");
    assert_eq!(events.header("content-encoding"), "");
    let session = events.header("mcp-session-id");
    assert_eq!(events.event(), session);
    let session = format!("Mcp-Session-Id: {session}");
    // The stream goes on, so what is held back for more of it never comes.
    for _ in 0..3 {
        let headers = [JSON, &*session, "Prefer: respond-async"];
        let accepted = Response::to(&address, "POST", &headers, ADD);
        assert_eq!(accepted.status, 202);
        let answer: Value = serde_json::from_str(&events.event()).unwrap();
        assert_eq!((&answer["id"], &answer["result"]), (&json!(1), &json!(3)));
    }
    let interrupt = format!("kill -INT {}", server.child.id());
    let status = Command::new("sh").args(["-c", &interrupt]).status();
    assert!(status.unwrap().success());
    while events.line() != "event: end" {}
    assert!(server.end().0.success());
}
