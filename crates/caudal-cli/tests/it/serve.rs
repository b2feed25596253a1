//! `caudal serve`: what it says, whom it lets in, and how it ends.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use crate::support::{LIMIT, PROGRAM, Served, caudal, finish, paste, path, run};

const ADD: &str = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;

/// Status line and body of a POST.
fn post(server: &Served, headers: &str, body: &str) -> (String, String) {
    let (head, body) = exchange(server, headers, body);
    (head.lines().next().unwrap().to_owned(), body)
}

/// Head and body of the response to a POST.
fn exchange(server: &Served, headers: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(
        stream,
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn it_says_where_it_listens_and_what_to_try() {
    let server = Served::on("http://127.0.0.1:0/rpc", &[]);
    let base = server.endpoint.strip_prefix("http://").unwrap();
    assert!(!base.contains(":0/"), "{base}");
    let tries = server.tries();
    for part in [
        format!("call http://{base} add"),
        format!("call ws://{base} "),
        format!("call 'http://{base}#sse' "),
        format!("call 'http://{base}#poll' "),
        format!("curl http://{base} "),
    ] {
        let found = tries.iter().filter(|line| line.contains(&part));
        assert_eq!(found.count(), 1, "{part}: {tries:?}");
    }
    let (status, body) = post(&server, "", ADD);
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert_eq!(body, r#"{"jsonrpc":"2.0","id":1,"result":3}"#);
}

#[test]
fn what_it_says_works_when_pasted() {
    let socket = path("it's a.sock");
    for listen in [
        "tcp://127.0.0.1:0?framing=header",
        &format!("unix:{}", socket.display()),
    ] {
        let server = Served::on(listen, &[]);
        let tries = server.tries();
        assert_eq!(tries.len(), 2, "{tries:?}");
        paste(&tries[0]).ends(0).prints("3\n");
        let ticks = paste(&tries[1]);
        ticks.ends(0).prints("{\"ticks\":3}\n");
        assert_eq!(ticks.stderr.lines().count(), 3, "{ticks:?}");
    }
}

#[test]
fn what_it_says_is_short_where_it_was_built() {
    let program = Path::new(PROGRAM);
    let target = program.ancestors().find(|path| path.ends_with("target"));
    let Some(project) = target.and_then(Path::parent) else {
        eprintln!("NOT COUNTED: it was built elsewhere");
        return;
    };
    let mut command = caudal(&["serve", "--listen", "tcp://127.0.0.1:0"]);
    command.current_dir(project);
    let server = Served::start(command);
    let heading = "\nTry, in another terminal, in this folder:\n";
    assert!(server.banner.contains(heading), "{}", server.banner);
    let line = &server.tries()[0];
    assert!(line.starts_with("target/"), "{line}");
    let mut pasted = Command::new("sh");
    pasted.args(["-c", line]).current_dir(project);
    finish(pasted, "").ends(0).prints("3\n");
    let elsewhere = Served::tcp();
    assert!(
        elsewhere.tries()[0].starts_with('/'),
        "{}",
        elsewhere.banner
    );
    assert!(!elsewhere.banner.contains("in this folder"));
}

#[test]
fn its_line_for_curl_works_when_pasted() {
    if paste("curl --version").code != Some(0) {
        eprintln!("NOT COUNTED: there is no curl");
        return;
    }
    for more in [&[][..], &["--token", "it's$HOME"]] {
        let server = Served::on("http://127.0.0.1:0/rpc", more);
        let line = server.tries().pop().unwrap();
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":3}"#;
        paste(&format!("{line} -s")).ends(0).prints(answer);
    }
}

#[test]
fn a_token_is_asked_for() {
    let server = Served::on("http://127.0.0.1:0/rpc", &["--token", "s3cret"]);
    assert_eq!(post(&server, "", ADD).0, "HTTP/1.1 401 Unauthorized");
    let wrong = "Authorization: Bearer s3cre7\r\n";
    assert_eq!(post(&server, wrong, ADD).0, "HTTP/1.1 401 Unauthorized");
    let right = "Authorization: Bearer s3cret\r\n";
    assert_eq!(post(&server, right, ADD).0, "HTTP/1.1 200 OK");
    assert!(server.tries().iter().all(|line| line.contains("s3cret")));
}

#[test]
fn a_token_of_the_environment_is_asked_for_and_not_shown() {
    let mut command = caudal(&["serve", "--listen", "http://127.0.0.1:0/rpc"]);
    command.env("CAUDAL_TOKEN", "s3cret");
    let server = Served::start(command);
    assert_eq!(post(&server, "", ADD).0, "HTTP/1.1 401 Unauthorized");
    let right = "Authorization: Bearer s3cret\r\n";
    assert_eq!(post(&server, right, ADD).0, "HTTP/1.1 200 OK");
    assert!(!server.banner.contains("s3cret"), "{}", server.banner);
}

#[test]
fn a_token_of_the_environment_is_not_wanted_where_it_is_not_checked() {
    for (listen, wanted) in [
        ("tcp://127.0.0.1:0", false),
        ("http://127.0.0.1:0/rpc", true),
    ] {
        let mut command = caudal(&["serve", "--listen", listen]);
        command.env("CAUDAL_TOKEN", "s3cret");
        let banner = &Served::start(command).banner;
        assert_eq!(
            banner.contains("that has CAUDAL_TOKEN too"),
            wanted,
            "{banner}"
        );
    }
}

/// A variable that was meant to keep others out, and is empty, would let them in.
#[test]
fn a_token_of_the_environment_that_is_none_is_refused() {
    let bad: [&[u8]; 5] = [b"", b" ", b"a b", "\u{e9}".as_bytes(), b"\xff"];
    for bad in bad.map(OsStr::from_bytes) {
        let serve = ["serve", "--listen", "http://127.0.0.1:0/rpc"];
        for args in [serve, ["call", "http://127.0.0.1:1/", "add"]] {
            let mut command = caudal(&args);
            command.env("CAUDAL_TOKEN", bad);
            let parts = ["`CAUDAL_TOKEN` must be visible ASCII", "unset it"];
            finish(command, "").ends(1).prints("").complains(&parts);
        }
    }
}

#[test]
fn a_port_that_is_taken_is_an_error_that_says_what_to_do() {
    for listen in ["http://127.0.0.1:0/rpc", "tcp://127.0.0.1:0"] {
        let server = Served::on(listen, &[]);
        let outcome = run(&["serve", "--listen", &server.endpoint]);
        outcome.ends(1).prints("").complains(&[
            &server.endpoint,
            "another program has this port",
            &format!("--listen {listen}"),
        ]);
        // What the library advises is the same in other words.
        assert!(!outcome.stderr.contains("whoever"), "{outcome:?}");
    }
    let socket = path("taken.sock");
    let server = Served::on(&format!("unix:{}", socket.display()), &[]);
    run(&["serve", "--listen", &server.endpoint])
        .ends(1)
        .complains(&["another server listens on it", "choose another path"]);
}

#[test]
fn wrong_usage_is_refused() {
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--listen", "http://0.0.0.0:0/rpc"],
            &["--allow-remote", "--token"],
        ),
        (&["--listen", "tcp://0.0.0.0:0"], &["--allow-remote"]),
        (
            &["--listen", "https://127.0.0.1:0/"],
            &["needs a certificate", "--cert", "--key"],
        ),
        (
            &["--listen", "wss://127.0.0.1:0/"],
            &["needs a certificate"],
        ),
        (
            &["--cert", "a.pem", "--key", "b.pem"],
            &[
                "`--cert` is for https:// and wss://",
                "`https://127.0.0.1:4100/rpc`",
            ],
        ),
        (
            &["--listen", "unix:a", "--cert", "a.pem", "--key", "b.pem"],
            &["`--cert` is for https:// and wss://"],
        ),
        (
            &["--listen", "https://127.0.0.1:0/", "--cert", "a.pem"],
            &["--key <FILE>"],
        ),
        (
            &[
                "--listen",
                "https://127.0.0.1:0/",
                "--cert",
                "/no/cert.pem",
                "--key",
                "/no/key.pem",
            ],
            &["/no/cert.pem", "No such file"],
        ),
        (
            &["--listen", "tcp://127.0.0.1:0", "--token", "t"],
            &["let everybody in"],
        ),
        (
            &["--listen", "http://127.0.0.1:0", "--framing", "line"],
            &["its own framing"],
        ),
        (
            &["--listen", "cmd:cat"],
            &["cannot be served", "caudal call METHOD"],
        ),
        (&["--listen", ""], &["endpoint is empty", "http://"]),
        (
            &["http://127.0.0.1:4555/rpc"],
            &["caudal serve --listen http://127.0.0.1:4555/rpc"],
        ),
        (
            &["--listen", "tcp://192.0.2.1:0", "--allow-remote"],
            &["does not have that address"],
        ),
        (
            &["--listen", "unix:/no/such/folder/a.sock"],
            &["make the folder `/no/such/folder` first"],
        ),
        (&["--listen", "tpc://a:1"], &["did you mean `tcp://a:1`"]),
        (&["--token", "a\nb"], &["visible ASCII"]),
    ];
    for (args, parts) in cases {
        let outcome = run(&[&["serve"], *args].concat());
        outcome.ends(1).prints("").complains(parts);
    }
}

#[test]
fn a_host_that_nobody_can_name_is_refused() {
    for host in [
        "http://x",
        "",
        "*",
        "*.example.org",
        "a b",
        "a/rpc",
        "me@a",
        ":8080",
        "a:",
        "a:http",
        "a:+80",
        "a:99999",
        "a:1:2",
        "::1",
        "[::1",
        "[a]",
        "b\u{fc}cher.example",
    ] {
        let listen = ["serve", "--listen", "http://127.0.0.1:0/rpc"];
        run(&[&listen[..], &["--allow-host", host]].concat())
            .ends(1)
            .prints("")
            .complains(&["--allow-host", "`example.org` or `example.org:8080`"]);
    }
    let server = Served::on(
        "http://127.0.0.1:0/rpc",
        &[
            "--allow-host",
            "example.org:8080",
            "--allow-host",
            "[::2]:1",
        ],
    );
    assert_eq!(post(&server, "", ADD).0, "HTTP/1.1 200 OK");
}

#[test]
fn pages_of_the_origins_that_are_named_are_let_in() {
    for origin in [
        "",
        "*",
        "null",
        "app.example.com",
        "https://",
        "https://app.example.com/",
        "https://app.example.com/rpc",
        "https://*.example.com",
        "https://app.example.com:443",
        "http://localhost:80",
        "http://localhost:abc",
        "://app.example.com",
    ] {
        run(&["serve", "--allow-origin", origin])
            .ends(1)
            .prints("")
            .complains(&["--allow-origin", "://"]);
    }
    let server = Served::on(
        "http://127.0.0.1:0/rpc",
        &[
            "--allow-origin",
            "https://app.example.com",
            "--allow-origin",
            "http://localhost:3000",
        ],
    );
    let own = format!("http://{}", server.address());
    for (origin, status) in [
        ("https://app.example.com", 200),
        ("http://localhost:3000", 200),
        ("http://localhost", 200),
        ("http://localhost:3001", 403),
        ("https://evil.example.com", 403),
        (&own, 403),
    ] {
        let (head, _) = exchange(&server, &format!("Origin: {origin}\r\n"), ADD);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        let shared = format!("access-control-allow-origin: {origin}\r\n");
        assert_eq!(head.contains(&shared), status == 200, "{head}");
        assert!(!head.contains("credentials"), "{head}");
    }
    run(&[
        "serve",
        "--listen",
        "tcp://127.0.0.1:0",
        "--allow-origin",
        "https://app.example.com",
    ])
    .ends(1)
    .complains(&["--allow-origin", "HTTP"]);
}

#[test]
fn a_connection_too_many_is_told_the_limit_that_was_given() {
    for (option, says) in [
        ("--max-connections", "limited to 1 in all"),
        (
            "--max-connections-per-address",
            "from one address are limited to 1",
        ),
    ] {
        let server = Served::on("http://127.0.0.1:0/rpc", &[option, "1"]);
        let held = TcpStream::connect(server.address()).unwrap();
        let (head, body) = exchange(&server, "", ADD);
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        assert!(body.contains(says), "{body}");
        let called = run(&["call", &server.endpoint, "add", "[1,2]"]);
        called.ends(4).complains(&["503", says]);
        drop(held);
    }
    let server = Served::on("tcp://127.0.0.1:0", &["--max-connections", "1"]);
    let held = TcpStream::connect(server.address()).unwrap();
    let called = run(&["call", &server.endpoint, "add", "[1,2]"]);
    called.ends(5).complains(&["-32000", "limited to 1 in all"]);
    drop(held);
}

#[test]
fn messages_and_requests_in_flight_have_the_limits_that_were_given() {
    let small = ["--max-message", "100", "--max-in-flight", "1"];
    let server = Served::on("http://127.0.0.1:0/rpc", &small);
    assert_eq!(post(&server, "", ADD).0, "HTTP/1.1 200 OK");
    let large = format!("{ADD}{}", " ".repeat(100));
    let (status, body) = post(&server, "", &large);
    assert!(status.starts_with("HTTP/1.1 413 "), "{status}");
    assert!(body.contains("-32600"), "{body}");
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":{"ms":1}}"#;
    let server = Served::on("http://127.0.0.1:0/rpc", &["--max-in-flight", "1"]);
    let (_, body) = post(&server, "", &format!("[{call},{call}]"));
    assert_eq!(body.matches("-32000").count(), 1, "{body}");
    let listen = ["serve", "--listen", "stdio:"];
    let line = format!("{large}\n{ADD}\n");
    let outcome = finish(caudal(&[&listen[..], &small].concat()), &line);
    outcome.ends(0);
    assert_eq!(outcome.stdout.matches("-32600").count(), 1, "{outcome:?}");
    assert_eq!(
        outcome.stdout.matches("\"result\":3").count(),
        1,
        "{outcome:?}"
    );
}

#[test]
fn a_limit_that_cannot_be_is_a_usage_error() {
    for (listen, option, value) in [
        ("http://127.0.0.1:0/rpc", "--max-connections", "0"),
        ("http://127.0.0.1:0/rpc", "--max-message", "1M"),
        ("http://127.0.0.1:0/rpc", "--max-in-flight", "many"),
        ("tcp://127.0.0.1:0", "--max-connections-per-address", "5"),
        ("stdio:", "--max-connections", "5"),
    ] {
        run(&["serve", "--listen", listen, option, value])
            .ends(1)
            .prints("")
            .complains(&[option]);
    }
}

#[test]
fn a_token_is_advised_only_where_it_is_checked() {
    let outcome = run(&["serve", "--listen", "tcp://0.0.0.0:0"]);
    outcome.ends(1).complains(&["--allow-remote"]);
    assert!(!outcome.stderr.contains("--token"), "{outcome:?}");
}

/// The first line of the answer to a call that names this host, with the server's port.
fn status_for(server: &Served, host: &str) -> String {
    let (_, port) = server.address().rsplit_once(':').unwrap();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(
        stream,
        "POST /rpc HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{ADD}",
        ADD.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

const GOOD: &str = "HTTP/1.1 200 OK";
const BAD: &str = "HTTP/1.1 403 Forbidden";

#[test]
fn on_a_loopback_address_only_loopbacks_names_and_allowed_hosts_are_answered() {
    for listen in ["http://127.0.0.1:0/rpc", "http://localhost:0/rpc"] {
        let plain = Served::on(listen, &[]);
        let allowed = Served::on(listen, &["--allow-host", "box.example.com"]);
        for server in [&plain, &allowed] {
            for host in ["localhost", "127.0.0.1", "[::1]"] {
                assert_eq!(status_for(server, host), GOOD, "{listen} {host}");
            }
            for host in [
                "127.0.0.2",
                "192.0.2.1",
                "[2001:db8::1]",
                "127.1",
                "b.example",
            ] {
                assert_eq!(status_for(server, host), BAD, "{listen} {host}");
            }
        }
        assert_eq!(status_for(&plain, "box.example.com"), BAD, "{listen}");
        assert_eq!(status_for(&allowed, "box.example.com"), GOOD, "{listen}");
    }
}

#[test]
fn on_every_address_a_name_is_listed_and_a_number_is_not() {
    let server = |more: &[&str]| Served::on("http://0.0.0.0:0/rpc", more);
    let listed = server(&["--allow-remote", "--allow-host", "box.example.com"]);
    let unlisted = server(&["--allow-remote"]);
    let tries = unlisted.tries();
    assert!(tries.iter().all(|line| line.contains("127.0.0.1")));
    let cases = [
        (&unlisted, "192.0.2.1", GOOD),
        (&unlisted, "[2001:db8::1]", GOOD),
        (&unlisted, "localhost", GOOD),
        (&unlisted, "box.example.com", BAD),
        (&unlisted, "127.1", BAD),
        (&unlisted, "[localhost]", BAD),
        (&listed, "192.0.2.1", GOOD),
        (&listed, "localhost", GOOD),
        (&listed, "box.example.com", GOOD),
        (&listed, "other.example.com", BAD),
    ];
    for (server, host, status) in cases {
        assert_eq!(status_for(server, host), status, "{host}");
    }
}

#[test]
fn a_single_post_gets_no_ticks_and_hears_so() {
    let server = Served::on("http://127.0.0.1:0/rpc", &[]);
    let (_, body) = post(
        &server,
        "",
        r#"{"jsonrpc":"2.0","id":1,"method":"ticks.start"}"#,
    );
    assert!(body.contains("\"code\":1002"), "{body}");
}

/// The number in an answer is of use only if the log has it too.
#[test]
fn an_internal_error_is_logged_with_the_number_of_its_answer() {
    let server = Served::on("http://127.0.0.1:0/rpc", &[]);
    let outcome = run(&["call", &server.endpoint, "panic"]);
    outcome.ends(5).complains(&["-32603"]);
    let error: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
    let number = error["data"]["correlation"].as_str().unwrap();
    server.signal("TERM");
    let log = server.end().stderr;
    let mut lines = log.lines();
    let line = lines.find(|line| line.contains(number)).unwrap();
    assert!(line.starts_with("caudal: internal error"), "{log}");
    for part in ["method=panic", "demo/mod.rs"] {
        assert!(line.contains(part), "{log}");
    }
    assert_eq!(log.matches("boom").count(), 1, "{log}");
}

/// A caller must not be able to fill the log, and each answer leads to a line of it.
#[test]
fn a_method_that_always_panics_does_not_fill_the_log() {
    const CALLS: usize = 2_000;
    let mut command = caudal(&["serve", "--listen", "tcp://127.0.0.1:0"]);
    command.env_remove("RUST_BACKTRACE");
    let server = Served::start(command);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut numbers = Vec::new();
    let mut suppressed = 0;
    for _ in 0..CALLS {
        let call = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"panic\"}\n";
        stream.write_all(call).unwrap();
        let answer = answers.next().unwrap().unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let data = &answer["error"]["data"];
        numbers.push(data["correlation"].as_str().unwrap().to_owned());
        suppressed += usize::from(data["suppressed"].as_u64().is_some());
    }
    drop((stream, answers));
    server.signal("TERM");
    let log = server.end().stderr;
    assert!(log.lines().count() < CALLS / 4, "{log}");
    let reports = log.lines().filter(|line| line.contains("correlation="));
    assert_eq!(reports.count() + suppressed, CALLS, "{log}");
    let panics = log
        .lines()
        .filter(|line| line.starts_with("caudal: panic at "));
    assert!(panics.count() >= 10, "{log}");
    numbers.dedup();
    for number in numbers {
        assert!(log.contains(&number), "{number}: {log}");
    }
    for line in log.lines() {
        assert!(line.starts_with("caudal: "), "{line}");
    }
}

#[test]
fn the_help_has_the_methods_as_their_documentation_has() {
    let help = run(&["help", "serve"]).stdout;
    let rows: Vec<Vec<&str>> = help
        .lines()
        .map(|row| row.split_whitespace().collect())
        .collect();
    let documented = include_str!("../../src/demo/mod.rs").lines();
    let documented = documented.filter_map(|line| line.strip_prefix("//! | `"));
    let mut methods = Vec::new();
    for row in documented {
        let plain = row.replace('`', "");
        let (name, rest) = plain.split_once(" | ").unwrap();
        let (params, _) = rest.split_once(" | ").unwrap();
        let row = format!("{name} {params}");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert!(rows.contains(&words), "no `{row}` in {help}");
        methods.extend(name.split(", ").map(str::to_owned));
    }
    let router = caudal_cli::demo::router();
    let mut served: Vec<&str> = router.names().collect();
    served.sort_unstable();
    methods.sort_unstable();
    assert_eq!(methods, served);
}

#[test]
fn stdout_has_nothing_but_the_protocol() {
    let command = caudal(&["serve", "--listen", "stdio:"]);
    let outcome = finish(command, &format!("{ADD}\n{ADD}\n"));
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}\n";
    outcome
        .ends(0)
        .prints(&answer.repeat(2))
        .complains(&["caudal serves its demo methods on stdio:"]);
}

/// `finish` reads stdout, so a shell has to turn it away.
#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    if !Path::new("/dev/full").exists() {
        eprintln!("NOT COUNTED: there is no /dev/full");
        return;
    }
    let serve = format!("{PROGRAM} serve --listen stdio:");
    paste(&format!("echo '{ADD}' | {serve} > /dev/full"))
        .ends(4)
        .complains(&["stdin or stdout failed", "No space left"]);
    // Whoever does not read is no failure.
    let mut bash = Command::new("bash");
    let line = format!("(sleep 0.5; echo '{ADD}') | {serve} | true; exit ${{PIPESTATUS[1]}}");
    bash.args(["-c", &line]);
    finish(bash, "").ends(0);
}

#[test]
fn a_signal_lets_what_runs_finish() {
    for signal in ["INT", "TERM"] {
        for listen in ["tcp://127.0.0.1:0", "http://127.0.0.1:0/rpc"] {
            let server = Served::on(listen, &[]);
            server.signal(signal);
            let outcome = server.end();
            outcome.ends(0).prints("").complains(&["stopping"]);
        }
        let server = Served::tcp();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let slow = r#"{"jsonrpc":"2.0","id":2,"method":"slow","params":{"ms":500}}"#;
        // The answer to the second says that the first has started.
        write!(stream, "{slow}\n{ADD}\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        assert!(lines.next().unwrap().unwrap().contains("\"id\":1"));
        server.signal(signal);
        let answer = lines.next().unwrap().unwrap();
        assert_eq!(answer, r#"{"jsonrpc":"2.0","id":2,"result":500}"#);
        server.end().ends(0);
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let server = Served::tcp();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let slow = r#"{"jsonrpc":"2.0","id":2,"method":"slow","params":{"ms":600000}}"#;
    write!(stream, "{slow}\n{ADD}\n").unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    lines.next().unwrap().unwrap();
    server.signal("INT");
    // It refuses when it has heard the first.
    loop {
        writeln!(stream, "{ADD}").unwrap();
        if lines.next().unwrap().unwrap().contains("error") {
            break;
        }
    }
    server.signal("INT");
    server.end().ends(130);
}

#[test]
fn a_socket_is_removed_in_the_end() {
    let socket = path("b.sock");
    let server = Served::on(&format!("unix:{}", socket.display()), &[]);
    assert!(socket.exists());
    server.signal("TERM");
    server.end().ends(0);
    assert!(!socket.exists());
}

#[test]
fn cargo_runs_this_program() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    // What is packaged has no workspace around it.
    let Ok(workspace) = std::fs::read_to_string(root) else {
        return;
    };
    assert!(workspace.contains(r#"default-members = ["crates/caudal-cli", "examples"]"#));
    let mut help = Command::new(PROGRAM);
    help.arg("serve").arg("--help");
    finish(help, "").ends(0);
}

#[test]
fn what_cannot_be_served_is_not_proposed() {
    for (listen, proposed) in [
        ("foo", "tcp://127.0.0.1:4100 or unix:PATH"),
        ("foo bar:1", "tcp://127.0.0.1:4100 or unix:PATH"),
        ("cmb:foo", "tcp://127.0.0.1:4100 or unix:PATH"),
        (
            "ftp://foo",
            "http:// https:// ws:// wss:// tcp:// unix: stdio:",
        ),
        ("/tmp/a.sock", "try `unix:/tmp/a.sock`"),
        ("localhost:4100/rpc", "try `http://localhost:4100/rpc`"),
    ] {
        let outcome = run(&["serve", "--listen", listen]);
        outcome.ends(1).complains(&[listen, proposed]);
        assert!(!outcome.stderr.contains("cmd:"), "{outcome:?}");
    }
}

#[test]
fn what_a_caller_chooses_is_not_dropped_in_silence() {
    for fragment in ["#sse", "#poll"] {
        let server = Served::on(&format!("http://127.0.0.1:0/rpc{fragment}"), &[]);
        assert!(!server.endpoint.contains('#'), "{}", server.endpoint);
        let to = format!("{}{fragment}", server.endpoint);
        run(&["call", &to, "add", "[1,2]"]).ends(0).prints("3\n");
        server.signal("TERM");
        server.end().ends(0).complains(&[fragment, "in any case"]);
    }
    let help = run(&["help", "serve"]);
    assert!(
        help.stdout.contains("#sse and #poll are for `call`"),
        "{help:?}"
    );
}

#[test]
fn a_file_in_the_way_is_told_once() {
    let file = path("file");
    std::fs::write(&file, "").unwrap();
    let outcome = run(&["serve", "--listen", &format!("unix:{}", file.display())]);
    outcome.ends(1).complains(&["else than a socket"]);
    assert_eq!(outcome.stderr.matches("choose another").count(), 1);
}
