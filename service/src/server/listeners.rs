//! The sockets that the server listens on.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use diskfs_disk::{Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags};
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::notify;

/// The files of TLS, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate of the server, with its intermediate certificates.
    pub certificate: PathBuf,
    /// The private key of the server.
    pub key: PathBuf,
    /// The certificate authority whose clients may connect.
    pub client_ca: PathBuf,
}

/// A socket in the filesystem, which is removed at the end.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// The file itself. While it is held, no other file gets its inode.
    file: File,
}

impl SocketFile {
    fn hold(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self {
            path: path.to_owned(),
            file: file.into(),
        })
    }

    /// Returns true if the path still names this file.
    fn is_in_place(&self) -> io::Result<bool> {
        let (ours, there) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another server may have replaced it.
        if self.is_in_place().unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns true for a socket that nobody listens on.
fn is_stale(path: &Path) -> bool {
    let connected = UnixStream::connect(path);
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Returns the socket that the service manager passes, or else binds the path.
pub(super) fn unix(path: &Path) -> Result<(UnixListenerStream, Option<SocketFile>)> {
    let (listener, file) = if let Some(listener) = notify::inherited_listener()? {
        (listener, None)
    } else {
        let (listener, file) = bind(path).map_err(|error| error.in_file(path))?;
        (listener, Some(file))
    };
    listener.set_nonblocking(true)?;
    let stream = UnixListenerStream::new(UnixListener::from_std(listener)?);
    Ok((stream, file))
}

fn bind(path: &Path) -> Result<(StdListener, SocketFile)> {
    remove_stale(path)?;
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    // The socket gets its final mode before anyone can connect: it has another name until then.
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let listener = StdListener::bind(&temporary)?;
    let bound = fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| SocketFile::hold(path));
    match bound {
        Ok(file) => Ok((listener, file)),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            Err(error.into())
        }
    }
}

/// The waiting for the end of a killed server: a worker that it was just starting has its socket
/// until it executes its program.
const STALE_TRIES: u32 = 20;
const STALE_PERIOD: Duration = Duration::from_millis(50);

/// Removes a socket that nobody listens on.
fn remove_stale(path: &Path) -> Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !found.file_type().is_socket() {
        return Err(Error::new(ErrorKind::Exists, "the file is not a socket"));
    }
    for _ in 0..STALE_TRIES {
        if is_stale(path) {
            return Ok(fs::remove_file(path)?);
        }
        std::thread::sleep(STALE_PERIOD);
    }
    let error = Error::new(ErrorKind::Exists, "another server listens on the socket");
    Err(error.with_hint("stop it first, or give another path with --socket"))
}

/// Binds an address for clients of other machines.
pub(super) async fn tcp(address: SocketAddr) -> Result<TcpListenerStream> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let reason = format!("cannot listen on {address}: {error}");
        Error::new(ErrorKind::Other, reason)
    })?;
    Ok(TcpListenerStream::new(listener))
}

/// Reads the files of TLS. Clients must have a certificate.
pub(super) fn tls(files: &Tls) -> Result<ServerTlsConfig> {
    let read = |path: &Path| fs::read(path).map_err(|error| Error::from(error).in_file(path));
    let identity = Identity::from_pem(read(&files.certificate)?, read(&files.key)?);
    Ok(ServerTlsConfig::new()
        .identity(identity)
        .client_ca_root(Certificate::from_pem(read(&files.client_ca)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/deploy.sock");
        let (listener, file) = bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::Exists);
        drop(listener);
        let (listener, second) = bind(&path).unwrap();
        drop(file);
        assert!(path.exists(), "the second server's socket stays");
        drop((listener, second));
        assert!(!path.exists());
        fs::write(&path, "x").unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::Exists);
    }
}
