//! What tests of the example programs share.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) mod real;

/// Longest wait for anything; the machine may be busy, and interpreters are slow to start.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What `look` finds, which it must do in the end. Tests wait for real time here alone.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An example, built as a program.
pub(crate) fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let program = folder.join("examples").join(name);
    assert!(
        program.exists(),
        "`cargo build -p caudal-examples --examples` builds {}",
        program.display()
    );
    Command::new(program)
}
