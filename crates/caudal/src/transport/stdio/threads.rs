//! Standard input and output where descriptors cannot be replaced without `unsafe`: threads
//! read and write them.

use std::io;

use tokio::io::{DuplexStream, Join, Stdout, join};

use super::read_in_thread;

/// Both directions of the connection.
pub(super) type Io = Join<DuplexStream, Stdout>;

/// Nothing is changed, so nothing is put back.
#[derive(Debug)]
pub(super) struct Descriptors;

/// Starts a thread that reads stdin.
pub(super) fn take() -> io::Result<(Io, Descriptors)> {
    let input = read_in_thread(io::stdin())?;
    Ok((join(input, tokio::io::stdout()), Descriptors))
}
