//! The specification's own examples, over every framing.
//!
//! `-->` is sent, `<--` is expected; the calculator example stands in for a
//! server and is run as a program of its own, over its stdin and stdout.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::io::{Read, Write};
use std::process::Stdio;

use crate::support::example;
use caudal_core::{FrameReader, Framing};
use serde_json::Value;

/// Section 7 of the specification, with the calculator's methods.
const TRANSCRIPT: &str = r#"
--> {"jsonrpc": "2.0", "method": "add", "params": [42, 23], "id": 1}
<-- {"jsonrpc": "2.0", "result": 65, "id": 1}
--> {"jsonrpc": "2.0", "method": "add", "params": [23, 42], "id": "2"}
<-- {"jsonrpc": "2.0", "result": 65, "id": "2"}
--> {"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}
--> {"jsonrpc": "2.0", "method": "foobar"}
--> {"jsonrpc": "2.0", "method": "foobar", "id": "1"}
<-- {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found: foobar", "data": {"method": "foobar"}}, "id": "1"}
--> {"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]
<-- {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error: expected `,` or `}` at byte 39", "data": {"offset": 39, "reason": "expected `,` or `}`"}}, "id": null}
--> {"jsonrpc": "2.0", "method": 1, "params": "bar"}
<-- {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request: `method` must be a string, found the number 1", "data": {"field": "method"}}, "id": null}
--> [{"jsonrpc": "2.0", "method": "add", "params": [1,2], "id": "1"},{"jsonrpc": "2.0", "method"
<-- {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error: the text ends too early at byte 92", "data": {"offset": 92, "reason": "the text ends too early"}}, "id": null}
--> []
<-- {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request: the batch is empty"}, "id": null}
--> [1]
<-- [{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request: a message must be an object, found the number 1"}, "id": null}]
--> [{"jsonrpc":"2.0","method":"add","params":[1,2],"id":"1"},{"jsonrpc":"2.0","method":"hello","params":[7]},{"foo":"boo"},{"jsonrpc":"2.0","method":"foo.get","params":{"name":"myself"},"id":"5"},{"jsonrpc":"2.0","method":"echo","id":"9"}]
<-- [{"jsonrpc":"2.0","result":3,"id":"1"},{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: `jsonrpc` is missing","data":{"field":"jsonrpc"}},"id":null},{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found: foo.get","data":{"method":"foo.get"}},"id":"5"},{"jsonrpc":"2.0","result":null,"id":"9"}]
--> [{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4]},{"jsonrpc": "2.0", "method": "hello", "params": [7]}]
--> {"jsonrpc":"2.0","method":"divide","params":[1,0],"id":3}
<-- {"jsonrpc":"2.0","error":{"code":1,"message":"division by zero"},"id":3}
--> {"jsonrpc":"2.0","method":"echo","params":{"é":[1e400,0.10000000000000000555]},"id":1.50}
<-- {"jsonrpc":"2.0","result":{"é":[1e400,0.10000000000000000555]},"id":1.50}
"#;

/// What the calculator answers to `input`.
fn calculate(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = example("calculator")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // In pieces, so that frames arrive cut.
        for piece in input.chunks(37) {
            stdin.write_all(piece).unwrap();
            stdin.flush().unwrap();
        }
    });
    let mut output = Vec::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut output)
        .unwrap();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success());
    output
}

fn play(framing: Framing, arguments: &[&str]) {
    let sent = TRANSCRIPT
        .lines()
        .filter_map(|line| line.strip_prefix("--> "));
    let expected = TRANSCRIPT
        .lines()
        .filter_map(|line| line.strip_prefix("<-- "));
    let mut input = Vec::new();
    for message in sent {
        let Ok(()) = framing.write(&mut input, |out| {
            out.extend_from_slice(message.as_bytes());
            Ok::<_, std::convert::Infallible>(())
        });
    }
    let output = calculate(arguments, &input);
    let mut frames = FrameReader::new(framing, 1 << 20);
    frames.push(&output);
    for expected in expected {
        let frame = frames.next_frame().unwrap().expect(expected);
        let text = std::str::from_utf8(frame).unwrap();
        if let Ok(value) = serde_json::from_str::<Value>(expected) {
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
        } else {
            // Numbers that `Value` cannot hold come back to the letter.
            assert!(text.contains("[1e400,0.10000000000000000555]") && text.contains("1.50"));
        }
    }
    assert_eq!(frames.next_frame(), Ok(None), "nothing more is answered");
    assert_eq!(frames.finish(), Ok(None));
}

/// Proves: C38, C54, A44, A45, A46, A11, J11, J12
#[test]
fn the_specification_is_answered_on_stdin_and_stdout_by_lines() {
    play(Framing::Line, &[]);
}

/// Proves: C38, A46, A50, A51
#[test]
fn the_specification_is_answered_with_content_length() {
    play(Framing::Header, &["--header"]);
}

/// Proves: A94, A99, A12
#[test]
fn bad_lines_are_answered_and_the_stream_goes_on() {
    let mut input = b"not json\n\xff\xfe\n\n".to_vec();
    input.extend_from_slice(&vec![b'x'; 2_000_000]);
    input
        .extend_from_slice(b"\n{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"add\",\"params\":[1,2]}");
    let output = String::from_utf8(calculate(&[], &input)).unwrap();
    let codes: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|answer| answer["error"]["code"].clone())
        .collect();
    assert_eq!(
        codes,
        [
            Value::from(-32700),
            Value::from(-32700),
            Value::from(-32600),
            Value::Null
        ]
    );
    assert!(output.ends_with("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":3}\n"));
}

#[test]
fn a_stream_that_is_given_up_has_its_answers() {
    let mut input = Vec::new();
    let Ok(()) = Framing::Header.write(&mut input, |out| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#);
        Ok::<_, std::convert::Infallible>(())
    });
    input.extend_from_slice(b"Content-Length: abc\r\n\r\n{}");
    let mut child = example("calculator")
        .arg("--header")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let output = child.wait_with_output().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    assert!(
        answers.contains(r#""result":3"#) && answers.contains("-32700"),
        "{answers}"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        "calculator: `Content-Length` is not a plausible length: \"abc\"\n"
    );
    assert!(!output.status.success());
}

#[test]
fn a_wrong_argument_is_named() {
    let output = example("calculator").arg("--headr").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        "calculator: unknown argument `--headr`; the only one is --header\n"
    );
}

#[test]
fn the_tour_shows_both_directions() {
    let output = example("tour").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        r#"--> {"jsonrpc":"2.0","id":1.0,"method":"add","params":[1,2]}"#,
        r#"<-- {"jsonrpc":"2.0","id":1.0,"result":3}"#,
        r#"<-- [{"jsonrpc":"2.0","id":"a","result":7},"#,
        r#"timed out: "second", id 2"#,
    ] {
        assert!(text.contains(line), "{line}");
    }
}
