//! What several tests use.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may, and each program uses a part of it"
)]

#[cfg(all(feature = "session", feature = "ws"))]
pub(crate) mod downlink;
pub(crate) mod fake;
pub(crate) mod program;
pub(crate) mod raw_http;
#[cfg(feature = "tls")]
pub(crate) mod root;
mod wait;
pub(crate) mod websocket;
pub(crate) mod wire;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use caudal::transport::Stream;
use caudal::{Config, Framing, Peer, Router};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
pub(crate) use wait::{
    eventually, eventually_blocking, eventually_now, ms, pass_time, stays_pending,
    while_time_passes, within,
};

/// The other end of a connection, spoken to by hand.
pub(crate) struct Raw {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Raw {
    /// A peer that serves `router`, and its other end.
    pub(crate) fn serve(router: Router, config: Config) -> (Peer, Self) {
        Self::serve_through(1 << 20, router, config)
    }

    /// The same with a pipe of so many bytes in between.
    pub(crate) fn serve_through(pipe: usize, router: Router, config: Config) -> (Peer, Self) {
        let (here, there) = tokio::io::duplex(pipe);
        let stream = Stream::new(there, Framing::Line);
        let peer = Peer::start_with(stream, router, config);
        let (reader, writer) = tokio::io::split(here);
        let lines = BufReader::new(reader).lines();
        (peer, Self { lines, writer })
    }

    pub(crate) async fn send(&mut self, line: &str) {
        self.writer.write_all(line.as_bytes()).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    /// Sends the beginning of a line.
    pub(crate) async fn begin(&mut self, half: &str) {
        self.writer.write_all(half.as_bytes()).await.unwrap();
    }

    /// The next line, which must come.
    pub(crate) async fn line(&mut self) -> String {
        let line = within(self.lines.next_line()).await;
        line.unwrap().expect("the connection ended")
    }

    pub(crate) async fn json(&mut self) -> serde_json::Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// Nothing comes, for a while.
    pub(crate) async fn silence(&mut self) {
        stays_pending("a line", self.lines.next_line()).await;
    }

    /// The end of the connection comes.
    pub(crate) async fn end(&mut self) {
        assert_eq!(within(self.lines.next_line()).await.unwrap(), None);
    }

    pub(crate) async fn close_input(&mut self) {
        self.writer.shutdown().await.unwrap();
    }
}

/// A folder that is gone in the end. Its path is short enough for a socket.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// A path in it, where nothing is yet.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder().join("s")
    }
}

/// What happened, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
