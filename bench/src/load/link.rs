//! The server and the way to it: a child's pipes, or sockets on this machine.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;

use caudal_bench::child;
use caudal_bench::process::{self, Usage};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};

use crate::call::Dialect;
use crate::frames::{Frames, Framing};
use crate::placed::Watch;
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

/// The server, if it is a child or its id is known.
#[derive(Debug)]
pub(crate) struct Server {
    pid: Option<u32>,
    /// Ends with this.
    child: Option<child::Server>,
}

impl Server {
    fn own(child: child::Server) -> Self {
        Self {
            pid: Some(child.pid()),
            child: Some(child),
        }
    }

    /// What it has used so far; `None` if it is not ours to look into.
    pub(crate) fn usage(&self) -> Result<Option<Usage>, Problem> {
        self.pid.map(process::usage).transpose()
    }

    /// Looks where its threads are; `None` if it is not ours to look into.
    pub(crate) fn watch(&self) -> Option<Watch> {
        self.pid.map(Watch::start)
    }

    /// Lets it end by itself: who looks at it has something to write then. Its input
    /// must have ended; for some that is a failure.
    pub(crate) fn finish(self) {
        drop(self.child.map(child::Server::finish));
    }
}

/// Starts the server, if it is ours to start, and makes `count` links to it.
/// Over a pipe there is only one.
pub(crate) fn start(plan: &Plan, count: usize) -> Result<(Server, Vec<Link>), Problem> {
    let last = process::cores() - 1;
    if plan.own_core {
        // The server is started on the others, of which there is one at least.
        process::pin_to(0..last.max(1))?;
    }
    let started = start_on(plan, count)?;
    if plan.own_core {
        process::pin_to(last..last + 1)?;
    }
    Ok(started)
}

fn start_on(plan: &Plan, count: usize) -> Result<(Server, Vec<Link>), Problem> {
    if let Some(address) = plan.connect {
        let server = Server {
            pid: plan.pid,
            child: None,
        };
        return Ok((server, connect(address, count)?));
    }
    let (program, arguments) = plan.server.split_first().ok_or("no server")?;
    let mut command = Command::new(program);
    command.args(arguments);
    if !plan.tcp && plan.rate.is_none() {
        let mut child = child::Server::start(&mut command)?;
        let (to, from) = child.pipes().ok_or("no pipes")?;
        let link = Link {
            from: from.into(),
            to: to.into(),
        };
        return Ok((Server::own(child), vec![link]));
    }
    let (child, port) = child::Server::listen(&mut command)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Ok((Server::own(child), connect(address, count)?))
}

fn connect(address: SocketAddr, count: usize) -> Result<Vec<Link>, Problem> {
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
                Err(Errno::AGAIN) => return Ok(()),
                Err(problem) => return Err(problem),
            }
        }
        self.bytes.clear();
        self.written = 0;
        Ok(())
    }
}
