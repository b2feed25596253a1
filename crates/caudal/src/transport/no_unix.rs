//! Stands for Unix sockets where the system has none.

use std::convert::Infallible;
use std::io;
use std::path::Path;

use caudal_core::Framing;
use tokio::io::Empty;

use super::stream::Stream;

pub(crate) async fn connect(_: &Path, _: Framing, _: usize) -> io::Result<Stream<Empty>> {
    Err(unsupported())
}

/// A value that cannot be made.
#[derive(Debug)]
pub(crate) struct Listener(Infallible);

impl Listener {
    pub(super) fn bind(_: &Path) -> io::Result<Self> {
        Err(unsupported())
    }

    pub(super) async fn accept(&self, _: Framing, _: usize) -> io::Result<Stream<Empty>> {
        match self.0 {}
    }
}

fn unsupported() -> io::Error {
    let none = "caudal has no Unix sockets on this system";
    io::Error::new(io::ErrorKind::Unsupported, none)
}
