//! The process that keeps a processor awake.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use caudal_bench::process;

fn awake(core: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_caudal-bench"));
    command.args(["--awake", core]).stdin(Stdio::piped());
    command
}

#[test]
fn it_never_sleeps_and_ends_with_whoever_started_it() {
    let mut child = awake("0").spawn().expect("it starts");
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let usage = process::usage(child.id()).expect("it runs");
        if usage.cpu > Duration::from_millis(50) {
            break;
        }
        assert!(Instant::now() < until, "it sleeps");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn it_says_what_is_missing() {
    let output = awake("first").stderr(Stdio::piped()).output();
    let output = output.expect("it starts");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--awake needs a processor"), "{said}");
}
