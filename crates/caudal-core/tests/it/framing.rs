//! Cutting streams into frames, and writing them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use crate::support::checks::read_all;
use caudal_core::{
    DecodeError, ErrorDetail, FrameError, FrameReader, Framing, Message, Policy, RawJson,
    RequestId, decode, encode,
};
use proptest::prelude::*;

const ALL: [Framing; 3] = [Framing::Line, Framing::Header, Framing::Concatenated];

fn frames(framing: Framing, stream: &[u8]) -> Vec<Result<String, FrameError>> {
    read_all(framing, 64, stream, stream.len().max(1))
        .into_iter()
        .map(|frame| frame.map(|bytes| String::from_utf8(bytes).unwrap()))
        .collect()
}

fn ok(frame: &str) -> Result<String, FrameError> {
    Ok(frame.to_owned())
}

fn bad(value: &str) -> Result<(), FrameError> {
    Err(FrameError::BadLength {
        value: value.into(),
    })
}

fn write(framing: Framing, bodies: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for body in bodies {
        framing
            .write(&mut out, |out| {
                out.extend_from_slice(body.as_bytes());
                Ok::<(), ()>(())
            })
            .unwrap();
    }
    out
}

/// Proves: A44, A48, A50
#[test]
fn lines_end_with_a_newline_and_blank_ones_are_passed_over() {
    let stream = "{\"a\":1}\n\r\n \t\n[2]\r\n\n\"\u{2028}\u{85}\"\n last ".as_bytes();
    assert_eq!(
        frames(Framing::Line, stream),
        [
            ok("{\"a\":1}"),
            ok("[2]"),
            ok("\"\u{2028}\u{85}\""),
            ok(" last ")
        ]
    );
}

/// Proves: A46, A49, A51
#[test]
fn a_stream_cut_at_every_byte_gives_the_same_frames() {
    let bodies = [
        r#"{"jsonrpc":"2.0","method":"é😀"}"#,
        "[]",
        r#"["\"\\]}",{"a":"{"}]"#,
        r#""s""#,
    ];
    for framing in ALL {
        let stream = write(framing, &bodies);
        let expected: Vec<_> = bodies
            .iter()
            .map(|body| Ok(body.as_bytes().to_vec()))
            .collect();
        for size in 1..=stream.len() {
            assert_eq!(
                read_all(framing, 64, &stream, size),
                expected,
                "{framing:?} {size}"
            );
        }
        for cut in 0..=stream.len() {
            let mut reader = FrameReader::new(framing, 64);
            let mut read = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                reader.push(part);
                while let Some(frame) = reader.next_frame().unwrap() {
                    read.push(Ok(frame.to_vec()));
                }
            }
            while let Some(frame) = reader.finish().unwrap() {
                read.push(Ok(frame.to_vec()));
            }
            assert_eq!(read, expected, "{framing:?} cut at {cut}");
        }
    }
}

/// A corrupt byte costs its own frame, or the one it runs into; never a
/// panic, and on lines never a frame that is farther away.
///
/// Proves: A46
#[test]
fn a_corrupt_byte_does_not_spread() {
    let bodies = [
        r#"{"a":1}"#,
        r#"{"b":[2]}"#,
        r#"{"c":"x"}"#,
        r#"{"d":4}"#,
        r#"{"e":5}"#,
    ];
    for framing in ALL {
        let stream = write(framing, &bodies);
        for at in 0..stream.len() {
            for byte in 0..=u8::MAX {
                let mut bad = stream.clone();
                bad[at] = byte;
                let read = read_all(framing, 64, &bad, 3);
                let whole = bodies
                    .iter()
                    .filter(|body| read.iter().flatten().any(|f| f == body.as_bytes()))
                    .count();
                let fatal = read
                    .iter()
                    .any(|f| f.as_ref().is_err_and(FrameError::is_fatal));
                match framing {
                    Framing::Line => assert!(whole >= bodies.len() - 2 && !fatal),
                    // A length that lies takes what it says; any other fault
                    // takes its own frame and the next, or is fatal.
                    Framing::Header if byte.is_ascii_digit() => {}
                    Framing::Header => assert!(whole >= bodies.len() - 2 || fatal, "{at} {byte}"),
                    // A value that is never closed may take the next for a part
                    // of itself; the one after that cannot be one.
                    _ => assert!(whole >= bodies.len() - 3 && !fatal, "{at} {byte} {whole}"),
                }
            }
        }
    }
}

/// Proves: A94, A95
#[test]
fn an_oversized_line_is_reported_once_and_skipped() {
    let too_large = || Err(FrameError::TooLarge { limit: 64 });
    let long = "x".repeat(1_000);
    let stream = format!(
        "[1]\n{long}\n[2]\r\n{}\n{}\n{}\r\n[3]",
        "y".repeat(64),
        "z".repeat(65),
        "w".repeat(64)
    );
    let expected = [
        ok("[1]"),
        too_large(),
        ok("[2]"),
        ok(&"y".repeat(64)),
        too_large(),
        ok(&"w".repeat(64)),
        ok("[3]"),
    ];
    assert_eq!(frames(Framing::Line, stream.as_bytes()), expected);
    // At the end of the stream too.
    assert_eq!(frames(Framing::Line, long.as_bytes()), [too_large()]);
    assert_eq!(
        frames(Framing::Line, "z".repeat(65).as_bytes()),
        [too_large()]
    );
}

/// Proves: A94, J28
#[test]
fn an_oversized_frame_is_answered_like_an_oversized_message() {
    let frame = FrameError::TooLarge { limit: 64 };
    let message = DecodeError::TooLarge { limit: 64 };
    for detail in [ErrorDetail::Full, ErrorDetail::Minimal] {
        let answer = frame.to_wire(detail);
        assert_eq!(answer, message.to_wire(detail));
        assert_eq!(answer.code, -32600);
        assert_eq!(answer.message, "Request payload too large");
    }
    let stray = FrameError::StrayLine {
        line: "hello".into(),
    };
    assert_eq!(
        stray.to_wire(ErrorDetail::Full).message,
        "Parse error: not a header: \"hello\""
    );
    assert_eq!(stray.to_wire(ErrorDetail::Minimal).message, "Parse error");
}

/// Proves: A95
#[test]
fn an_oversized_frame_is_never_held_in_memory() {
    for framing in ALL {
        let mut reader = FrameReader::new(framing, 1_000);
        if framing == Framing::Header {
            reader.push(b"Content-Length: 100000000\r\n\r\n");
        }
        let mut faults = 0;
        for _ in 0..10_000 {
            reader.push(&[b'['; 1_000]);
            while let Err(error) = reader.next_frame() {
                assert_eq!(error, FrameError::TooLarge { limit: 1_000 });
                faults += 1;
            }
            assert!(reader.buffer_mut().len() <= 1_001);
            assert!(reader.buffer_mut().capacity() <= 8 * 1_024, "{framing:?}");
        }
        assert_eq!(faults, 1);
    }
}

#[test]
fn a_refused_frame_is_skipped_and_the_next_one_is_found() {
    let first = format!(r#"{{"id":7,"result":"{}"}}"#, "x]".repeat(5_000));
    for framing in ALL {
        let stream = write(framing, &[&first, "[2]"]);
        let head = stream.iter().position(|byte| *byte == b'{').unwrap();
        for at in (head + 1..head + first.len()).step_by(7) {
            let mut reader = FrameReader::new(framing, 100_000);
            let (now, later) = stream.split_at(at);
            reader.push(now);
            assert_eq!(reader.next_frame(), Ok(None));
            assert_eq!(reader.refuse(), Err(FrameError::Overloaded));
            assert_eq!(reader.skipped(), &now[head..at.min(head + 2_048)]);
            assert!(reader.buffer_mut().capacity() <= 2_048);
            // There is no more to give up.
            assert_eq!(reader.refuse(), Ok(()));
            let mut frames = 0;
            for piece in later.chunks(999) {
                reader.push(piece);
                while let Some(frame) = reader.next_frame().unwrap() {
                    assert_eq!(frame, b"[2]");
                    frames += 1;
                }
            }
            assert!(reader.is_empty() && frames == 1, "{framing:?} {at}");
        }
    }
    let told = FrameError::Overloaded.to_wire(ErrorDetail::Minimal);
    assert_eq!(
        (told.code.get(), told.message.as_str()),
        (-32000, "Server overloaded")
    );
}

/// Proves: A48, A50
#[test]
fn headers_are_read_with_the_tolerated_variations() {
    for header in [
        "Content-Length: 2\r\n\r\n",
        "content-length:2\r\n\r\n",
        "CONTENT-LENGTH :   2  \r\n\r\n",
        "Content-Length: 2\n\n",
        "Content-Length: 002\r\n\r\n",
        "\r\n\r\nContent-Length: 2\r\n\r\n",
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        "Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=\"UTF8\"\r\n\r\n",
        "Content-Length: 2\r\nContent-Type: application/json\r\n\r\n",
        "X-Other: a: b\r\nContent-Length: 2\r\n\r\n",
    ] {
        let stream = format!("{header}{{}}{header}[]");
        assert_eq!(
            frames(Framing::Header, stream.as_bytes()),
            [ok("{}"), ok("[]")],
            "{header:?}"
        );
    }
}

/// Proves: A46, A98
#[test]
fn a_lying_or_absurd_length_is_an_error_and_never_an_allocation() {
    for (header, expected) in [
        (
            "Content-Length: 9223372036854775808",
            bad("9223372036854775808"),
        ),
        ("Content-Length: 20000000000000", bad("20000000000000")),
        (
            "Content-Length: 18446744073709551616",
            bad("18446744073709551616"),
        ),
        (
            "Content-Length: 99999999999999999999999999",
            bad("99999999999999999999999999"),
        ),
        ("Content-Length: 4294967296", bad("4294967296")),
        ("Content-Length: -5", bad("-5")),
        ("Content-Length: +5", bad("+5")),
        ("Content-Length: 5 5", bad("5 5")),
        ("Content-Length: five", bad("five")),
        ("Content-Length: 0x5", bad("0x5")),
        ("Content-Length:", bad("")),
        (
            "Content-Length: 5\r\nContent-Length: 5",
            Err(FrameError::TwoLengths),
        ),
        (
            "Content-Length: 5\r\ncontent-length: 6",
            Err(FrameError::TwoLengths),
        ),
    ] {
        let mut reader = FrameReader::new(Framing::Header, 64);
        reader.push(format!("{header}\r\n\r\n{{}}").as_bytes());
        let read = reader.next_frame().map(|frame| frame.map(<[u8]>::to_vec));
        assert_eq!(read.clone().map(drop), expected, "{header:?}");
        assert!(read.unwrap_err().is_fatal());
        // Fatal means for good.
        reader.push(b"Content-Length: 2\r\n\r\n{}");
        assert!(reader.next_frame().is_err());
        assert!(reader.finish().is_err());
        assert!(reader.buffer_mut().capacity() < 1_024);
    }
}

#[test]
fn what_can_be_skipped_is_skipped() {
    let large = format!(
        "Content-Length: 65\r\n\r\n{}Content-Length: 2\r\n\r\n[]",
        "x".repeat(65)
    );
    let too_large = Err(FrameError::TooLarge { limit: 64 });
    assert_eq!(
        frames(Framing::Header, large.as_bytes()),
        [too_large, ok("[]")]
    );

    let empty = "Content-Length: 0\r\n\r\nContent-Length: 2\r\n\r\n[]";
    assert_eq!(
        frames(Framing::Header, empty.as_bytes()),
        [Err(FrameError::EmptyBody), ok("[]")]
    );

    let latin =
        "Content-Length: 2\r\nContent-Type: a; charset=latin1\r\n\r\nxxContent-Length: 2\r\n\r\n[]";
    let charset = Err(FrameError::WrongCharset {
        value: "a; charset=latin1".into(),
    });
    assert_eq!(
        frames(Framing::Header, latin.as_bytes()),
        [charset, ok("[]")]
    );

    let stray = "Server started\n\nContent-Length: 2\r\n\r\n[]oops\nContent-Length: 2\r\n\r\n{}";
    let line = |line: &str| Err(FrameError::StrayLine { line: line.into() });
    assert_eq!(
        frames(Framing::Header, stray.as_bytes()),
        [line("Server started"), ok("[]"), line("oops"), ok("{}")]
    );
    let long = format!("{}\nContent-Length: 2\r\n\r\n[]", "é".repeat(100));
    let shown = format!("{}…", "é".repeat(64));
    assert_eq!(
        frames(Framing::Header, long.as_bytes()),
        [line(&shown), ok("[]")]
    );
}

#[test]
fn a_header_without_end_is_fatal() {
    let error = || [Err(FrameError::HeaderTooLarge { limit: 8 * 1024 })];
    let one = "x".repeat(9_000);
    assert_eq!(frames(Framing::Header, one.as_bytes()), error());
    // Line for line it may go on for ever, and nothing is kept.
    let many = "X-A: b\r\n".repeat(2_000) + "Content-Length: 2\r\n\r\n[]";
    assert_eq!(frames(Framing::Header, many.as_bytes()), [ok("[]")]);
    let stray = "just a line\n".repeat(2_000) + "Content-Length: 2\r\n\r\n[]";
    let read = frames(Framing::Header, stray.as_bytes());
    assert_eq!((read.len(), read.last()), (2_001, Some(&ok("[]"))));
}

/// What is printed between frames has colons as often as not.
#[test]
fn stray_prints_and_wrong_framing_are_reported() {
    let stray = |line: &str| Err(FrameError::StrayLine { line: line.into() });
    let request = r#"{"jsonrpc":"2.0","method":"m"}"#;
    let read = frames(
        Framing::Header,
        format!("{request}\n{request}\n").as_bytes(),
    );
    assert_eq!(read, [stray(request), stray(request)]);
    let log = "INFO server: started\n\n2026-01-02 12:00:01 up\nContent-Length: 2\r\n\r\n[]";
    assert_eq!(
        frames(Framing::Header, log.as_bytes()),
        [
            stray("INFO server: started"),
            stray("2026-01-02 12:00:01 up"),
            ok("[]")
        ]
    );
    // The body behind a header line that was broken has no known end; it is reported once.
    let broken = "Content Length: 2\r\n\r\n[1]Content-Length: 2\r\n\r\n{}";
    let read = frames(Framing::Header, broken.as_bytes());
    assert_eq!(read, [stray("Content Length: 2"), ok("{}")]);
}

/// What is skipped is reported once, and what follows is read, however the stream is cut.
///
/// Proves: A46
#[test]
fn a_header_block_without_length_is_skipped_to_the_next_length() {
    let next = "Content-Length: 2\r\n\r\n{}";
    let long = format!("{{\"long\":\"{}\"}}", "x".repeat(20_000));
    for skipped in [
        "X-Other: 1\r\n\r\n",
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        "Content-Type: a; charset=latin1\n\n",
        "INFO: started\r\n\r\nand\r\n\r\nmore: of it\n\n",
        // With a body, which ends without a line break,
        "X-Other: 1\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"m\"}",
        "X-Other: 1\r\n\r\n{\"Content-Length: 5\":\"\\r\\nContent-Length: 5\\r\\n\\r\\n\"}",
        &format!("X-Other: 1\r\n\r\n{long}"),
        // or with lines.
        "X-Other: 1\r\n\r\n{\n  \"Content-Length: 5\": 5,\r\n  \"b\": \"Content-Length: 5\"\n}\n",
        &format!("X-Other: 1\r\n\r\n{long}\n{long}\n"),
        // No other header is one of these.
        "X-Other: 1\r\n\r\nX-Content-Length: 5\r\n",
        "X-Other: 1\r\n\r\nContent-Length 5\r\nContent-Length\r\n: 5\r\nLength: 5\r\n",
    ] {
        for next in [
            next,
            "content-length :  002 \nX-Other: 1\n\n{}",
            " Content-Length:2\r\nContent-Type: a\r\n\r\n{}",
        ] {
            let stream = format!("{next}{skipped}{next}{next}");
            let missing = Err(FrameError::MissingLength);
            let expected = [ok("{}"), missing, ok("{}"), ok("{}")];
            let read = frames(Framing::Header, stream.as_bytes());
            assert_eq!(read, expected, "{skipped:?} {next:?}");
            crate::support::checks::framing(Framing::Header, stream.as_bytes());
        }
    }
    // Nothing is owed for what is behind it when the stream ends.
    for end in ["", "{}", "{}\r\n", "Content-Len", "{}Content-Length: 5"] {
        let stream = format!("X-Other: 1\r\n\r\n{end}");
        let read = frames(Framing::Header, stream.as_bytes());
        assert_eq!(read, [Err(FrameError::MissingLength)], "{end:?}");
    }
}

/// Proves: A46, A98
#[test]
fn lengths_that_contradict_stay_fatal_behind_what_is_skipped() {
    for (header, expected) in [
        ("Content-Length: x\r\n", bad("x")),
        (
            "{}Content-Length: 18446744073709551616\r\n",
            bad("18446744073709551616"),
        ),
        (
            "{}Content-Length: 2\r\nContent-Length: 3\r\n",
            Err(FrameError::TwoLengths),
        ),
    ] {
        let stream = format!("X-Other: 1\r\n\r\n{header}\r\n[]");
        let read = frames(Framing::Header, stream.as_bytes());
        let expected = expected.map(|()| String::new());
        assert_eq!(read, [Err(FrameError::MissingLength), expected]);
        assert!(read[1].as_ref().is_err_and(FrameError::is_fatal));
        crate::support::checks::framing(Framing::Header, stream.as_bytes());
    }
}

/// A print that did not end its line is a line of its own.
#[test]
fn a_header_is_found_behind_a_print_without_a_line_break() {
    let stray = |line: &str| Err(FrameError::StrayLine { line: line.into() });
    let header = ["Content-Length: 2\r\n\r\n[]", "content-length:2\n\n[]"];
    for print in ["x", "50 %…", "{\"a\":1}", "INFO server: starting"] {
        for header in header {
            let stream = format!("{print}{header}{header}");
            let read = frames(Framing::Header, stream.as_bytes());
            assert_eq!(read, [stray(print), ok("[]"), ok("[]")], "{stream:?}");
            crate::support::checks::framing(Framing::Header, stream.as_bytes());
        }
    }
    // What could be a header is passed over like one.
    for print in ["INFO: starting", "Content-Type: a; charset=utf-8"] {
        for header in header {
            let stream = format!("{print}{header}{header}");
            let read = frames(Framing::Header, stream.as_bytes());
            assert_eq!(read, [ok("[]"), ok("[]")], "{stream:?}");
            crate::support::checks::framing(Framing::Header, stream.as_bytes());
        }
    }
    // Another header, a value and a broken length are none.
    for header in [
        "X-Content-Length: 5\r\nContent-Length: 2",
        "Content-Length: 2\r\nX-Content-Length: 5",
        "X-Other: Content-Length: 5 bytes\r\nContent-Length: 2",
    ] {
        let stream = format!("{header}\r\n\r\n[]");
        assert_eq!(frames(Framing::Header, stream.as_bytes()), [ok("[]")]);
    }
    let twice = "Content-Length: 2Content-Length: 2\r\n\r\n[]";
    let read = frames(Framing::Header, twice.as_bytes());
    assert_eq!(read, [bad("2Content-Length: 2").map(|()| String::new())]);
    let second = "Content-Length: 2\r\nxContent-Length: 2\r\n\r\n[]";
    let read = frames(Framing::Header, second.as_bytes());
    assert_eq!(read, [stray("x"), Err(FrameError::TwoLengths)]);
}

/// A connection that waits behind what was skipped is as idle as any other.
#[test]
fn what_is_skipped_without_a_known_end_is_not_held_and_no_frame() {
    let mut reader = FrameReader::new(Framing::Header, 64);
    reader.push(b"X-Other: 1\r\n\r\n");
    assert_eq!(reader.next_frame(), Err(FrameError::MissingLength));
    for piece in [&[b'x'; 1_000][..], b"a line\r\n\r\n"] {
        for _ in 0..1_000 {
            reader.push(piece);
            assert_eq!(reader.next_frame(), Ok(None));
            assert!(reader.is_empty());
            assert!(reader.buffer_mut().len() <= 8 * 1_024);
            assert!(reader.buffer_mut().capacity() <= 64 * 1_024);
        }
    }
    reader.push(b"{}Content-Length: 2\r\n");
    assert_eq!(reader.next_frame(), Ok(None));
    assert!(!reader.is_empty());
    reader.push(b"\r\n[]");
    assert_eq!(reader.next_frame(), Ok(Some(&b"[]"[..])));
}

#[test]
fn a_reader_knows_whether_a_frame_has_begun() {
    for (framing, begun) in [
        (Framing::Header, &b"Content-Length: 5\r\n"[..]),
        (Framing::Header, b"Content-Length: 5\r\n\r\n"),
        (Framing::Header, b"Content-Length: 500\r\n\r\nx"),
        (Framing::Line, b"{"),
        (Framing::Concatenated, b"{"),
    ] {
        let mut reader = FrameReader::new(framing, 64);
        assert!(reader.is_empty());
        reader.push(begun);
        while reader.next_frame() != Ok(None) {}
        assert!(!reader.is_empty(), "{framing:?}");
    }
    for framing in [Framing::Line, Framing::Concatenated] {
        let mut reader = FrameReader::new(framing, 64);
        reader.push(&[b'['; 100]);
        assert!(reader.next_frame().is_err());
        assert!(!reader.is_empty(), "it is being skipped");
    }
}

/// A frame that lies whole in the buffer is found in one look, others line by line: both
/// ways say the same of every length.
#[test]
fn a_whole_header_frame_is_what_its_pieces_are() {
    for length in [0, 1, 2, 9, 10, 63, 64, 65, 99, 100] {
        for width in [1, 2, 8, 9, 10, 11, 20, 21] {
            let frame = header(&"x".repeat(length), width);
            let stream = [&frame, "\r\n", &frame, "stray\n", &frame, &frame].concat();
            crate::support::checks::framing(Framing::Header, stream.as_bytes());
            let read = frames(Framing::Header, stream.as_bytes());
            let whole = read.iter().flatten().filter(|body| body.len() == length);
            let expected = if (1..=64).contains(&length) { 4 } else { 0 };
            assert_eq!(whole.count(), expected, "{length} in {width} digits");
        }
    }
}

/// A frame whose length is written with so many digits at least.
fn header(body: &str, width: usize) -> String {
    format!("Content-Length: {:0width$}\r\n\r\n{body}", body.len())
}

#[test]
fn a_dead_reader_holds_nothing() {
    let mut reader = FrameReader::new(Framing::Header, 64);
    reader.push(b"Content-Length: x\r\n");
    assert!(reader.next_frame().is_err());
    reader.push(&[b'x'; 10_000]);
    reader.buffer_mut().extend_from_slice(&[b'x'; 10_000]);
    assert!(reader.next_frame().is_err());
    assert!(reader.buffer_mut().is_empty());
}

/// Proves: A70
#[test]
fn a_shared_frame_outlives_the_next_read() {
    let mut reader = FrameReader::new(Framing::Line, 64);
    reader.push(b"[1]\r\n[2]\n[3");
    let first = reader.next_frame_shared().unwrap().unwrap();
    assert_eq!(reader.next_frame(), Ok(Some(&b"[2]"[..])));
    assert_eq!(reader.next_frame_shared(), Ok(None));
    reader.push(b"]\n");
    let third = reader.next_frame_shared().unwrap().unwrap();
    assert_eq!((&first[..], &third[..]), (&b"[1]"[..], &b"[3]"[..]));
}

#[test]
fn a_stream_that_ends_inside_a_header_frame_is_truncated() {
    let truncated = || [Err(FrameError::Truncated)];
    for stream in [
        "Content-Le",
        "Content-Length: 5\r\n",
        "Content-Length: 5\r\n\r\n",
        "Content-Length: 5\r\n\r\n{\"a",
    ] {
        assert_eq!(
            frames(Framing::Header, stream.as_bytes()),
            truncated(),
            "{stream}"
        );
    }
    let skipped = "Content-Length: 500\r\n\r\nxxx";
    let read = frames(Framing::Header, skipped.as_bytes());
    assert_eq!(
        read,
        [
            Err(FrameError::TooLarge { limit: 64 }),
            Err(FrameError::Truncated)
        ]
    );
    assert_eq!(frames(Framing::Header, b""), []);
    assert_eq!(frames(Framing::Header, b"\r\n"), []);
}

/// Proves: A48, A50
#[test]
fn concatenated_values_need_nothing_between_them() {
    assert_eq!(
        frames(
            Framing::Concatenated,
            br#"{"a":"}"}[1,[2]] "x\"y""z" 12 true{}nul[]"#
        ),
        [
            ok(r#"{"a":"}"}"#),
            ok("[1,[2]]"),
            ok(r#""x\"y""#),
            ok(r#""z""#),
            ok("12"),
            ok("true"),
            ok("{}"),
            ok("nul"),
            ok("[]"),
        ]
    );
}

#[test]
fn concatenated_rubbish_ends_where_the_next_value_begins() {
    let read = |text: &str| frames(Framing::Concatenated, text.as_bytes());
    assert_eq!(read("}}{\"a\":1}"), [ok("}}"), ok("{\"a\":1}")]);
    assert_eq!(read("{\"a\":[1,2}[3]"), [ok("{\"a\":[1,2}"), ok("[3]")]);
    assert_eq!(read("{\"a\n[3]"), [ok("{\"a\n"), ok("[3]")]);
    assert_eq!(read("{\"a\":"), [ok("{\"a\":")]);
    let large = format!("[{}]{{}}", "1,".repeat(100));
    assert_eq!(
        read(&large),
        [Err(FrameError::TooLarge { limit: 64 }), ok("{}")]
    );
    let word = format!("{} [1]", "w".repeat(100));
    assert_eq!(
        read(&word),
        [Err(FrameError::TooLarge { limit: 64 }), ok("[1]")]
    );
    // What remains too large at the end is not reported twice.
    let open = format!("[{}", "1,".repeat(100));
    assert_eq!(read(&open), [Err(FrameError::TooLarge { limit: 64 })]);
    let deep = format!("{}{}{}", "[".repeat(500), "]".repeat(500), "[1]");
    assert_eq!(
        read(&deep),
        [Err(FrameError::TooLarge { limit: 64 }), ok("[1]")]
    );
}

/// Proves: A45, A51
#[test]
fn a_written_frame_reads_back_whatever_its_size() {
    for framing in ALL {
        for size in [2, 9, 10, 99, 100, 999, 1_000, 9_999, 10_000, 123_456] {
            let body = format!("\"{}\"", "x".repeat(size - 2));
            let stream = write(framing, &["{}", &body, "[]"]);
            let read = read_all(framing, 1 << 20, &stream, 4_096);
            let read: Vec<_> = read.into_iter().map(Result::unwrap).collect();
            assert_eq!(
                read,
                [b"{}".to_vec(), body.into_bytes(), b"[]".to_vec()],
                "{framing:?}"
            );
        }
    }
    let header = write(Framing::Header, &[&"x".repeat(1_234)]);
    assert!(header.starts_with(b"Content-Length: 1234\r\n\r\nxxx"));
    assert!(write(Framing::Header, &["{}"]).starts_with(b"Content-Length: 2\r\n\r\n{}"));
}

/// Proves: A45, A51
#[test]
fn a_line_break_between_tokens_does_not_break_a_line() {
    let pretty = RawJson::parse("{\n  \"a\": [\r\n1, \"x\\ny\"]\n}").unwrap();
    let mut out = bytes::BytesMut::new();
    Framing::Line
        .write(&mut out, |out| {
            encode::reply_raw(out, &RequestId::from(1), pretty);
            Ok::<(), ()>(())
        })
        .unwrap();
    assert_eq!(memchr::memchr_iter(b'\n', &out).count(), 1);
    let Message::Response(response) = decode(&out, &Policy::default()) else {
        panic!("a response")
    };
    let value = response.outcome.unwrap().to_value().unwrap();
    assert_eq!(value, pretty.to_value().unwrap());
}

#[test]
fn a_frame_that_fails_is_not_begun() {
    for framing in ALL {
        let mut out = b"before".to_vec();
        let failed = framing.write(&mut out, |out| encode::notification(out, "", &()));
        assert!(failed.is_err());
        assert_eq!(out, b"before");
    }
}

/// Proves: A68
#[test]
fn the_buffer_is_given_back_when_idle_and_never_with_a_frame_in_it() {
    let mut reader = FrameReader::new(Framing::Line, 1 << 20);
    reader.push(&[b'x'; 100_000]);
    assert_eq!(reader.next_frame(), Ok(None));
    reader.shrink();
    assert!(!reader.is_empty());
    reader.push(b"\n");
    assert_eq!(reader.next_frame().unwrap().unwrap().len(), 100_000);
    assert!(reader.is_empty());
    reader.shrink();
    assert_eq!(reader.buffer_mut().capacity(), 0);
    reader.push(b"[]\n");
    assert_eq!(reader.next_frame(), Ok(Some(&b"[]"[..])));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_any_pieces_give_the_same_frames(
        bytes in prop::collection::vec(prop_oneof![
            any::<u8>(), Just(b'\n'), Just(b'{'), Just(b'}'), Just(b'"'), Just(b'['), Just(b' ')
        ], 0..300)
    ) {
        for framing in ALL {
            crate::support::checks::framing(framing, &bytes);
        }
    }

    #[test]
    fn any_headers_in_any_pieces_give_the_same_frames(
        parts in prop::collection::vec(prop_oneof![
            Just("Content-Length: ".to_owned()), Just("\r\n".to_owned()), Just("\n".to_owned()),
            (0..80_u32).prop_map(|n| n.to_string()), "[a-z{}:\\-0-9]{0,9}", Just("\r\n\r\n".to_owned()),
            Just("Content-Type: a; charset=".to_owned()), Just("utf-8".to_owned()),
            Just("X-Other: 1\r\n\r\n".to_owned()), Just("-".to_owned()),
            ("[a-z{}\\n]{0,70}", 1..12_usize).prop_map(|(body, width)| header(&body, width)),
        ], 0..30)
    ) {
        crate::support::checks::framing(Framing::Header, parts.concat().as_bytes());
    }

    #[test]
    fn whatever_follows_headers_without_a_length_the_next_frame_is_found(
        rubbish in prop::collection::vec(prop_oneof![
            "[ -~\r\n]{0,40}", Just("Content-Length ".to_owned()), Just(": 5 ".to_owned()),
            (0..9_000_usize).prop_map(|n| "x".repeat(n)),
        ], 0..8)
    ) {
        crate::support::checks::framing(Framing::Header, rubbish.concat().as_bytes());
    }
}
