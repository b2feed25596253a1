//! The server and the way to it: a child's pipes, or sockets on this machine.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, write};

use crate::call::Dialect;
use crate::frames::{Frames, Framing};
use crate::{Plan, Problem};

/// Two descriptors that bytes come from and go to.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) from: OwnedFd,
    pub(crate) to: OwnedFd,
}

/// The child, if the server is one; it ends with this.
#[derive(Debug)]
pub(crate) struct Server {
    child: Option<Child>,
}

impl Server {
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have gone already; nothing it could still say is needed.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Starts the server, if it is ours to start, and makes `count` links to it.
/// Over a pipe there is only one.
pub(crate) fn start(plan: &Plan, count: usize) -> Result<(Server, Vec<Link>), Problem> {
    if let Some(address) = plan.connect {
        let server = Server { child: None };
        return Ok((server, connect(address, count)?));
    }
    let (program, arguments) = plan.server.split_first().ok_or("no server")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{program}: {e}"))?;
    let stdin = child.stdin.take();
    let stdout = child.stdout.take().ok_or("no output")?;
    if !plan.tcp && plan.rate.is_none() {
        let link = Link {
            from: stdout.into(),
            to: stdin.ok_or("no input")?.into(),
        };
        return Ok((Server { child: Some(child) }, vec![link]));
    }
    // The server ends with its input: keep that where it was.
    child.stdin = stdin;
    let server = Server { child: Some(child) };
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let port = line.trim().parse().map_err(|_| "it printed no port")?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Ok((server, connect(address, count)?))
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

    fn write_all(&self, mut bytes: &[u8]) -> Result<(), Errno> {
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
