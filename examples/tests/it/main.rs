//! The tests of the examples, in one process.

mod browser;
mod programs;
mod real;
mod real_http;
mod support;
mod transcripts;
