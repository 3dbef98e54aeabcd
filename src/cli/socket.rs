//! A Unix socket with a name in the filesystem.

use std::io;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use diskfs::{Error, ErrorKind, Result};

/// A listening socket, whose name is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Creates the socket. A socket that is left over from a program that has ended is replaced.
    pub(super) fn bind(path: &Path) -> Result<Self> {
        let bound = UnixListener::bind(path).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                remove_left_over(path)?;
                Ok(UnixListener::bind(path)?)
            }
            _ => Err(Error::from(error)),
        });
        Ok(Self {
            listener: bound.map_err(|error| error.in_file(path))?,
            path: path.to_owned(),
        })
    }

    /// Returns another handle of the same socket.
    pub(super) fn listener(&self) -> Result<UnixListener> {
        Ok(self.listener.try_clone()?)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes a socket that no process has open.
fn remove_left_over(path: &Path) -> Result<()> {
    // The connection uses another socket type, so a process that listens does not notice it.
    let asked = UnixDatagram::unbound()?.connect(path);
    match asked {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        _ => {
            let error = Error::new(ErrorKind::Locked, "the socket is in use by another process");
            return Err(error.with_hint("end that process, or give another name"));
        }
    }
    if !is_socket(path)? {
        return Err(Error::new(
            ErrorKind::Exists,
            "the file exists, and is not a socket",
        ));
    }
    Ok(std::fs::remove_file(path)?)
}

fn is_socket(path: &Path) -> Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    Ok(path.symlink_metadata()?.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_is_replaced_and_what_is_used_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        // The socket is closed, but its name was not removed.
        drop(UnixListener::bind(&path).unwrap());
        let socket = Socket::bind(&path).unwrap();
        let error = Socket::bind(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        // The socket still exists, and no process has connected to it.
        let listener = socket.listener().unwrap();
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err());
        drop((socket, listener));
        assert!(!path.exists());
    }

    #[test]
    fn a_file_is_not_replaced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Socket::bind(file.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists);
        assert!(file.path().exists());
    }
}
