//! Child processes on every system. Programs of Unix are in `stdio.rs`.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::error::Error as _;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use caudal::transport::{Child, ChildOptions, ExitError, Stderr};
use caudal::{Endpoint, Peer, Router, connect};

use crate::support::program::conformance;
use crate::support::{eventually_blocking, ms, within};

/// Variable that tells a test what it is, when another test has started it as a program.
const ROLE: &str = "CAUDAL_TEST_ROLE";

/// A command that runs one test of this program in a role.
fn in_role(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ROLE, role);
    command
}

/// A child that goes on after the end of its stdin.
fn endless_child(test: &str, options: ChildOptions) -> Child {
    Child::spawn(in_role(test, "child"), options).unwrap()
}

/// Returns the role of this process, and never returns in a child.
fn role() -> Option<String> {
    let role = std::env::var(ROLE).ok()?;
    if role == "child" {
        eprintln!("the child runs");
        std::thread::sleep(Duration::from_secs(600));
    }
    Some(role)
}

#[tokio::test]
async fn a_program_that_serves_ends_in_good_order_when_its_client_closes() {
    let peer = connect(Endpoint::command(conformance(), ["stdio:"]))
        .await
        .unwrap();
    let sum: i64 = within(peer.call("add", (1, 2))).await.unwrap();
    assert_eq!(sum, 3);
    peer.close();
    let reason = within(peer.closed()).await;
    let exit: &ExitError = reason.source().unwrap().downcast_ref().unwrap();
    assert!(exit.status.success() && !exit.stopped, "{exit}");
}

#[tokio::test]
async fn a_child_that_goes_on_is_stopped_after_its_grace() {
    const NAME: &str = "children::a_child_that_goes_on_is_stopped_after_its_grace";
    role();
    let options = ChildOptions::default().stderr(Stderr::Discard);
    let peer = Peer::start(endless_child(NAME, options.grace(ms(50))), Router::new());
    peer.close();
    let reason = within(peer.closed()).await;
    let exit: &ExitError = reason.source().unwrap().downcast_ref().unwrap();
    assert!(exit.stopped && !exit.status.success(), "{exit}");
}

/// Proves: A74
#[test]
fn a_child_that_goes_on_ends_with_a_parent_that_is_killed() {
    const NAME: &str = "children::a_child_that_goes_on_ends_with_a_parent_that_is_killed";
    if role().is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(async {
            let _child = endless_child(NAME, ChildOptions::default().end_with_parent(true));
            std::future::pending().await
        });
    }
    let mut parent = in_role(NAME, "parent");
    parent.stdin(Stdio::null()).stdout(Stdio::null());
    let mut parent = parent.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(parent.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("the child runs") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0);
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
    // The child has inherited it and holds it open.
    let reader = std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    eventually_blocking("the child is gone", || reader.is_finished());
}

#[cfg(not(unix))]
#[tokio::test]
async fn a_unix_socket_is_refused_plainly() {
    let endpoint: Endpoint = "unix:/run/my.sock".parse().unwrap();
    let error = connect(&endpoint).await.unwrap_err();
    let cause = error.source().unwrap().to_string();
    assert_eq!(cause, "caudal has no Unix sockets on this system");
    assert!(!error.is_recoverable());
    let error = caudal::serve(&endpoint, Router::new()).await.unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), cause);
}
