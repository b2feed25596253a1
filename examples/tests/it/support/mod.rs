//! What tests of the example programs share.

#![allow(dead_code, reason = "not every test file uses everything")]

use std::path::Path;
use std::process::Command;

pub(crate) mod real;

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
