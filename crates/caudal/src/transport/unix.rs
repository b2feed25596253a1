//! Unix sockets: for this user alone, and a path left behind is no obstacle.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use caudal_core::Framing;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{UnixListener, UnixStream};

use super::stream::Stream;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Connects to a path.
pub(crate) async fn connect(path: &Path, framing: Framing) -> io::Result<Stream<UnixStream>> {
    let socket = UnixStream::connect(path).await?;
    let path = path.display().to_string();
    Ok(stream(socket, &path, framing))
}

/// Makes a transport of a socket.
pub(super) fn stream(socket: UnixStream, path: &str, framing: Framing) -> Stream<UnixStream> {
    Stream::new(socket, framing)
        .with_remote(format!("unix:{path}"))
        .lingering()
}

/// Listens on a path, and removes it in the end.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// The device and number of the socket's file.
    file: Option<(u64, u64)>,
}

impl Listener {
    /// Binds a path with mode 0600. A socket on which no process listens is
    /// replaced; a live one, or a file of another kind, is not.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        let _alone = lock_directory(path);
        if let Ok(metadata) = fs::symlink_metadata(path) {
            if !metadata.file_type().is_socket() {
                let exists = "there is something else than a socket; choose another path";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, exists));
            }
            if !is_stale(path)? {
                let in_use = "another server listens on it";
                return Err(io::Error::new(io::ErrorKind::AddrInUse, in_use));
            }
            fs::remove_file(path)?;
        }
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // On Linux the file gets the mode that the socket has when it is bound, so
        // no other user can connect before the mode is set.
        let _ = rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600));
        socket.bind(&SockAddr::unix(path)?)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let listener = std::os::unix::net::UnixListener::from(OwnedFd::from(socket));
        Ok(Self {
            listener: UnixListener::from_std(listener)?,
            path: path.to_owned(),
            file: file(path),
        })
    }

    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }

    /// Path of the socket, if it has one.
    pub(super) fn path(&self) -> Option<&Path> {
        Some(&*self.path).filter(|path| !path.as_os_str().is_empty())
    }
}

/// A socket that was bound elsewhere. Its path is not removed in the end.
impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        let address = listener.local_addr().ok();
        let path = address.and_then(|address| address.as_pathname().map(Path::to_owned));
        Self {
            listener,
            path: path.unwrap_or_default(),
            file: None,
        }
    }
}

/// Lets one server after the other look at a path and bind it: what another has bound, and
/// does not listen on yet, looks like a path that was left behind.
///
/// Any process that may read the directory can delay this, so it is tried for half a second.
fn lock_directory(path: &Path) -> Option<File> {
    let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = File::open(parent.unwrap_or(Path::new("."))).ok()?;
    for _ in 0..100 {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(directory),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => return None,
        }
    }
    None
}

/// Returns true if no process listens on a socket any more.
fn is_stale(path: &Path) -> io::Result<bool> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A server that is busy must not stop us here.
    probe.set_nonblocking(true)?;
    let connected = probe.connect(&SockAddr::unix(path)?);
    Ok(connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}

fn file(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another server may have the path by now.
        if self.file.is_some() && file(&self.path) == self.file {
            let _ = fs::remove_file(&self.path);
        }
    }
}
