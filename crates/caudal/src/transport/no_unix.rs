//! Stands for Unix sockets where the system has none.

use std::io;
use std::path::Path;

use caudal_core::Framing;
use tokio::io::Empty;

use super::stream::Stream;

pub(crate) async fn connect(_: &Path, _: Framing) -> io::Result<Stream<Empty>> {
    Err(unsupported())
}

/// The error of everything that needs a Unix socket.
pub(super) fn unsupported() -> io::Error {
    let none = "caudal has no Unix sockets on this system";
    io::Error::new(io::ErrorKind::Unsupported, none)
}
