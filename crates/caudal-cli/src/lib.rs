//! Methods that the command-line tool `caudal` serves, for use in other programs.
//!
//! The tool itself is the binary: `caudal --help` has its manual.

pub mod demo;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
