//! Unix sockets: for this user alone, and a path left behind is no obstacle.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};

use caudal_core::Framing;
use tokio::net::{UnixListener, UnixStream};

use super::stream::Stream;

/// Connects to a path.
pub(crate) async fn connect(
    path: &Path,
    framing: Framing,
    max_message: usize,
) -> io::Result<Stream<UnixStream>> {
    let socket = UnixStream::connect(path).await?;
    Ok(stream(socket, path, framing, max_message))
}

fn stream(
    socket: UnixStream,
    path: &Path,
    framing: Framing,
    max_message: usize,
) -> Stream<UnixStream> {
    Stream::new(socket, framing, max_message).with_remote(format!("unix:{}", path.display()))
}

/// Listens on a path, and removes it in the end.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Binds a path with mode 0600. A socket that nobody listens on any more is
    /// replaced; a live one, or a file of another kind, is not.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        if let Ok(metadata) = fs::symlink_metadata(path) {
            if !metadata.file_type().is_socket() {
                let exists = "the path exists and is not a socket; remove it or choose another";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, exists));
            }
            if StdStream::connect(path).is_ok() {
                let in_use = "another server listens on it";
                return Err(io::Error::new(io::ErrorKind::AddrInUse, in_use));
            }
        }
        // It gets its name when it has its mode, so nobody slips in between; and
        // the name of a stale one is taken over in one step.
        let unnamed = unnamed(path);
        let listener = UnixListener::bind(&unnamed)?;
        let named = fs::set_permissions(&unnamed, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&unnamed, path));
        if let Err(error) = named {
            let _ = fs::remove_file(&unnamed);
            return Err(error);
        }
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    pub(super) async fn accept(
        &self,
        framing: Framing,
        max_message: usize,
    ) -> io::Result<Stream<UnixStream>> {
        let (socket, _) = self.listener.accept().await?;
        Ok(stream(socket, &self.path, framing, max_message))
    }
}

/// A name beside `path` that no other process uses.
fn unnamed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
