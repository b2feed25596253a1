//! Standard input and output, on both sides: a program that serves on its own,
//! and a child process that is spoken to.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::error::Error as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use caudal::transport::{Child, ChildOptions, ExitError, Stderr};
use caudal::{CallError, CloseReason, Config, Endpoint, Error, Peer, RawValue, Router, connect};
use rustix::fs::{OFlags, fcntl_getfl};
use serde_json::{Value, json};

use crate::support::program::conformance;
use crate::support::{Scratch, eventually, eventually_blocking, ms, within};

// ---- a program that serves on its stdin and stdout ----

const ADD: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"add\",\"params\":[1,2]}\n";
const SUM: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}\n";

/// A process that is killed if it is still there in the end.
struct Program(std::process::Child);

impl Program {
    fn start(stdin: impl Into<Stdio>, stdout: impl Into<Stdio>) -> Self {
        let mut command = Command::new(conformance());
        command
            .arg("stdio:")
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn piped() -> Self {
        Self::start(Stdio::piped(), Stdio::piped())
    }

    fn write(&mut self, text: &str) {
        self.0
            .stdin
            .as_mut()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    /// Ends its input, and reads the rest of its output.
    fn finish(&mut self) -> String {
        drop(self.0.stdin.take());
        let mut output = String::new();
        self.0
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        output
    }

    fn end(&mut self) -> ExitStatus {
        let mut status = None;
        eventually_blocking("the program ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_nonblocking(fd: impl AsFd) -> bool {
    fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
}

fn read_line(input: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") && input.read(&mut byte).unwrap() == 1 {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// Proves: A44, A45, A47, A57
#[test]
fn a_program_answers_on_stdout_and_ends_with_its_input() {
    let mut program = Program::piped();
    program.write(ADD);
    assert_eq!(read_line(program.0.stdout.as_mut().unwrap()), SUM);
    program.write(&ADD.repeat(3));
    assert_eq!(program.finish(), SUM.repeat(3));
    assert!(program.end().success());
}

#[test]
fn the_end_of_the_input_lets_what_runs_finish() {
    let mut program = Program::piped();
    program.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\",\"params\":{\"ms\":500}}\n");
    program.write("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"slow\",\"params\":{\"ms\":300}}");
    let output = program.finish();
    assert_eq!(
        output,
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":300}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":500}\n"
    );
    assert!(program.end().success());
}

#[test]
fn only_messages_come_out_whatever_happens() {
    let mut program = Program::piped();
    program.write("not json\n\n \n");
    program.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"panic\"}\n");
    program.write("{\"jsonrpc\":\"2.0\",\"method\":\"panic\"}\n");
    program.write("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"fail\"}\n");
    program.write(ADD);
    let output = program.finish();
    let codes: Vec<_> = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["error"]["code"].clone())
        .collect();
    assert_eq!(
        codes,
        [json!(-32700), json!(-32603), json!(1001), Value::Null]
    );
    assert!(program.end().success());
}

#[test]
fn pipes_block_again_when_the_program_has_ended() {
    let (their_input, mut our_output) = io::pipe().unwrap();
    let (mut our_input, their_output) = io::pipe().unwrap();
    // What is kept here shares its flags with what the program has.
    let kept = (
        their_input.try_clone().unwrap(),
        their_output.try_clone().unwrap(),
    );
    assert!(!is_nonblocking(&kept.0) && !is_nonblocking(&kept.1));
    let mut program = Program::start(their_input, their_output);
    our_output.write_all(ADD.as_bytes()).unwrap();
    assert_eq!(read_line(&mut our_input), SUM);
    // Otherwise this test would prove nothing.
    assert!(is_nonblocking(&kept.0) && is_nonblocking(&kept.1));
    drop(our_output);
    assert!(program.end().success());
    assert!(!is_nonblocking(&kept.0) && !is_nonblocking(&kept.1));
}

#[test]
fn sockets_serve_as_stdio_and_block_again() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let kept = theirs.try_clone().unwrap();
    let output = OwnedFd::from(theirs.try_clone().unwrap());
    let mut program = Program::start(OwnedFd::from(theirs), output);
    ours.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    ours.write_all(ADD.as_bytes()).unwrap();
    assert_eq!(read_line(&mut ours), SUM);
    assert!(is_nonblocking(&kept));
    let slow = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"slow\",\"params\":{\"ms\":200}}\n";
    ours.write_all(slow.as_bytes()).unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    ours.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":200}\n");
    assert!(program.end().success());
    assert!(!is_nonblocking(&kept));
}

#[test]
fn files_serve_as_stdio() {
    let scratch = Scratch::new();
    let (input, output) = (scratch.folder().join("in"), scratch.folder().join("out"));
    let slow = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"slow\",\"params\":{\"ms\":200}}";
    fs::write(&input, ADD.repeat(5000) + slow).unwrap();
    let mut program = Program::start(File::open(&input).unwrap(), File::create(&output).unwrap());
    assert!(program.end().success());
    let answered = fs::read_to_string(&output).unwrap();
    assert_eq!(
        answered,
        SUM.repeat(5000) + "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":200}\n"
    );
}

/// Somebody else may have left it so. What is written to this end of one comes back as its
/// echo.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_does_not_block_has_not_ended() {
    let terminal = rustix::fs::open(
        "/dev/ptmx",
        OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    );
    let mut terminal = File::from(terminal.unwrap());
    let mut program = Program::start(terminal.try_clone().unwrap(), Stdio::piped());
    eventually_blocking("it is taken", || !is_nonblocking(&terminal));
    terminal.write_all(ADD.as_bytes()).unwrap();
    assert_eq!(read_line(program.0.stdout.as_mut().unwrap()), SUM);
}

#[test]
fn a_program_without_input_ends_at_once() {
    let mut program = Program::start(Stdio::null(), Stdio::piped());
    assert!(program.end().success());
    assert_eq!(program.finish(), "");
    // Nor with one that is closed.
    let script = format!("exec {} stdio: <&- 2>/dev/null", conformance());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
}

#[test]
fn a_program_whose_output_nobody_reads_ends() {
    let mut program = Program::piped();
    program.write(ADD);
    assert_eq!(read_line(program.0.stdout.as_mut().unwrap()), SUM);
    drop(program.0.stdout.take());
    // A child that another test starts just now has the pipe until it is executed, so the
    // first reply may still be written.
    eventually_blocking("the program ends", || {
        let stdin = program.0.stdin.as_mut().unwrap();
        let _ = stdin.write_all(ADD.as_bytes());
        program.0.try_wait().unwrap().is_some()
    });
}

#[test]
fn what_is_printed_before_and_after_is_not_lost_in_the_way_of_messages() {
    // The status line of the example goes to stderr; nothing else is printed.
    let mut program = Command::new(conformance());
    program.arg("stdio:").stdin(Stdio::null());
    let output = program.output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "serving on stdio:\n"
    );
    assert!(output.stdout.is_empty());
}

/// Proves: A51
#[test]
fn what_a_handler_prints_does_not_get_between_the_messages() {
    const NAME: &str = "stdio::what_a_handler_prints_does_not_get_between_the_messages";
    const SERVES: &str = "CAUDAL_TEST_SERVES";
    if std::env::var_os(SERVES).is_some() {
        let shout = |(n,): (u32,)| {
            println!("stray line {n}");
            print!("stray word {n}");
            let script = format!("echo stray child {n}; cat");
            assert!(shell(&script).status().unwrap().success());
            let mut nothing = String::new();
            io::stdin().read_line(&mut nothing).unwrap();
            Ok((n, nothing))
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let router = Router::new().method("shout", shout);
            caudal::serve("stdio:", router).await.unwrap().wait().await;
        });
        println!("printed after");
        return;
    }
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
        .env(SERVES, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = program.stdin.take().unwrap();
    let (mut calls, mut answers) = (String::new(), String::new());
    for n in 1..=3 {
        calls +=
            &format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"shout\",\"params\":[{n}]}}\n");
        answers += &format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"result\":[{n},\"\"]}}\n");
    }
    stdin.write_all(calls.as_bytes()).unwrap();
    drop(stdin);
    let output = program.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{printed}{said}");
    assert!(printed.contains(&answers), "{printed}");
    let (_, after) = printed.split_once(&answers).unwrap();
    assert!(after.contains("printed after"), "{printed}");
    assert!(!printed.contains("stray"), "{printed}");
    for n in 1..=3 {
        for stray in ["line", "word", "child"] {
            assert!(said.contains(&format!("stray {stray} {n}")), "{said}");
        }
    }
}

#[test]
fn a_reader_that_is_slow_gets_it_all() {
    let mut program = Program::piped();
    let big = "x".repeat(900_000);
    let call =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[\"{big}\"]}}\n");
    let mut stdin = program.0.stdin.take().unwrap();
    let writer: JoinHandle<()> = std::thread::spawn(move || {
        for _ in 0..8 {
            stdin.write_all(call.as_bytes()).unwrap();
        }
    });
    std::thread::sleep(ms(300));
    let mut stdout = program.0.stdout.take().unwrap();
    let mut total = 0;
    let mut buffer = vec![0; 200_000];
    loop {
        match stdout.read(&mut buffer).unwrap() {
            0 => break,
            read => total += read,
        }
        std::thread::sleep(ms(1));
    }
    writer.join().unwrap();
    assert_eq!(
        total,
        8 * (900_000 + r#"{"jsonrpc":"2.0","id":1,"result":[""]}"#.len() + 1)
    );
    assert!(program.end().success());
}

// ---- a child process ----

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn spawn(script: &str, options: ChildOptions) -> Child {
    Child::spawn(shell(script), options).unwrap()
}

fn options() -> ChildOptions {
    ChildOptions::default()
}

fn echo() -> Router {
    Router::new().method("echo", |params: Option<Box<RawValue>>| Ok(params))
}

fn exit(reason: &CloseReason) -> &ExitError {
    let source = reason.source().expect("a reason");
    source.downcast_ref().expect("how it ended")
}

/// Whether a process is there; what nobody has waited for does not count.
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit(')').next().unwrap().trim_start().chars().next();
    !matches!(state, Some('Z' | 'X'))
}

/// A script that writes its own process id and that of a process it starts.
fn family(scratch: &Scratch, rest: &str) -> String {
    let file = scratch.file();
    let path = file.display();
    format!("sleep 1000 & echo $$ $! >{path}.new; mv {path}.new {path}; {rest}")
}

async fn members(scratch: &Scratch) -> Vec<u32> {
    let file = scratch.file();
    eventually("it has started", || file.exists()).await;
    let text = fs::read_to_string(&file).unwrap();
    let pids: Vec<u32> = text
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    pids
}

#[tokio::test]
async fn the_reason_says_how_a_child_ended() {
    let peer = connect(Endpoint::command("sh", ["-c", "read line; exit 3"]))
        .await
        .unwrap();
    assert_eq!(peer.remote(), Some("cmd:sh"));
    let error = within(peer.call::<()>("x", ())).await.unwrap_err();
    let CallError::Closed(reason) = error else {
        panic!("{error:?}");
    };
    assert!(!reason.is_remote() && !reason.is_local());
    assert_eq!(exit(&reason).status.code(), Some(3));
    assert_eq!(exit(&reason).to_string(), "`sh` ended: exit status: 3");
    let reason = within(peer.closed()).await;
    assert_eq!(exit(&reason).status.code(), Some(3));

    let peer = connect("cmd:sh -c 'exit 3'").await.unwrap();
    assert_eq!(exit(&within(peer.closed()).await).status.code(), Some(3));
    let peer = connect("cmd:true").await.unwrap();
    let reason = within(peer.closed()).await;
    assert!(reason.is_remote() && exit(&reason).status.success());
    let peer = connect("cmd:sh -c 'kill -9 $$'").await.unwrap();
    let reason = within(peer.closed()).await;
    assert_eq!(exit(&reason).status.signal(), Some(9));
    assert!(!reason.is_remote());
}

#[tokio::test]
async fn a_child_that_reads_no_more_says_why_in_the_end() {
    let peer = connect("cmd:sh -c 'exec 0<&-; sleep 0.3; exit 4'")
        .await
        .unwrap();
    tokio::time::sleep(ms(100)).await;
    let error = within(peer.call::<()>("x", ())).await.unwrap_err();
    let CallError::Closed(reason) = error else {
        panic!("{error:?}");
    };
    assert_eq!(exit(&reason).status.code(), Some(4));
}

#[tokio::test]
async fn a_call_to_a_child_that_reads_no_more_and_lives_on_fails() {
    let connecting = connect("cmd:sh -c 'exec 0<&-; sleep 60'");
    let peer = connecting.child(options().grace(ms(100))).await.unwrap();
    tokio::time::sleep(ms(100)).await;
    let call = peer.call::<()>("x", ()).timeout(None);
    let error = within(call).await.unwrap_err();
    let CallError::Closed(reason) = error else {
        panic!("{error:?}");
    };
    let why = reason.source().unwrap().to_string();
    assert_eq!(why, "`sh` reads its input no more");
}

/// Neither is it read, since nothing more can be sent.
#[tokio::test]
async fn a_child_that_ends_with_answers_due_is_noticed() {
    let router = Router::new().method("big", || Ok("x".repeat(200_000)));
    let mut config = Config::default();
    (config.output, config.in_flight) = (1000, 4);
    let script = r#"for n in 1 2 3 4 5 6 7 8 9; do
        echo "{\"jsonrpc\":\"2.0\",\"id\":$n,\"method\":\"big\"}"
    done; sleep 0.3; exit 4"#;
    let peer = Peer::start_with(spawn(script, options()), router, config);
    let reason = within(peer.closed()).await;
    let why = reason.source().unwrap().to_string();
    assert_eq!(why, "`sh` ended: exit status: 4");
}

/// Also if something was to be sent to it then.
#[tokio::test]
async fn what_a_child_said_before_it_ended_is_served() {
    for writes in [false, true] {
        let served = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&served);
        let router = Router::new().method("log", move || {
            let count = Arc::clone(&count);
            async move {
                tokio::time::sleep(ms(100)).await;
                count.fetch_add(1, SeqCst);
            }
        });
        let script = r#"for n in 1 2 3; do echo '{"jsonrpc":"2.0","method":"log"}'; done"#;
        let child = spawn(script, options());
        // It has ended by then.
        tokio::time::sleep(ms(100)).await;
        let peer = Peer::start(child, router);
        if writes {
            peer.notify("x", ()).await.unwrap();
        }
        let reason = within(peer.closed()).await;
        assert!(exit(&reason).status.success(), "{reason}");
        // Who cannot be written to is gone, and is not waited for.
        let most = if writes { 1..=3 } else { 3..=3 };
        assert!(most.contains(&served.load(SeqCst)), "{reason}");
    }
}

#[tokio::test]
async fn what_a_child_never_took_does_not_count_as_sent() {
    let peer = connect("cmd:sh -c 'exec 0<&-; sleep 60'").await.unwrap();
    tokio::time::sleep(ms(100)).await;
    peer.notify("x", ()).await.unwrap();
    tokio::time::sleep(ms(50)).await;
    peer.close();
    let reason = within(peer.closed()).await;
    assert!(!reason.is_local() && !reason.is_remote(), "{reason:?}");
    let stats = peer.stats();
    assert_eq!((stats.bytes_sent, stats.dropped), (0, 1));
}

#[tokio::test]
async fn the_last_words_of_a_child_are_in_the_reason() {
    let child = spawn(
        "echo one >&2; echo two >&2; sleep 0.2; exit 3",
        options().stderr(Stderr::Capture),
    );
    let peer = Peer::start(child, Router::new());
    let reason = within(peer.closed()).await;
    assert_eq!(exit(&reason).stderr, "one\ntwo\n");
    assert_eq!(
        exit(&reason).to_string(),
        "`sh` ended: exit status: 3; it said: one\ntwo"
    );
    // Only the last 8 KiB are kept.
    let child = spawn(
        "seq 100000 >&2; sleep 0.2; exit 3",
        options().stderr(Stderr::Capture),
    );
    let reason = within(Peer::start(child, Router::new()).closed()).await;
    let said = &exit(&reason).stderr;
    assert!(
        said.len() == 8 << 10 && said.ends_with("99999\n100000\n"),
        "{said}"
    );
    let child = spawn(
        "echo one >&2; sleep 0.2; exit 3",
        options().stderr(Stderr::Discard),
    );
    let reason = within(Peer::start(child, Router::new()).closed()).await;
    assert_eq!(exit(&reason).stderr, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_words_are_not_lost_when_a_child_ends_right_after() {
    for n in 0..100 {
        let child = spawn(
            "seq 1000 >&2; echo why >&2; exit 3",
            options().stderr(Stderr::Capture),
        );
        let peer = Peer::start(child, Router::new());
        let reason = within(peer.closed()).await;
        let said = &exit(&reason).stderr;
        assert!(said.ends_with("1000\nwhy\n"), "{n}: {said:?}");
    }
}

#[tokio::test]
async fn a_stray_line_of_a_child_does_not_end_the_connection() {
    let script = "echo 'Starting up...'; echo; echo '[warn] x'; exec cat";
    let peer = Peer::start(spawn(script, options()), echo());
    for n in 0..3 {
        let back: Value = within(peer.call("echo", (n,))).await.unwrap();
        assert_eq!(back, json!([n]));
    }
    assert_eq!(peer.stats().invalid, 2);
    // `cat` sends back what we think of those lines, and nobody asked.
    eventually("both came back", || peer.stats().late_replies == 2).await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_not_looked_for_again() {
    let error = connect("cmd:/no/such/program -v").await.unwrap_err();
    assert!(!error.is_recoverable());
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_a_clear_error() {
    let error = connect("cmd:/no/such/program -v").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot connect to `cmd:/no/such/program -v`; install the program, or write its path"
    );
    let Error::Connect { cause, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(cause.kind(), io::ErrorKind::NotFound);
    // A directory is there, but no program.
    let error = connect("cmd:/tmp").await.unwrap_err();
    let Error::Connect { cause, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(cause.kind(), io::ErrorKind::PermissionDenied);
    assert!(!error.is_recoverable());
}

/// Proves: A54, A74
#[tokio::test]
async fn a_child_ends_with_its_last_handle_and_so_does_what_it_has_started() {
    let scratch = Scratch::new();
    let options = options().grace(Duration::from_secs(600));
    let child = spawn(&family(&scratch, "exec cat"), options);
    let peer = Peer::start(child, echo());
    let pids = members(&scratch).await;
    let _: Value = within(peer.call("echo", (1,))).await.unwrap();
    drop(peer);
    // `cat` ends with its input, and `sleep` with `cat`.
    eventually("all are gone", || !pids.iter().any(|pid| is_alive(*pid))).await;
    // Nobody is left to be waited for.
    eventually("reaped", || {
        !fs::exists(format!("/proc/{}", pids[0])).unwrap()
    })
    .await;
}

/// Proves: A74
#[tokio::test]
async fn a_transport_that_is_dropped_kills_the_whole_group_at_once() {
    let scratch = Scratch::new();
    let child = spawn(
        &family(&scratch, "trap '' TERM; while :; do sleep 1; done"),
        options().grace(Duration::from_secs(600)),
    );
    let id = child.id().unwrap();
    let pids = members(&scratch).await;
    assert_eq!(pids[0], id);
    drop(child);
    eventually("all are gone", || !pids.iter().any(|pid| is_alive(*pid))).await;
}

#[test]
fn a_runtime_that_is_dropped_kills_the_whole_group() {
    let scratch = Scratch::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (peer, pids) = runtime.block_on(async {
        let script = family(&scratch, "trap '' TERM; while :; do sleep 1; done");
        let peer = Peer::start(spawn(&script, options()), Router::new());
        (peer, members(&scratch).await)
    });
    drop(runtime);
    eventually_blocking("all are gone", || !pids.iter().any(|pid| is_alive(*pid)));
    drop(peer);
}

/// Process ids of the shells that wait for the end of this process beside a child.
fn watching_shells(child: u32) -> Vec<u32> {
    let arguments = format!("\0caudal\0{child}\0");
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let entry = entry.unwrap();
        entry.file_name().to_str()?.parse().ok()
    });
    processes
        .filter(|pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).ends_with(&arguments)
        })
        .collect()
}

#[tokio::test]
async fn a_shell_waits_beside_a_child_only_if_that_is_asked_for() {
    let alone = spawn("exec cat", options());
    let watched = spawn("exec cat", options().end_with_parent(true));
    let id = watched.id().unwrap();
    eventually("it waits", || watching_shells(id).len() == 1).await;
    assert!(watching_shells(alone.id().unwrap()).is_empty());
    drop(watched);
    eventually("it is gone", || watching_shells(id).is_empty()).await;
}

/// What others wait for is not kept by the shell that waits beside a child.
#[test]
fn what_a_process_has_inherited_is_free_when_it_is_killed() {
    const NAME: &str = "stdio::what_a_process_has_inherited_is_free_when_it_is_killed";
    const CALLS: &str = "CAUDAL_TEST_CALLS";
    if std::env::var_os(CALLS).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(async {
            let peer = Peer::start(
                spawn(
                    "exec cat",
                    options().stderr(Stderr::Discard).end_with_parent(true),
                ),
                Router::new(),
            );
            peer.call::<()>("x", ()).await.unwrap_err();
            eprintln!("it runs");
            std::future::pending().await
        });
    }
    let mut program = shell(r#"exec 3>&1 1>&2; exec "$0" "$@""#)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
        .env(CALLS, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map(Program)
        .unwrap();
    let mut said = program.0.stderr.take().unwrap();
    let runs = |line: String| line.contains("it runs") || line.is_empty();
    while !runs(read_line(&mut said)) {}
    assert_eq!(program.0.try_wait().unwrap(), None);
    let mut inherited = program.0.stdout.take().unwrap();
    drop(program);
    inherited.read_to_end(&mut Vec::new()).unwrap();
}

#[tokio::test]
async fn a_child_that_goes_on_without_input_is_made_to_end() {
    let loops = "while :; do sleep 0.1; done";
    let stubborn = format!("trap '' TERM; {loops}");
    for (rest, signal) in [(loops, 15), (&*stubborn, 9)] {
        let scratch = Scratch::new();
        let peer = Peer::start(spawn(&family(&scratch, rest), options()), Router::new());
        let pids = members(&scratch).await;
        peer.close();
        // Callers do not wait for that.
        let error = within(peer.call::<()>("x", ())).await.unwrap_err();
        assert!(matches!(error, CallError::AlreadyClosed(_)));
        let reason = within(peer.closed()).await;
        assert!(reason.is_local());
        assert_eq!(exit(&reason).status.signal(), Some(signal));
        eventually("all are gone", || !pids.iter().any(|pid| is_alive(*pid))).await;
    }
}

#[tokio::test]
async fn a_child_whose_own_child_keeps_its_output_open_has_ended_all_the_same() {
    let scratch = Scratch::new();
    let child = spawn(&family(&scratch, "sleep 0.3; exit 3"), options());
    let peer = Peer::start(child, Router::new());
    let pids = members(&scratch).await;
    let reason = within(peer.closed()).await;
    assert_eq!(exit(&reason).status.code(), Some(3));
    eventually("all are gone", || !pids.iter().any(|pid| is_alive(*pid))).await;
}

#[tokio::test]
async fn a_child_that_closes_its_output_is_made_to_end() {
    let peer = connect("cmd:sh -c 'exec 1>&-; while :; do sleep 0.1; done'")
        .await
        .unwrap();
    let error = within(peer.call::<()>("x", ())).await.unwrap_err();
    let CallError::Closed(reason) = error else {
        panic!("{error:?}");
    };
    assert_eq!(exit(&reason).status.signal(), Some(15));
    // It did not die of a signal that somebody else sent.
    assert!(exit(&reason).stopped);
    let shown = exit(&reason).to_string();
    let stopped = "`sh` did not end by itself and was stopped: signal: 15";
    assert!(shown.starts_with(stopped), "{shown}");
}

#[tokio::test]
async fn a_child_may_speak_until_it_ends() {
    // More than a pipe holds: who writes it where nobody reads dies, or waits for ever.
    let script = "cat >/dev/null; head -c 1000000 /dev/zero || exit 3; exit 7";
    let peer = Peer::start(spawn(script, options()), Router::new());
    peer.close();
    let reason = within(peer.closed()).await;
    assert_eq!(exit(&reason).status.code(), Some(7));
}

#[tokio::test]
async fn a_child_may_be_given_longer_to_end() {
    let slow = Endpoint::command("sh", ["-c", "cat >/dev/null; sleep 2.5; exit 7"]);
    let peer = connect(slow)
        .child(options().grace(Duration::from_secs(20)))
        .await
        .unwrap();
    peer.close();
    let reason = within(peer.closed()).await;
    assert_eq!(exit(&reason).status.code(), Some(7));
    assert!(reason.is_local() && !exit(&reason).stopped);

    let late = Endpoint::command("sh", ["-c", "cat >/dev/null; sleep 600"]);
    let peer = connect(late).child(options().grace(ms(100))).await.unwrap();
    peer.close();
    let reason = within(peer.closed()).await;
    assert!(exit(&reason).stopped);
}

#[tokio::test]
async fn a_child_gets_its_arguments_environment_and_directory() {
    let script = r#"read line; id="${line#*\"id\":}"; id="${id%%,*}"
        printf '{"jsonrpc":"2.0","id":%s,"result":["%s","%s","%s"]}\n' "$id" "$1" "$WORD" "$PWD"
        read line"#;
    let mut command = shell(script);
    command
        .args(["name", "an argument"])
        .env("WORD", "a word")
        .current_dir("/");
    let child = Child::spawn(command, options()).unwrap();
    let peer = Peer::start(child, Router::new());
    let told: (String, String, String) = within(peer.call("x", (1,))).await.unwrap();
    assert_eq!(
        told,
        (
            "an argument".to_owned(),
            "a word".to_owned(),
            "/".to_owned()
        )
    );
}

/// Proves: A85
#[tokio::test]
async fn a_child_that_died_is_started_again_if_asked() {
    let mut backoff = caudal::Backoff::default();
    backoff.first = ms(10);
    let twice = "read -r a; printf '%s\\n' \"$a\"; read -r b; printf '%s\\n' \"$b\"";
    let endpoint = Endpoint::command("sh", ["-c", twice]);
    let peer = connect(endpoint)
        .router(echo())
        .reconnect(backoff)
        .await
        .unwrap();
    // Each child sends back one call and its answer, and ends.
    for n in 0..3 {
        let mut states = peer.watch();
        let back: Value = within(peer.call("echo", (n,))).await.unwrap();
        assert_eq!(back, json!([n]));
        while !matches!(states.now(), caudal::ConnectionState::Connecting) {
            within(states.changed()).await.unwrap();
        }
        while !matches!(states.now(), caudal::ConnectionState::Connected) {
            within(states.changed()).await.unwrap();
        }
    }
}
