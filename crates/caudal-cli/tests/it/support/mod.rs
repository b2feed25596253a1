//! The program under test, run as one.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test may, and not every test file uses everything"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

#[path = "../../../../../tests/support/eventually.rs"]
mod eventually;

pub(crate) use eventually::{LIMIT, eventually};

/// The program, without the token of whoever runs the tests.
pub fn caudal(args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).env_remove("CAUDAL_TOKEN");
    command
}

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_caudal");

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    #[track_caller]
    pub fn ends(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    #[track_caller]
    pub fn prints(&self, stdout: &str) -> &Self {
        assert_eq!(self.stdout, stdout, "{self:?}");
        self
    }

    #[track_caller]
    pub fn complains(&self, parts: &[&str]) -> &Self {
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in {self:?}");
        }
        self
    }
}

pub fn run(args: &[&str]) -> Outcome {
    finish(caudal(args), "")
}

/// Runs a command to its end.
pub fn finish(mut command: Command, stdin: &str) -> Outcome {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdout = read_all(child.stdout.take().unwrap());
    let stderr = read_all(child.stderr.take().unwrap());
    let mut input = child.stdin.take().unwrap();
    // It may have ended without reading.
    let _ = input.write_all(stdin.as_bytes());
    drop(input);
    let status = wait(&mut child);
    Outcome {
        code: status.code(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        from.read_to_end(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    })
}

/// Kills a process that is still there in the end.
struct Kills<'a>(&'a mut Child);

impl Drop for Kills<'_> {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

pub fn wait(child: &mut Child) -> ExitStatus {
    let child = Kills(child);
    eventually("the program ends", || child.0.try_wait().unwrap())
}

/// `caudal serve` that runs; it is killed if the test ends before it.
pub struct Served {
    child: Child,
    /// Where it listens.
    pub endpoint: String,
    /// What it has printed first.
    pub banner: String,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Served {
    pub fn tcp() -> Self {
        Self::on("tcp://127.0.0.1:0", &[])
    }

    pub fn on(listen: &str, more: &[&str]) -> Self {
        let mut command = caudal(&["serve", "--listen", listen]);
        command.args(more);
        Self::start(command)
    }

    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("Ctrl-C stops it.") {
            let read = stdout.read_line(&mut banner).unwrap();
            assert!(read > 0, "it does not serve: {banner}");
        }
        let first = banner.lines().next().unwrap();
        let endpoint = first.rsplit_once(" on ").unwrap().1.to_owned();
        Self {
            stdout: Some(read_all(stdout)),
            stderr: Some(read_all(child.stderr.take().unwrap())),
            child,
            endpoint,
            banner,
        }
    }

    /// The commands that it tells people to try.
    pub fn tries(&self) -> Vec<String> {
        let lines = self.banner.lines();
        lines
            .filter_map(|line| line.strip_prefix("  "))
            .map(str::to_owned)
            .collect()
    }

    pub fn address(&self) -> &str {
        let (_, rest) = self.endpoint.split_once("://").unwrap();
        rest.split(['/', '?']).next().unwrap()
    }

    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(status.success());
    }

    pub fn end(mut self) -> Outcome {
        let status = wait(&mut self.child);
        Outcome {
            code: status.code(),
            stdout: self.stdout.take().unwrap().join().unwrap(),
            stderr: self.stderr.take().unwrap().join().unwrap(),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that takes one connection, reads a line, and does as it is told.
pub fn fake(act: impl FnOnce(String, &mut TcpStream) + Send + 'static) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap())
            .read_line(&mut line)
            .unwrap();
        act(line, &mut stream);
    });
    (address, server)
}

/// A server that answers with this text, and holds the connection until the other
/// side ends it.
pub fn answering(text: &'static str) -> (String, JoinHandle<()>) {
    fake(move |_, stream| {
        stream.write_all(text.as_bytes()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

/// An address that nobody listens on.
pub fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// A path in a folder of its own, which is short enough for a socket, and gone with it.
pub struct Scratch {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        self
    }
}

pub fn path(name: &str) -> Scratch {
    let folder = tempfile::tempdir().unwrap();
    Scratch {
        path: folder.path().join(name),
        _folder: folder,
    }
}

/// A line of shell, as it is pasted.
pub fn paste(line: &str) -> Outcome {
    finish(shell(line), "")
}

pub fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).env_remove("CAUDAL_TOKEN");
    command
}
