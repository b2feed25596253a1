//! Failures made by hand, sorted.

use std::time::Duration;

use caudal::FrameError;
use caudal::tls::TlsError;

use super::remedy::{CALLER_HINT, TOKEN_HINT};
use super::*;

/// Response of a server that does not do what it is asked for.
fn http(status: u16) -> io::Error {
    StatusError::new(status, "", b"no").into()
}

fn target() -> Target {
    Target {
        endpoint: "http://127.0.0.1:1/rpc".parse().unwrap(),
        method: "x".to_owned(),
        params: None,
        timeout: Duration::from_secs(1),
    }
}

#[test]
fn every_failure_has_its_exit_code_and_says_whether_it_may_have_run() {
    let target = target();
    let fails = |error: CallError| not_answered(&target, &error, false);
    let response = |status, body: &str| Box::new(StatusError::new(status, "", body.as_bytes()));
    for (status, exit) in [(401, Exit::Auth), (403, Exit::Auth), (407, Exit::Auth)] {
        let error = CallError::Refused(response(status, "no"));
        assert_eq!(fails(error).exit, exit, "{status}");
    }
    for (status, body, exit) in [
        (200, "<html>", Exit::Protocol),
        (308, "", Exit::Protocol),
        (404, "", Exit::Protocol),
        (429, "", Exit::Unreachable),
        (500, "", Exit::Protocol),
        (503, "", Exit::Unreachable),
    ] {
        let error = CallError::UnexpectedResponse(response(status, body));
        assert_eq!(fails(error).exit, exit, "{status}");
    }
    let lost = |kind: io::ErrorKind| CloseReason::failed(io::Error::from(kind)).temporary();
    let refused = io::ErrorKind::ConnectionRefused;
    for (error, exit, part) in [
        (CallError::Timeout, Exit::Timeout, "it may still run"),
        (
            CallError::TooLarge { limit: 1 },
            Exit::Protocol,
            "larger than 1 bytes",
        ),
        (
            CallError::AlreadyClosed(lost(refused)),
            Exit::Unreachable,
            "nothing was sent",
        ),
        (
            CallError::Closed(lost(io::ErrorKind::ConnectionReset)),
            Exit::Unreachable,
            "it may have run",
        ),
        (
            CallError::Closed(CloseReason::failed(FrameError::MissingLength)),
            Exit::Protocol,
            "",
        ),
    ] {
        let failure = fails(error);
        assert_eq!(failure.exit, exit, "{failure:?}");
        assert!(format!("{failure:?}").contains(part), "{failure:?}");
    }
    // A server may answer with any code, and it is its own error.
    for code in [-32_010, -32_011, -32_012, -32_013, 1001] {
        let error = JsonRpcError::with_data(code, "x", serde_json::json!({ "status": 401 }));
        assert_eq!(fails(error.into()).exit, Exit::Rpc, "{code}");
    }
}

#[test]
fn a_refusal_of_http_is_told_from_one_of_the_system() {
    let denied = http(401);
    let os = io::Error::from_raw_os_error(13);
    assert_eq!(os.kind(), io::ErrorKind::PermissionDenied);
    let ws: Endpoint = "ws://127.0.0.1:1/rpc".parse().unwrap();
    assert_eq!(sort(&ws, &denied), (Exit::Auth, TOKEN_HINT));
    let forbidden = http(403);
    assert_eq!(sort(&ws, &forbidden), (Exit::Auth, CALLER_HINT));
    assert_eq!(sort(&ws, &http(404)).0, Exit::Protocol);
    for status in [429, 502, 503, 504] {
        let busy = http(status);
        assert_eq!(sort(&ws, &busy).0, Exit::Unreachable, "{status}");
        let reason = CloseReason::failed(busy);
        assert_eq!(lost(&ws, &reason).exit, Exit::Unreachable, "{status}");
    }
    assert_eq!(sort(&ws, &os).0, Exit::Unreachable);
    // A session that is ended so says it by its reason.
    let reason = CloseReason::failed(denied);
    assert_eq!(lost(&ws, &reason).exit, Exit::Auth);
    let reason = CloseReason::failed(FrameError::TwoLengths);
    assert_eq!(lost(&ws, &reason).exit, Exit::Protocol);
    assert_eq!(lost(&ws, &CloseReason::remote()).exit, Exit::Unreachable);
}

#[test]
fn without_tls_the_server_is_not_reached() {
    let https: Endpoint = "https://127.0.0.1:1/rpc".parse().unwrap();
    let host = "a".to_owned();
    let cause = || io::Error::new(io::ErrorKind::InvalidData, "x");
    let cases = [
        (
            TlsError::Handshake {
                host: host.clone(),
                cause: cause(),
            },
            "does it speak TLS",
        ),
        (
            TlsError::Refused {
                host,
                cause: cause(),
            },
            "SSL_CERT_FILE",
        ),
        (TlsError::NoSystemRoots { cause: None }, ""),
    ];
    for (error, part) in cases {
        let (exit, hint) = sort(&https, &error.into());
        assert_eq!(exit, Exit::Unreachable, "{hint}");
        assert!(hint.contains(part), "{hint}");
    }
    assert_eq!(sort(&https, &cause()).0, Exit::Protocol);
}

#[test]
fn a_notification_that_was_not_accepted_is_sorted_as_a_call() {
    let target = target();
    for (cause, exit) in [
        (http(401), Exit::Auth),
        (http(404), Exit::Protocol),
        (io::ErrorKind::InvalidData.into(), Exit::Protocol),
        (io::ErrorKind::TimedOut.into(), Exit::Timeout),
        (io::ErrorKind::ConnectionReset.into(), Exit::Unreachable),
        (io::ErrorKind::Other.into(), Exit::Unreachable),
    ] {
        let text = cause.to_string();
        let reason = CloseReason::failed(cause);
        assert_eq!(not_accepted(&target, &reason).exit, exit, "{text}");
    }
    let reason = CloseReason::remote();
    assert_eq!(not_accepted(&target, &reason).exit, Exit::Unreachable);
}
