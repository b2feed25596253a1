//! `caudal call`: results, params, and every exit code.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use crate::support::{
    Outcome, PROGRAM, Served, answering, caudal, eventually, fake, finish, nobody, paste, path,
    run, wait,
};

fn served_by_child(args: &[&str]) -> Outcome {
    let mut command = caudal(args);
    command.args(["--", PROGRAM, "serve", "--listen", "stdio:"]);
    finish(command, "")
}

// ---- results ----

#[test]
fn every_transport_without_http_gives_the_result() {
    let socket = path("a.sock");
    let unix = format!("unix:{}", socket.display());
    for listen in ["tcp://127.0.0.1:0", &unix] {
        for framing in ["line", "header", "concatenated"] {
            let server = Served::on(listen, &["--framing", framing]);
            let outcome = run(&["call", &server.endpoint, "add", "[1,2]"]);
            outcome.ends(0).prints("3\n");
            assert_eq!(outcome.stderr, "");
            let bare = server.endpoint.split('?').next().unwrap();
            let outcome = run(&["call", bare, "add", "[1,2]", "--framing", framing]);
            outcome.ends(0).prints("3\n");
        }
    }
    let command = format!("cmd:{PROGRAM} serve --listen stdio:");
    run(&["call", &command, "add", "[1,2]"])
        .ends(0)
        .prints("3\n");
}

#[test]
fn a_program_stands_after_two_dashes() {
    served_by_child(&["call", "add", "[1,2]"])
        .ends(0)
        .prints("3\n");
    served_by_child(&["call", "get_data"])
        .ends(0)
        .prints("[\"hello\",5]\n");
    let mut command = caudal(&["call", "--framing", "header", "add", "[1,2]", "--"]);
    command.args([
        PROGRAM,
        "serve",
        "--listen",
        "stdio:",
        "--framing",
        "header",
    ]);
    finish(command, "").ends(0).prints("3\n");
}

#[test]
fn numbers_keep_every_digit() {
    let server = Served::tcp();
    let exact = r#"[123456789012345678901234567890,-0.0,1.50,1E400,9007199254740993]"#;
    let outcome = run(&["call", &server.endpoint, "echo", exact]);
    outcome.ends(0).prints(&format!("{exact}\n"));
}

#[test]
fn a_result_is_one_line_where_nobody_looks() {
    let (address, _server) =
        answering("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{ \"a\" : [ 1, 2 ] }}\n");
    let outcome = run(&["call", &format!("tcp://{address}"), "x"]);
    outcome.ends(0).prints("{\"a\":[1,2]}\n");
}

#[test]
fn params_come_from_stdin() {
    let server = Served::tcp();
    let command = caudal(&["call", &server.endpoint, "echo", "-"]);
    let outcome = finish(command, "{\n  \"a\": [1,\n 2]\n}\n");
    outcome.ends(0).prints("{\"a\":[1,2]}\n");
    let command = caudal(&["call", &server.endpoint, "echo", "-"]);
    finish(command, "oops")
        .ends(1)
        .complains(&["PARAMS from stdin is not JSON"]);
    for (text, hint) in [
        ("[1,2", "one array or object"),
        ("5\n", "try [5]"),
        ("\u{feff}[1]", "byte order mark"),
    ] {
        let command = caudal(&["call", &server.endpoint, "echo", "-"]);
        let outcome = finish(command, text);
        outcome.ends(1).complains(&["PARAMS from stdin", hint]);
        assert!(!outcome.stderr.contains("quotes"), "{outcome:?}");
        assert!(!outcome.stderr.contains('\''), "{outcome:?}");
    }
}

#[test]
fn no_params_are_none() {
    let (address, server) = fake(|line, stream| {
        assert!(!line.contains("params"), "{line}");
        stream
            .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n")
            .unwrap();
    });
    run(&["call", &format!("tcp://{address}"), "x"])
        .ends(0)
        .prints("null\n");
    server.join().unwrap();
}

#[test]
fn a_notification_has_no_id_and_prints_nothing() {
    let (address, server) = fake(|line, stream| {
        let expected = "{\"jsonrpc\":\"2.0\",\"method\":\"reload\",\"params\":[1]}\n";
        assert_eq!(line, expected);
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    });
    let to = format!("tcp://{address}");
    run(&["call", &to, "reload", "[1]", "--notify"])
        .ends(0)
        .prints("");
    server.join().unwrap();
    run(&["call", &to, "reload", "--notify"]).ends(4);
    served_by_child(&["call", "update", "--notify"])
        .ends(0)
        .prints("");
}

#[test]
fn notifications_are_shown_on_demand() {
    let server = Served::tcp();
    let ticks = r#"{"every_ms":1,"count":3,"wait":true}"#;
    let call = ["call", &server.endpoint, "ticks.start", ticks];
    let quiet = run(&call);
    quiet.ends(0).prints("{\"ticks\":3}\n");
    assert_eq!(quiet.stderr, "");
    let verbose = run(&[&call[..], &["--verbose"]].concat());
    verbose.ends(0).prints("{\"ticks\":3}\n");
    let tick = |n| format!("<-- {{\"jsonrpc\":\"2.0\",\"method\":\"tick\",\"params\":[{n}]}}\n");
    assert_eq!(verbose.stderr, [tick(1), tick(2), tick(3)].concat());
}

#[test]
fn a_program_may_print_before_it_serves() {
    let script = format!("echo starting; exec '{PROGRAM}' serve --listen stdio:");
    let outcome = run(&["call", "add", "[1,2]", "--", "sh", "-c", &script]);
    outcome
        .ends(0)
        .prints("3\n")
        .complains(&["not JSON-RPC", "`starting`"]);
}

/// A language server in Python that prints its first argument to stdout, and answers the
/// call when it has been told so many times what that was.
const PRINTING: &str = r#"
import json, sys
def receive():
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        name, value = line.split(b": ")
        if name == b"Content-Length":
            length = int(value)
    return json.loads(sys.stdin.buffer.read(length))
print(sys.argv[1], end="", flush=True)
messages = [receive() for _ in range(1 + int(sys.argv[2]))]
call = next(message for message in messages if "method" in message)
assert all(message["error"]["code"] == -32700 for message in messages if message != call)
result = sum(call["params"])
body = json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result})
print(f"Content-Length: {len(body)}\r\n\r\n{body}", end="", flush=True)
sys.stdin.read()
"#;

#[test]
fn a_program_may_print_before_its_headers() {
    if Command::new("python3").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stderr(), "NOT COUNTED: python3 is not installed");
        return;
    }
    let block = "Content-Type: text/plain\r\n\r\n";
    let long = format!("{block}{{\"log\":\"{}\"}}", "x".repeat(20_000));
    for (print, told, shown) in [
        ("starting\n", "1", "starting"),
        ("INFO server: starting\n\n", "1", "INFO server"),
        (block, "1", "`Content-Length` is missing"),
        (&long, "1", "`Content-Length` is missing"),
        // What it is shows with the answer, which may end the call first.
        ("loading 50 %", "0", ""),
    ] {
        let call = ["call", "--framing", "header", "add", "[1,2]"];
        let program = ["--", "python3", "-c", PRINTING, print, told];
        let outcome = run(&[&call[..], &program].concat());
        outcome.ends(0).prints("3\n").complains(&[shown]);
    }
    // The endpoint may say it, too.
    let script = path("printing.py");
    std::fs::write(&script, PRINTING).unwrap();
    let to = format!("cmd:python3 {} starting 0?framing=header", script.display());
    run(&["call", &to, "add", "[1,2]"]).ends(0).prints("3\n");
}

/// One line of a program that serves is not why there is no answer.
#[test]
fn what_a_program_prints_first_does_not_hide_how_it_ends() {
    let hangs = "read x; sleep 600";
    for (script, code, cause) in [
        (hangs, 2, "did not answer `x` in 500ms"),
        ("read x; exit 9", 4, "exit status: 9"),
        ("read x; kill -SEGV $$", 4, "signal: 11"),
    ] {
        for framing in ["line", "header"] {
            let script = format!("echo Starting; {script}");
            let call = ["call", "x", "--timeout", "500ms", "--framing", framing];
            let outcome = run(&[&call[..], &["--", "sh", "-c", &script]].concat());
            let came = "what came instead is not JSON-RPC: ";
            outcome.ends(code).prints("").complains(&[cause, came]);
            let (_, said) = outcome.stderr.split_once(came).unwrap();
            assert!(said.contains("Starting"), "{outcome:?}");
        }
    }
    // Here it is: nothing else will come.
    let other = r#"{"jsonrpc":"2.0","id":"other","result":3}"#;
    for script in [
        "echo hello; read x".to_owned(),
        format!("echo '{other}'; {hangs}"),
    ] {
        let call = ["call", "x", "--timeout", "500ms", "--", "sh", "-c", &script];
        run(&call)
            .ends(6)
            .prints("")
            .complains(&["does not answer"]);
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let server = Served::tcp();
    let line = format!(
        "exec 3>&1; ({PROGRAM} call {} echo '[1]'; echo $? >&3) | true",
        server.endpoint
    );
    let mut command = Command::new("bash");
    command.args(["-c", &line]);
    finish(command, "").prints("0\n");
}

// ---- 0 and 1: help and usage ----

#[test]
fn help_and_version_are_no_failures() {
    for args in [
        &["--help"][..],
        &["help", "call"],
        &["call", "--help"],
        &["serve", "-h"],
    ] {
        let outcome = run(args);
        outcome.ends(0);
        assert_eq!(outcome.stderr, "");
        let help = &outcome.stdout;
        assert!(!help.contains('\u{1b}'), "{help}");
        for part in ["Usage:", "Examples:", "Endpoints:", "Exit codes:", "  6  "] {
            assert!(help.contains(part), "no `{part}` in {help}");
        }
    }
    let version = run(&["--version"]);
    let expected = format!("caudal {}\n", env!("CARGO_PKG_VERSION"));
    version.ends(0).prints(&expected);
    let help = run(&["call", "--help"]).stdout;
    for part in [
        "caudal call [OPTIONS] METHOD [PARAMS] -- PROGRAM",
        "--notify",
        "--timeout",
        "--header",
        "--token",
        "CAUDAL_TOKEN",
        "--framing",
        "--verbose",
    ] {
        assert!(help.contains(part), "no `{part}` in {help}");
    }
}

#[test]
fn the_help_says_what_a_notification_waits_for() {
    let help = run(&["help", "call"]).stdout;
    assert!(!help.contains("no answer is waited for"), "{help}");
    let words: Vec<&str> = help.split_whitespace().collect();
    for part in [
        "Over HTTP it waits for the response, which caudal sends when it is handled,",
        "or in a session when it is accepted;",
        "and with a program until that has ended",
    ] {
        assert!(words.join(" ").contains(part), "{help}");
    }
}

#[test]
fn the_help_has_the_exit_codes_of_the_readme() {
    let help = run(&["help"]).stdout;
    let plain = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ").replace('`', "")
    };
    let help = plain(help.split_once("Exit codes:").unwrap().1);
    let readme = include_str!("../../README.md").lines();
    let rows = readme.filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let mut codes = 0;
    for (code, says) in rows.filter_map(|row| row.split_once(" | ")) {
        codes += 1;
        // The help says this one at more length.
        let says = match code {
            "3" => "not let in",
            _ => says,
        };
        for part in plain(says).split("; ") {
            assert!(help.contains(part), "{code}: no `{part}` in {help}");
        }
    }
    assert_eq!(codes, 8);
}

#[test]
fn wrong_usage_says_what_to_write() {
    let to = "tcp://127.0.0.1:1";
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["Usage: caudal"]),
        (&["cal"], &["cal", "call"]),
        (
            &["call"],
            &[
                "ENDPOINT and METHOD are missing",
                "caudal call ENDPOINT METHOD",
            ],
        ),
        (&["call", to], &["METHOD is missing"]),
        (&["call", to, ""], &["METHOD is empty"]),
        (
            &["call", to, "x", "--tiemout", "1s"],
            &["--tiemout", "--timeout"],
        ),
        (&["call", to, "x", "--timeout", "5"], &["no unit", "2s"]),
        (
            &["call", to, "x", "--timeout", "-1s"],
            &["invalid value '-1s' for '--timeout", "longer than nothing"],
        ),
        (
            &["call", to, "x", "--timeout", "0s"],
            &["longer than nothing"],
        ),
        (
            &["call", to, "x", "--framing", "lien"],
            &["line", "header", "concatenated"],
        ),
        (
            &["call", to, "x", "[1,2"],
            &["PARAMS is not JSON", "byte 4", "'[1,2]'"],
        ),
        (
            &["call", to, "x", "hello"],
            &["PARAMS is not JSON", "try '[\"hello\"]'"],
        ),
        (
            &["call", to, "x", ""],
            &["PARAMS is not JSON", "leave it out"],
        ),
        (
            &["call", to, "x", "5"],
            &["an array or an object", "try '[5]'"],
        ),
        (&["call", to, "x", "-5"], &["try '[-5]'"]),
        (
            &["call", to, "x", "1", "two"],
            &["one JSON text", "'[1,\"two\"]'"],
        ),
        (&["call", "x", "1", "2", "--", "true"], &["'[1,2]'"]),
        (
            &["call", "127.0.0.1:4100", "x"],
            &["try `tcp://127.0.0.1:4100`"],
        ),
        (
            &["call", "localhost:4100/rpc", "x"],
            &["try `http://localhost:4100/rpc`"],
        ),
        (
            &["call", "htp://a/rpc", "x"],
            &["did you mean `http://a/rpc`"],
        ),
        (
            &["call", "gopher://a", "x"],
            &["unknown scheme", "tcp://", "https://"],
        ),
        (
            &["call", "add", to],
            &["the endpoint stands first", "call tcp://127.0.0.1:1 add"],
        ),
        (
            &["call", "add", to, "[1, 2]"],
            &["caudal call tcp://127.0.0.1:1 add '[1, 2]'"],
        ),
        (
            &["call", to, "[1, 2]", "add"],
            &["the method stands before its params: add '[1, 2]'"],
        ),
        (
            &["call", r#"{"a":1}"#, "add", "--", "true"],
            &["the method stands before its params: add '{\"a\":1}'"],
        ),
        (&["call", "add"], &["ENDPOINT is missing before `add`"]),
        (
            &["call", "add", "[1,2]", "--"],
            &["the program is missing after `--`", "-- PROGRAM [ARGS]"],
        ),
        (&["call", "", "x"], &["endpoint is empty", "http://"]),
        (&["call", "stdio:", "x"], &["-- PROGRAM"]),
        (&["call", to, "x", "--", "true"], &["two endpoints"]),
        (
            &["call", to, "x", "--token", "t"],
            &["--token", "http(s)://"],
        ),
        (
            &["call", to, "x", "--header", "A: b"],
            &["--header", "http(s)://"],
        ),
        (
            &["call", "http://a", "x", "--framing", "line"],
            &["its own framing"],
        ),
        (
            &["call", "tcp://a:1?framing=header", "x", "--framing", "line"],
            &["`tcp://a:1?framing=header`", "leave one of them out"],
        ),
        (&["call", "http://a", "x", "--header", "A"], &["no colon"]),
        (&["call", "http://a", "x", "--header", "A b: c"], &["`A b`"]),
        (
            &["call", "http://a", "x", "--header", "Host: c"],
            &["cannot set `host`"],
        ),
        (
            &["call", "http://a", "x", "--header", "A: s3\u{1}"],
            &["not visible ASCII"],
        ),
        (
            &["call", "http://a", "x", "--token", "a b"],
            &["visible ASCII"],
        ),
        (&["call", "http://a", "x", "--token", ""], &["not empty"]),
        (
            &[
                "call",
                "http://a",
                "x",
                "--token",
                "t",
                "--header",
                "authorization: y",
            ],
            &["leave one out"],
        ),
        (&["serve", "extra"], &["extra"]),
    ];
    for (args, parts) in cases {
        let outcome = run(args);
        outcome.ends(1).prints("").complains(parts);
        assert!(!outcome.stderr.contains("s3"), "{outcome:?}");
    }
}

#[test]
fn what_cannot_be_called_is_not_proposed() {
    for args in [&["call", "", "x"][..], &["call", "gopher://a", "x"]] {
        let outcome = run(args);
        assert!(!outcome.stderr.contains("stdio:"), "{outcome:?}");
    }
    let outcome = run(&["call", "add"]);
    assert!(!outcome.stderr.contains("cmd:"), "{outcome:?}");
}

/// What stands after two dashes is a program here, and no value.
#[test]
fn an_unknown_option_is_not_to_be_passed_as_a_program() {
    for args in [
        &["call", "tcp://127.0.0.1:1", "x", "--bogus"][..],
        &["call", "x", "-z"],
        &["serve", "--bogus"],
    ] {
        let outcome = run(args);
        outcome
            .ends(1)
            .complains(&["unexpected argument", "--help"]);
        assert!(!outcome.stderr.contains("as a value"), "{outcome:?}");
    }
}

#[test]
fn a_token_of_the_environment_is_no_obstacle() {
    let server = Served::tcp();
    let mut command = caudal(&["call", &server.endpoint, "add", "[1,2]"]);
    command.env("CAUDAL_TOKEN", "t");
    finish(command, "").ends(0).prints("3\n");
}

// ---- 2: too slow ----

#[test]
fn no_answer_in_time_ends_with_2() {
    let server = Served::tcp();
    let slow = ["call", &server.endpoint, "slow", r#"{"ms":600000}"#];
    run(&[&slow[..], &["--timeout", "200ms"]].concat())
        .ends(2)
        .prints("")
        .complains(&[&server.endpoint, "`slow`", " in 200ms;", "--timeout"]);
    run(&["call", "x", "--timeout", "100ms", "--", "sleep", "600"]).ends(2);
}

/// Calls with a stderr that nobody reads; says how it ended.
fn unread(said: String, timeout: &str) -> Option<i32> {
    let (address, _server) = fake(move |_, stream| {
        // The other side goes without reading all.
        let _ = stream.write_all(said.as_bytes());
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let to = format!("tcp://{address}");
    let mut command = caudal(&["call", &to, "x", "--verbose", "--timeout", timeout]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let unread = child.stderr.take().unwrap();
    let status = wait(&mut child);
    drop(unread);
    status.code()
}

#[test]
fn who_does_not_read_what_it_says_does_not_keep_it() {
    let long = "x".repeat(200_000);
    // Not by what it says in the end,
    let error = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":"{long}"}}}}"#);
    assert_eq!(unread(format!("{error}\n"), "2s"), Some(5));
    // nor by what it shows before, be it long
    let shown = format!(r#"{{"jsonrpc":"2.0","method":"{long}"}}"#);
    assert_eq!(unread(format!("{shown}\n"), "300ms"), Some(2));
    // or much.
    let shown = r#"{"jsonrpc":"2.0","method":"tick"}"#.to_owned() + "\n";
    assert_eq!(unread(shown.repeat(10_000), "300ms"), Some(2));
}

#[test]
fn what_came_and_is_no_whole_message_is_told() {
    // It ends without a line break.
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}";
    for framing in ["line", "header"] {
        let (address, _server) = answering(answer);
        let to = format!("tcp://{address}?framing={framing}");
        run(&["call", &to, "x", "--timeout", "500ms"])
            .ends(2)
            .prints("")
            .complains(&[
                &address,
                " in 500ms: ",
                "the 35 bytes that came are no whole message",
                "--framing concatenated",
                "--timeout",
            ]);
    }
    let (address, _server) = answering(answer);
    let to = format!("tcp://{address}?framing=concatenated");
    run(&["call", &to, "x"]).ends(0).prints("3\n");
    // Where nothing came no framing helps.
    let (address, _server) = answering("");
    let to = format!("tcp://{address}");
    let outcome = run(&["call", &to, "x", "--timeout", "200ms"]);
    outcome.ends(2);
    assert!(!outcome.stderr.contains("--framing"), "{outcome:?}");
}

#[test]
fn a_program_that_is_too_slow_is_killed_at_once() {
    let ended = path("ended");
    // Whoever waits for its end lets it see the end of its input.
    let script = format!(
        "trap '' TERM; cat > /dev/null; echo > {}; sleep 600",
        ended.display()
    );
    for say in ["", "echo hello; "] {
        let script = format!("{say}{script}");
        run(&["call", "x", "--timeout", "300ms", "--", "sh", "-c", &script])
            .ends(2)
            .prints("");
        assert!(!ended.exists(), "{script}");
    }
}

/// Nobody runs on, and what it has logged is there to be read.
#[test]
fn a_program_is_not_spoken_of_as_a_server_elsewhere() {
    let script = |script| ["--timeout", "300ms", "--", "sh", "-c", script];
    for (more, script, code, says) in [
        (&[][..], script("sleep 600"), 2, "in 300ms, and was ended;"),
        (
            &[],
            script("printf {; sleep 600"),
            2,
            "or it needs a longer",
        ),
        (
            &["--notify"],
            script("sleep 600"),
            2,
            "300ms), and was ended",
        ),
        (&[], script("exit 3"), 4, "if it has said why"),
    ] {
        let outcome = run(&[&["call", "x"][..], more, &script].concat());
        outcome.ends(code).complains(&[says]);
        for other in ["still run", "own log"] {
            assert!(!outcome.stderr.contains(other), "{outcome:?}");
        }
    }
}

// ---- 4: not there ----

#[test]
fn whoever_is_not_there_ends_with_4() {
    let address = nobody();
    let refused = format!("tcp://{address}");
    let socket = path("none.sock");
    let socket = format!("unix:{}", socket.display());
    let cases: &[(&[&str], &str)] = &[
        (&["call", &refused, "x"], "nobody listens there"),
        (&["call", &refused, "x", "--notify"], "nobody listens there"),
        (&["call", &socket, "x"], "no such socket"),
        (&["call", "x", "--", "/no/such/program"], "no such program"),
        (&["call", "x", "--", "/"], "it is a directory"),
        (&["call", "x", "--", "/etc/passwd"], "permissions"),
        (
            &["call", "tcp://no-such-host.invalid:1", "x"],
            "check the address",
        ),
        (&["call", "x", "--", "true"], "ended without an answer"),
        (
            &["call", "x", "--", "sh", "-c", "read x; exit 7"],
            "exit status: 7",
        ),
    ];
    for (args, part) in cases {
        run(args).ends(4).prints("").complains(&[part]);
    }
}

#[test]
fn a_file_that_is_no_socket_is_called_so() {
    let file = path("file");
    std::fs::write(&file, "").unwrap();
    let outcome = run(&["call", &format!("unix:{}", file.display()), "x"]);
    outcome.ends(4).complains(&["no socket"]);
    assert!(!outcome.stderr.contains("listens"), "{outcome:?}");
}

#[test]
fn what_to_try_is_said_once() {
    let address = nobody();
    let refused = format!("tcp://{address}");
    let outcome = run(&["call", &refused, "x"]);
    let begin = format!("caudal: cannot connect to `{refused}`: ");
    assert!(outcome.stderr.starts_with(&begin), "{outcome:?}");
    let hint = "; nobody listens there; is the server running, and is this its address?\n";
    assert!(outcome.stderr.ends_with(hint), "{outcome:?}");
    let socket = format!("unix:{}", path("none.sock").display());
    for args in [
        &["call", &socket, "x"][..],
        &["call", "x", "--", "/no/such/program"],
        &["call", &format!("http://{address}/rpc"), "x"],
    ] {
        let outcome = run(args);
        let what = match args.contains(&"--") {
            true => "cannot start `/no/such/program`: ",
            false => "cannot connect to `",
        };
        outcome.ends(4).complains(&[what]);
        for twice in ["start the server first", "install the program", "mend"] {
            assert!(!outcome.stderr.contains(twice), "{outcome:?}");
        }
    }
    for scheme in ["tcp", "http", "ws", "https"] {
        let to = format!("{scheme}://127.0.0.1:0");
        let outcome = run(&["call", &to, "x"]);
        outcome.ends(4).complains(&["port 0 is for listening"]);
    }
}

#[test]
fn how_a_program_failed_is_told_as_it_was() {
    let script = |text: &str| {
        let file = path("program");
        std::fs::write(&file, text).unwrap();
        paste(&format!("chmod +x {}", file.display())).ends(0);
        file
    };
    let strange = script("#!/no/such/shell\n");
    let text = script("no program\n");
    for (program, says) in [
        (strange.to_str().unwrap(), "first line names"),
        (text.to_str().unwrap(), "a script begins with `#!`"),
    ] {
        let outcome = run(&["call", "x", "--", program]);
        outcome
            .ends(4)
            .prints("")
            .complains(&["cannot start `", program, says]);
        assert!(!outcome.stderr.contains("server"), "{outcome:?}");
    }
    for (script, says) in [
        (
            "exit 3",
            "exit status: 3; if it has said why, that is on stderr; the call may have run",
        ),
        (
            "echo no >&2; exit 3",
            "exit status: 3; if it has said why, that is on stderr",
        ),
        ("kill -KILL $$", "signal: 9 (SIGKILL); if it has said why"),
        (
            "exit 0",
            "exit status: 0; does it serve JSON-RPC through its stdin and stdout?",
        ),
    ] {
        for more in [&["x"][..], &["x", "--notify"]] {
            let outcome = run(&[&["call"], more, &["--", "sh", "-c", script]].concat());
            // Whoever is told something may end well.
            if script == "exit 0" && more.len() == 2 {
                continue;
            }
            let what = match more.len() {
                1 => "ended without an answer to `x`: ",
                _ => "may not have taken `x`: ",
            };
            outcome.ends(4).prints("").complains(&[what, says]);
            for other in ["above", "connection", "own log"] {
                assert!(!outcome.stderr.contains(other), "{outcome:?}");
            }
        }
    }
}

#[test]
fn a_connection_that_is_lost_ends_with_4() {
    let (address, _server) = fake(|_, _| ());
    run(&["call", &format!("tcp://{address}"), "x"])
        .ends(4)
        .prints("")
        .complains(&["ended too early", "closed by the other side"]);
}

// ---- 5: the server's own errors ----

#[test]
fn an_error_of_the_server_is_json_on_stderr() {
    let server = Served::tcp();
    let outcome = run(&["call", &server.endpoint, "fail"]);
    outcome.ends(5).prints("");
    assert_eq!(
        outcome.stderr,
        "{\"code\":1001,\"message\":\"failed on purpose\",\"data\":{\"why\":\"test\"}}\n",
    );
    run(&["call", &server.endpoint, "no.such"])
        .ends(5)
        .complains(&["\"code\":-32601", "no.such"]);
    run(&["call", &server.endpoint, "panic"]).ends(5);
    run(&["call", &server.endpoint, "add", "[1,2]"]).ends(0);
}

#[test]
fn a_status_in_an_error_means_nothing_without_http() {
    let (address, _server) = answering(
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"x\",\"data\":{\"status\":401}}}\n",
    );
    run(&["call", &format!("tcp://{address}"), "x"]).ends(5);
}

#[test]
fn an_error_without_an_id_is_the_answer() {
    let (address, _server) = answering(
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}\n",
    );
    run(&["call", &format!("tcp://{address}"), "x"])
        .ends(5)
        .complains(&["-32700"]);
}

// ---- 6: not JSON-RPC ----

#[test]
fn what_is_not_json_rpc_ends_with_6() {
    let answers = [
        "SSH-2.0-OpenSSH_9.9\n",
        "{\"id\":1,\"result\":3}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3,\"error\":{\"code\":1,\"message\":\"\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":\"x\",\"message\":\"\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":3}\n",
        "[]\n",
        "\u{1b}[2J\n",
    ];
    for answer in answers {
        let (address, _server) = answering(answer);
        let outcome = run(&["call", &format!("tcp://{address}"), "x"]);
        outcome
            .ends(6)
            .prints("")
            .complains(&[&address, "JSON-RPC", "--framing"]);
        assert!(!outcome.stderr.contains('\u{1b}'), "{outcome:?}");
    }
}

/// Answers of old servers, how a lenient call of them ends, and what it shows.
const OLD: [(&str, i32, &str); 7] = [
    (
        r#"{"jsonrpc":"2.0","id":1,"result":3,"error":null}"#,
        0,
        "3\n",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"result":null,"error":null}"#,
        0,
        "null\n",
    ),
    (r#"{"jsonrpc":"2.0","id":"1","result":3}"#, 0, "3\n"),
    (
        r#"[{"jsonrpc":"2.0","id":"1","error":null,"result":3}]"#,
        0,
        "3\n",
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":7,"message":"no"}}"#,
        5,
        "\"code\":7",
    ),
    (
        r#"{"jsonrpc":"2.0","id":"1","error":{"code":7,"message":"no"}}"#,
        5,
        "\"code\":7",
    ),
    (
        r#"{"jsonrpc":"2.0","id":null,"result":null,"error":{"code":7,"message":"no"}}"#,
        5,
        "\"code\":7",
    ),
];

/// A server that reads a line, and answers with this one.
fn speaking(answer: &str) -> (String, JoinHandle<()>) {
    let answer = format!("{answer}\n");
    fake(move |_, stream| {
        stream.write_all(answer.as_bytes()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

#[test]
fn what_an_old_server_answers_is_accepted_with_lenient_and_names_it_without() {
    for (answer, code, shows) in OLD {
        let script = format!("read x; echo '{answer}'; cat > /dev/null");
        let by_program = ["x", "--timeout", "1h", "--", "sh", "-c", &script];
        for lenient in [false, true] {
            let (address, _server) = speaking(answer);
            let to = format!("tcp://{address}");
            for call in [&[&to, "x"][..], &by_program] {
                let more = if lenient { &["--lenient"][..] } else { &[] };
                let outcome = run(&[&["call"], more, call].concat());
                match lenient {
                    false => {
                        let complaint = ["JSON-RPC 2.0", answer, "`--lenient`"];
                        outcome.ends(6).prints("").complains(&complaint);
                        for other in ["passed over", "--framing"] {
                            assert!(!outcome.stderr.contains(other), "{outcome:?}");
                        }
                    }
                    true if code == 0 => {
                        outcome.ends(0).prints(shows);
                        assert_eq!(outcome.stderr, "");
                    }
                    true => {
                        outcome.ends(code).prints("").complains(&[shows]);
                    }
                }
            }
        }
    }
    // It changes nothing for others.
    let server = Served::tcp();
    run(&["call", "--lenient", &server.endpoint, "add", "[1,2]"])
        .ends(0)
        .prints("3\n");
}

#[test]
fn lenient_is_not_named_where_it_would_not_help() {
    for answer in [
        r#"{"jsonrpc":"2.0","id":1,"result":3,"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":null,"error":"no"}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":"2","result":3,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":"01","result":3}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":3,"error":null}"#,
        r#"{"id":1,"result":3,"error":null}"#,
        r#"{"jsonrpc":"2.0","method":"m","id":"1","result":3,"error":null}x"#,
        "[]",
    ] {
        for more in [&[][..], &["--lenient"]] {
            let (address, _server) = speaking(answer);
            let to = format!("tcp://{address}");
            let outcome = run(&[&["call", &to, "x"][..], more].concat());
            outcome.ends(6).prints("").complains(&["JSON-RPC"]);
            assert!(!outcome.stderr.contains("--lenient"), "{outcome:?}");
        }
    }
    // An answer that can be read came behind it.
    let late = r#"{"jsonrpc":"2.0","id":"2","result":4,"error":null}
{"jsonrpc":"2.0","id":1,"result":3}"#;
    let script = format!("read x; echo '{late}'; cat > /dev/null");
    let outcome = run(&["call", "x", "--", "sh", "-c", &script]);
    outcome.ends(0).prints("3\n");
    assert!(!outcome.stderr.contains("--lenient"), "{outcome:?}");
}

#[test]
fn the_wrong_framing_ends_with_6() {
    let (address, _server) = fake(|_, stream| {
        let _ = stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let to = format!("tcp://{address}?framing=header");
    run(&["call", &to, "x"]).ends(6).prints("");
}

#[test]
fn a_port_that_speaks_http_or_tls_is_called_so() {
    let http = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let tls = "\u{15}\u{3}\u{3}\0\u{2}\u{2}2\n";
    for (answer, parts) in [
        (http, ["speaks HTTP", "call it as http:// or ws://"]),
        (tls, ["seems to speak TLS", "call it as https:// or wss://"]),
    ] {
        for framing in ["line", "header", "concatenated"] {
            let (address, _server) = answering(answer);
            let to = format!("tcp://{address}?framing={framing}");
            let outcome = run(&["call", &to, "x"]);
            outcome.ends(6).prints("").complains(&parts);
            assert!(!outcome.stderr.contains("--framing"), "{outcome:?}");
        }
    }
    let server = Served::on("http://127.0.0.1:0/rpc", &[]);
    let to = format!("tcp://{}", server.address());
    for framing in ["line", "header", "concatenated"] {
        run(&["call", &to, "x", "--framing", framing])
            .ends(6)
            .complains(&["speaks HTTP"]);
    }
}

#[test]
fn a_program_that_only_prints_ends_with_6() {
    let outcome = run(&["call", "x", "--", "sh", "-c", "echo usage: none; read x"]);
    outcome.ends(6).prints("").complains(&["`usage: none`"]);
}

/// `cat` sends our request back; the answer to that, too, is not its own.
#[test]
fn who_sends_back_what_it_was_sent_has_not_answered() {
    for args in [
        &["call", "cmd:cat", "add", "[1,2]"][..],
        &["call", "add", "--", "cat"],
        &["call", "cmd:cat?framing=header", "add"],
    ] {
        run(args).ends(6).prints("").complains(&[
            "cmd:cat",
            "sends back what it was sent",
            "serve JSON-RPC",
        ]);
    }
    // Whoever only asks the same is a peer like any other.
    let (address, _server) = fake(|line, stream| {
        stream.write_all(line.as_bytes()).unwrap();
        stream
            .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}\n")
            .unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    run(&["call", &format!("tcp://{address}"), "add", "[1,2]"])
        .ends(0)
        .prints("3\n");
}

// ---- 130: interrupted ----

fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_call_that_waits_for_its_params_can_be_interrupted() {
    for name in ["INT", "TERM"] {
        let mut child = caudal(&["call", "tcp://127.0.0.1:1", "add", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // More than a pipe holds: it reads, and waits for more.
        stdin.write_all(" ".repeat(1 << 20).as_bytes()).unwrap();
        signal(&child, name);
        assert_eq!(crate::support::wait(&mut child).code(), Some(130), "{name}");
    }
}

#[test]
fn a_call_whose_result_is_not_read_can_be_interrupted() {
    let (address, _server) = fake(|_, stream| {
        let text = "x".repeat(900_000);
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{text}\"}}\n");
        stream.write_all(answer.as_bytes()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut child = caudal(&["call", &format!("tcp://{address}"), "x"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // More than a pipe holds is to come: it writes, and waits.
    stdout.read_exact(&mut [0]).unwrap();
    signal(&child, "INT");
    assert_eq!(crate::support::wait(&mut child).code(), Some(130));
}

/// Kills what still runs when a test fails.
struct Killed(String);

impl Drop for Killed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            paste(&format!("kill -KILL {}", self.0));
        }
    }
}

/// Calls a program that never answers and has started another one, sends a signal to the
/// call, and waits until both programs are gone.
fn leaves_no_program(script: &str, name: &str) -> ExitStatus {
    let pids = path("pids");
    let file = pids.display();
    let script = format!("sleep 600 & echo $$ $! >{file}.new; mv {file}.new {file}; {script}");
    let mut child = caudal(&["call", "x", "--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    let started = eventually("it has started", || std::fs::read_to_string(&pids).ok());
    signal(&child, name);
    let status = wait(&mut child);
    // One that has ended may still be listed, as `Z`, until somebody asks how.
    let runs = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    assert_eq!(started.split_whitespace().count(), 2);
    let started = Killed(started);
    eventually("no program runs", || {
        (!started.0.split_whitespace().any(runs)).then_some(())
    });
    status
}

#[test]
fn an_interrupted_call_ends_with_130_and_leaves_no_program() {
    assert_eq!(leaves_no_program("exec sleep 600", "INT").code(), Some(130));
}

/// Nothing of ours runs any more when we are killed.
///
/// Proves: A74
#[test]
fn a_call_that_is_killed_leaves_no_program() {
    for script in ["exec sleep 600", "trap '' TERM; while :; do sleep 1; done"] {
        assert_eq!(leaves_no_program(script, "KILL").signal(), Some(9));
    }
}

/// Calls a server that says this, with a stderr that nobody reads, and interrupts it.
fn interrupted_unread(said: String) {
    let (address, _server) = fake(move |_, stream| {
        // The other side goes without reading all.
        let _ = stream.write_all(said.as_bytes());
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut command = caudal(&["call", &format!("tcp://{address}"), "x", "--verbose"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut unread = child.stderr.take().unwrap();
    // It says something, and there is no room for all of it.
    unread.read_exact(&mut [0]).unwrap();
    signal(&child, "INT");
    assert_eq!(wait(&mut child).code(), Some(130));
    drop(unread);
}

#[test]
fn a_signal_ends_it_also_if_nobody_reads_what_it_says() {
    let long = "x".repeat(200_000);
    // What it shows while it waits,
    interrupted_unread(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{long}\"}}\n"));
    // and what it says in the end.
    interrupted_unread(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{{\"code\":1,\"message\":\"{long}\"}}}}\n"
    ));
}

#[test]
fn a_forgotten_endpoint_is_missed() {
    run(&["call", "add", "[1,2]"]).ends(1).complains(&[
        "ENDPOINT",
        "`add`",
        "caudal call ENDPOINT METHOD",
    ]);
}

#[test]
fn the_wrong_framing_is_called_so() {
    let server = Served::tcp();
    let wrong = ["--framing", "header", "--timeout", "1s"];
    run(&[&["call", &server.endpoint, "add", "[1,2]"][..], &wrong].concat())
        .ends(6)
        .prints("")
        .complains(&[&server.endpoint, "no message can be found", "--framing"]);
    // A line is no header; it is shown.
    let (address, _server) = answering("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}\n");
    run(&[&["call", &format!("tcp://{address}"), "x"][..], &wrong].concat())
        .ends(6)
        .prints("")
        .complains(&["not a header", "jsonrpc", "--framing"]);
}

#[test]
fn a_program_with_another_framing_is_not_waited_for() {
    let headers = [
        "Content-Length",
        "as language servers do",
        "--framing header",
    ];
    let lines = ["JSON-RPC", "no message can be found", "--framing"];
    for (ours, theirs, says) in [("line", "header", headers), ("header", "line", lines)] {
        let call = ["call", "add", "[1,2]", "--timeout", "1h", "--framing", ours];
        let mut command = caudal(&call);
        let serve = ["--", PROGRAM, "serve", "--listen", "stdio:"];
        command.args(serve).args(["--framing", theirs]);
        let outcome = finish(command, "");
        outcome.ends(6).prints("").complains(&says);
    }
    // It may have printed before.
    let script = r"printf 'starting\nContent-Length: 5\r\n\r\n'; cat > /dev/null";
    run(&["call", "x", "--timeout", "1h", "--", "sh", "-c", script])
        .ends(6)
        .complains(&["`starting`", "`Content-Length: 5", "--framing header"]);
}

/// Reads headers up to a blank line, and then the call; answers as a language server does.
const HEADERS: &str = r#"sed '/^\r$/q' >/dev/null; body='{"jsonrpc":"2.0","id":1,"result":3}'
    printf 'Content-Length: %s\r\n\r\n%s' ${#body} "$body"; cat >/dev/null"#;

#[test]
fn a_program_that_waits_for_headers_is_told_from_one_that_is_slow() {
    let call = |script: &str, more: &[&str]| {
        run(&[&["call", "x"], more, &["--", "sh", "-c", script]].concat())
    };
    let soon = ["--timeout", "500ms"];
    let says = [
        " in 500ms",
        "--timeout",
        "`Content-Length` headers",
        "--framing header",
        "?framing=header",
    ];
    let banner = "echo starting; sleep 600";
    for script in [HEADERS, "sleep 600", banner] {
        for framing in ["line", "concatenated"] {
            let more = [&soon[..], &["--framing", framing]].concat();
            call(script, &more).ends(2).prints("").complains(&says);
        }
    }
    // What it says is true.
    let headers = [
        "call",
        "x",
        "--framing",
        "header",
        "--",
        "sh",
        "-c",
        HEADERS,
    ];
    run(&headers).ends(0).prints("3\n");
    // Whoever gets headers, or speaks in lines, waits for none.
    let told = r#"echo '{"jsonrpc":"2.0","method":"tick"}'; sleep 600"#;
    for (script, framing, timeout) in [
        ("sleep 600", "header", "500ms"),
        // Time to begin, on a machine that is busy.
        (told, "line", "3s"),
        ("printf {; sleep 600", "line", "3s"),
    ] {
        let outcome = call(script, &["--framing", framing, "--timeout", timeout]);
        outcome.ends(2);
        assert!(!outcome.stderr.contains("Content-Length"), "{outcome:?}");
    }
    // Nor does one that has ended.
    let outcome = call("exit 3", &[]);
    outcome.ends(4);
    assert!(!outcome.stderr.contains("Content-Length"), "{outcome:?}");
}

#[test]
fn what_begins_with_a_header_is_called_so() {
    let reply = "Content-Length: 35\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}";
    let says = [
        "`Content-Length` headers, as language servers do",
        "`Content-Length: 35`",
        "call it with `--framing header`",
        "?framing=header",
    ];
    let (address, _server) = answering(reply);
    let to = format!("tcp://{address}");
    run(&["call", &to, "x"]).ends(6).prints("").complains(&says);
    // Behind another header, or in other letters.
    for first in ["", "content-type: application/vscode-jsonrpc\r\n"] {
        let reply = format!("{first}{}", reply.replace("Length", "length"));
        let script = format!("printf '%s' '{reply}'; cat >/dev/null");
        let outcome = run(&["call", "x", "--timeout", "1h", "--", "sh", "-c", &script]);
        let says = says.map(|part| part.replace("`Content-Length: 35`", "`Content-length: 35`"));
        let says = says.each_ref().map(String::as_str);
        outcome.ends(6).prints("").complains(&says);
        assert!(
            !outcome
                .stderr
                .contains("not JSON-RPC, and passed over: `Content-length"),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_program_may_print_much_but_not_for_ever() {
    let script = format!("yes starting | head -n 100; exec '{PROGRAM}' serve --listen stdio:");
    run(&["call", "add", "[1,2]", "--", "sh", "-c", &script])
        .ends(0)
        .prints("3\n");
    run(&["call", "x", "--timeout", "1h", "--", "yes"])
        .ends(6)
        .prints("")
        .complains(&["`y`", "--framing"]);
}

#[test]
fn a_program_has_no_port() {
    let outcome = run(&["call", "x", "--", "sh", "-c", "echo hi; exit 0"]);
    outcome.ends(6).complains(&["`hi`", "--framing"]);
    assert!(!outcome.stderr.contains("port"), "{outcome:?}");
}

#[test]
fn a_path_that_no_socket_can_have_is_a_mistake() {
    let to = format!("unix:/{}", "a".repeat(200));
    run(&["call", &to, "x"])
        .ends(1)
        .complains(&["shorter path"]);
}

#[test]
fn a_program_is_waited_for_until_it_has_done_what_it_was_told() {
    let done = path("done");
    let script = format!("cat >/dev/null; sleep 2.5; echo done >{}", done.display());
    run(&["call", "x", "--notify", "--", "sh", "-c", &script]).ends(0);
    assert_eq!(std::fs::read_to_string(&done).unwrap(), "done\n");
    let endless = "cat >/dev/null; exec sleep 600";
    let late = ["call", "x", "--notify", "--timeout", "1s"];
    run(&[&late[..], &["--", "sh", "-c", endless]].concat())
        .ends(2)
        .complains(&["in time", "--timeout"]);
}

#[test]
fn a_program_that_is_killed_has_not_taken_what_it_was_told() {
    run(&[
        "call",
        "x",
        "--notify",
        "--",
        "sh",
        "-c",
        "read x; kill -9 $$",
    ])
    .ends(4)
    .complains(&["signal: 9"]);
}

#[test]
fn a_program_that_fails_has_not_taken_what_it_was_told() {
    // At once, or when it has read everything.
    for script in ["exit 3", "cat > /dev/null; exit 3"] {
        run(&["call", "x", "--notify", "--", "sh", "-c", script])
            .ends(4)
            .prints("")
            .complains(&["exit status: 3"]);
    }
    run(&["call", "x", "--notify", "--", "cat"]).ends(0);
}
