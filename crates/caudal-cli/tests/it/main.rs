//! The tests of caudal-cli, in one process.

mod call;
mod curl;
mod demo;
mod http;
mod serve;
mod support;
mod tls;
