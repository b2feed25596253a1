//! TCP sockets: no delay, and dead ones are found.

use std::io;
use std::time::Duration;

use caudal_core::Framing;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::stream::Stream;

/// Silence after which a keep-alive probe is sent to the other side.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Interval between further keep-alive probes.
const AGAIN: Duration = Duration::from_secs(10);

/// Connects to the first address of a host that answers.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    framing: Framing,
) -> io::Result<Stream<TcpStream>> {
    let socket = TcpStream::connect((host, port)).await?;
    stream(socket, framing)
}

/// Makes a transport of a socket.
pub(super) fn stream(socket: TcpStream, framing: Framing) -> io::Result<Stream<TcpStream>> {
    let remote = socket.peer_addr()?;
    set_up(&socket)?;
    Ok(Stream::new(socket, framing)
        .with_remote(remote.to_string())
        .lingering())
}

/// Sets what every socket of ours has.
pub(crate) fn set_up(socket: &TcpStream) -> io::Result<()> {
    // Writes are coalesced here; the kernel must not wait for more.
    socket.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new()
        .with_time(KEEP_ALIVE)
        .with_interval(AGAIN);
    SockRef::from(socket).set_tcp_keepalive(&keep_alive)
}
