//! Programs that other people wrote: where they are, and how they are run.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tokio::time::timeout;

use super::LIMIT;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A file of an installed program, or `None` and a loud word.
pub(crate) fn installed(program: &str, file: &str) -> Option<PathBuf> {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // What fails is named by the script, and found out here by its absence.
        let _ = Command::new(root().join("tests/real/install")).status();
    });
    let path = root().join("target/real").join(file);
    if !path.exists() {
        not_counted(program);
        return None;
    }
    Some(path)
}

pub(crate) fn not_counted(program: &str) {
    // The harness swallows what `eprintln!` writes in a test that passes.
    let _ = writeln!(std::io::stderr(), "NOT COUNTED: {program} is not installed");
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Fails if it takes too long.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    timeout(LIMIT, future).await.expect(what)
}

/// Runs a script of `tests/real` to its end: the JSON that it printed.
pub(crate) fn run(program: &Path, arguments: &[&str]) -> Value {
    let output = Command::new("timeout")
        .arg(LIMIT.as_secs().to_string())
        .arg(program)
        .args(arguments)
        .env("NODE_PATH", root().join("target/real/node_modules"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// A script of `tests/real`.
pub(crate) fn script(name: &str) -> String {
    text(&root().join("tests/real").join(name)).to_owned()
}

pub(crate) fn python() -> PathBuf {
    root().join("target/real/venv/bin/python")
}

/// A server that runs as a program, and ends with the test.
pub(crate) struct Running {
    child: Child,
    pub(crate) url: String,
}

impl Running {
    /// Its first line, on stdout or stderr, ends with its URL.
    pub(crate) fn start(program: impl AsRef<OsStr>, arguments: &[&str], on_stderr: bool) -> Self {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            // The SDK warns of what its next version will not have.
            .env("PYTHONWARNINGS", "ignore");
        if on_stderr {
            command.stderr(Stdio::piped());
        } else {
            command.stdout(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let read = match (child.stdout.take(), child.stderr.take()) {
            (Some(stdout), _) => BufReader::new(stdout).read_line(&mut line),
            (_, Some(stderr)) => BufReader::new(stderr).read_line(&mut line),
            (None, None) => Ok(0),
        };
        let url = line
            .split_whitespace()
            .last()
            .unwrap_or_default()
            .to_owned();
        let running = Self { child, url };
        assert!(running.url.starts_with("http://"), "{read:?} {line}");
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
