//! What tests of the example programs share.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::path::Path;
use std::process::Command;

#[path = "../../../../tests/support/eventually.rs"]
mod eventually;
pub(crate) mod real;

pub(crate) use eventually::{LIMIT, eventually};

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
