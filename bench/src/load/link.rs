//! The server and the way to it: a child's pipes, or sockets on this machine.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

use caudal_bench::process;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};

use crate::call::Dialect;
use crate::frames::{Frames, Framing};
use crate::{Plan, Problem};

/// The first reply is checked, and then one after so many reads.
pub(crate) const CHECK_EVERY: u64 = 256;

const HANDSHAKE: &str = "GET / HTTP/1.1\r
Host: 127.0.0.1\r
Connection: Upgrade\r
Upgrade: websocket\r
Sec-WebSocket-Version: 13\r
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
\r
";

/// Two descriptors that bytes come from and go to.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) from: OwnedFd,
    pub(crate) to: OwnedFd,
}

/// The server, a child of this process.
#[derive(Debug)]
pub(crate) struct Server(process::Server);

impl Server {
    /// Returns its processor time so far.
    pub(crate) fn cpu(&self) -> Result<Duration, Problem> {
        Ok(process::cpu(self.0.pid())?)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Lets it end by itself: a tool that wraps it has something to write then. The links
    /// must have been dropped.
    pub(crate) fn finish(self) {
        self.0.finish();
    }
}

/// Starts the server and makes `count` links to it. Over a pipe there is only one.
pub(crate) fn start(plan: &Plan, count: usize) -> Result<(Server, Vec<Link>), Problem> {
    if plan.tcp {
        let (server, address) = listen(plan)?;
        return Ok((server, connect(address, count)?));
    }
    let mut server = process::Server::start(&mut command(plan)?)?;
    let (to, from) = server.pipes().ok_or("no pipes")?;
    let link = Link {
        from: from.into(),
        to: to.into(),
    };
    Ok((Server(server), vec![link]))
}

/// Starts a server that listens.
pub(crate) fn listen(plan: &Plan) -> Result<(Server, SocketAddr), Problem> {
    let (server, port) = process::Server::listen(&mut command(plan)?)?;
    Ok((Server(server), (Ipv4Addr::LOCALHOST, port).into()))
}

fn command(plan: &Plan) -> Result<Command, Problem> {
    let (program, arguments) = plan.server.split_first().ok_or("no server")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

pub(crate) fn connect(address: SocketAddr, count: usize) -> Result<Vec<Link>, Problem> {
    let link = |_| {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Link {
            from: stream.try_clone()?.into(),
            to: stream.into(),
        })
    };
    (0..count).map(link).collect()
}

impl Link {
    /// Greets the server and waits for its answer.
    pub(crate) fn greet(&self, dialect: Dialect, framing: Framing) -> Result<(), Problem> {
        if let Framing::WebSocket = framing {
            self.upgrade()?;
        }
        let Some([hello, thanks]) = dialect.greeting() else {
            return Ok(());
        };
        self.write_all(&framing.frame(hello))?;
        let mut frames = Frames::new(framing);
        while frames.count(None)? == 0 {
            frames.read(&self.from)?;
        }
        self.write_all(&framing.frame(thanks))?;
        Ok(())
    }

    /// The handshake of a WebSocket.
    fn upgrade(&self) -> Result<(), Problem> {
        self.write_all(HANDSHAKE.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut part = [0; 512];
            match read(&self.from, &mut part)? {
                0 => return Err("no WebSocket".into()),
                length => answer.extend_from_slice(&part[..length]),
            }
        }
        match answer.starts_with(b"HTTP/1.1 101 ") {
            true => Ok(()),
            false => Err(format!("no WebSocket: {}", String::from_utf8_lossy(&answer)).into()),
        }
    }

    pub(crate) fn write_all(&self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            bytes = &bytes[write(&self.to, bytes)?..];
        }
        Ok(())
    }

    /// Makes reads and writes return at once. The server's ends of the pipes
    /// are not changed by this.
    pub(crate) fn never_block(&self) -> Result<(), Errno> {
        for end in [&self.from, &self.to] {
            fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?;
        }
        Ok(())
    }
}

/// Maximum bytes that are kept after they were written, while others wait.
const MOST_WRITTEN: usize = 1 << 20;

/// Bytes that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) bytes: Vec<u8>,
    written: usize,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes what the link takes: everything, unless it never blocks.
    pub(crate) fn send(&mut self, link: &Link) -> Result<(), Errno> {
        while self.written < self.bytes.len() {
            match write(&link.to, &self.bytes[self.written..]) {
                Ok(written) => self.written += written,
                Err(Errno::AGAIN) => {
                    if self.written > MOST_WRITTEN {
                        self.bytes.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(());
                }
                Err(problem) => return Err(problem),
            }
        }
        self.bytes.clear();
        self.written = 0;
        Ok(())
    }
}
