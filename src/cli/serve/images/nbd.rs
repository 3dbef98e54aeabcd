//! The images of a directory by NBD, each under its name.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diskfs::block::{BlockRead, Extent, Result as BlockResult};
use diskfs::image::{Image, OpenOptions, ProbedFormats};
use diskfs::nbd::server::{Catalog, Export, Options, Server, Tls};
use diskfs::{Error, ErrorKind, Result, block};
use diskfs_http::{Access, Images as Directory, Version};

use super::Images;
use crate::cli::nbd_address::{Address, bind_tcp, escaped};
use crate::cli::socket::Socket;

/// The cache of a connection's image, of which there are as many as connections.
const CACHE_BYTES: u64 = 8 << 20;

/// The sockets, and what the servers need from the host before the process is confined.
pub(super) struct Nbd {
    unix: Vec<(Socket, PathBuf)>,
    tcp: Vec<TcpListener>,
    tls: Option<Tls>,
    directories: [Directory; 2],
    stop_timeout: Duration,
}

/// The servers, with the sockets whose names are removed at the end.
pub(super) struct Servers {
    servers: Vec<Server>,
    sockets: Vec<Socket>,
}

/// The servers that complete their last requests.
pub(super) struct Stopping {
    threads: Vec<JoinHandle<()>>,
    _sockets: Vec<Socket>,
}

/// The images as exports.
#[derive(Debug)]
struct Exports(Directory);

/// A file that must stay as it was when it was opened. A mixture of two images is never read.
#[derive(Debug)]
struct Unchanged {
    device: block::File,
    file: std::fs::File,
    version: Version,
}

impl Nbd {
    /// Binds the sockets. Returns `None` if nothing is served by NBD.
    pub(super) fn new(args: &Images, access: &Access, tls: Option<Tls>) -> Result<Option<Self>> {
        if args.nbd.is_empty() {
            return Ok(None);
        }
        let (mut unix, mut tcp) = (Vec::new(), Vec::new());
        for address in &args.nbd {
            match address {
                Address::Unix(path) => {
                    unix.push((Socket::bind(path)?, std::path::absolute(path)?));
                }
                Address::Tcp(host, port) => {
                    tcp.push(bind_tcp(host, *port, &|it| args.check_nbd(it, access))?);
                }
                Address::Inherited => {
                    let reason = "--nbd systemd: this command takes no sockets of systemd";
                    return Err(Error::new(ErrorKind::Invalid, reason)
                        .with_hint("give unix:PATH or tcp:HOST[:PORT]"));
                }
            }
        }
        Ok(Some(Self {
            unix,
            tcp,
            tls,
            directories: [
                Directory::new(&args.directory)?,
                Directory::new(&args.directory)?,
            ],
            stop_timeout: Duration::from_secs(args.stop_timeout.into()),
        }))
    }

    /// Returns true if other machines can reach an address.
    pub(super) fn is_reached(&self) -> bool {
        let mut addresses = self.tcp.iter().map(TcpListener::local_addr);
        addresses.any(|address| address.is_ok_and(|it| !it.ip().is_loopback()))
    }

    /// Starts to serve. There is no TLS on sockets of the filesystem, as for HTTP.
    pub(super) fn start(self) -> Result<Servers> {
        let [of_unix, of_tcp] = self.directories;
        let scheme = self.tls.as_ref().map_or("nbd", |_| "nbds");
        let options = Options {
            stop_timeout: self.stop_timeout,
            ..Options::default()
        };
        let mut servers = Servers {
            servers: Vec::new(),
            sockets: Vec::new(),
        };
        if !self.unix.is_empty() {
            let server = Server::with_catalog(Exports(of_unix), options.clone())?;
            for (socket, path) in self.unix {
                server.listen(socket.listener()?)?;
                let path = escaped(path.as_os_str().as_encoded_bytes());
                tracing::info!(place = %format!("nbd+unix:///NAME?socket={path}"), "serving images");
                servers.sockets.push(socket);
            }
            servers.servers.push(server);
        }
        if !self.tcp.is_empty() {
            let tls = self.tls.unwrap_or_else(Tls::off);
            let server = Server::with_catalog(Exports(of_tcp), Options { tls, ..options })?;
            for socket in self.tcp {
                let place = format!("{scheme}://{}/NAME", socket.local_addr()?);
                server.listen(socket)?;
                tracing::info!(%place, "serving images");
            }
            servers.servers.push(server);
        }
        Ok(servers)
    }
}

impl Servers {
    /// Begins to end the servers, side by side.
    pub(super) fn stop(self) -> Stopping {
        let end = |server: Server| {
            thread::spawn(move || {
                if let Err(error) = server.stop() {
                    tracing::warn!("{error}");
                }
            })
        };
        Stopping {
            threads: self.servers.into_iter().map(end).collect(),
            _sockets: self.sockets,
        }
    }
}

impl Stopping {
    /// Waits until the servers have ended.
    pub(super) fn wait(self) {
        for thread in self.threads {
            // The thread does not panic: a server's errors are logged.
            let _ = thread.join();
        }
    }
}

impl Images {
    /// Refuses an address at which clients without a token could read images: NBD has no tokens.
    fn check_nbd(&self, address: &SocketAddr, access: &Access) -> Result<()> {
        if !access.needs_token() || self.tls_client_ca.is_some() {
            return Ok(());
        }
        let reason = format!(
            "--nbd: NBD has no tokens, so everybody who reaches {address} could read all images"
        );
        let hint = "give --tls-client-ca, so that clients need a certificate, or serve NBD at \
                    unix:PATH";
        Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint))
    }

    /// Returns the directories of the Unix sockets of NBD.
    pub(super) fn nbd_sockets(&self) -> impl Iterator<Item = &Path> {
        self.nbd.iter().filter_map(|address| match address {
            Address::Unix(path) => Some(path.as_path()),
            _ => None,
        })
    }
}

impl Catalog for Exports {
    fn names(&self) -> BlockResult<Vec<String>> {
        let mut names = self.0.names()?;
        // The others are symlinks and directories, for example.
        names.retain(|name| matches!(self.0.open(name), Ok(Some(_))));
        Ok(names)
    }

    fn open(&self, name: &str) -> BlockResult<Option<Export>> {
        let Some(opened) = self.0.open(name)? else {
            return Ok(None);
        };
        let version = opened.version;
        let device = Unchanged {
            file: opened.file.try_clone()?,
            device: block::File::from_fd(opened.file.into(), name)?,
            version,
        };
        let options = OpenOptions {
            // A read of a compressed file or of a package has no bound that the server knows.
            probed: ProbedFormats::OnlyQemus,
            cache_bytes: CACHE_BYTES,
            ..OpenOptions::default()
        };
        let image = Image::from_named_device(Path::new(name), Arc::new(device), &options)?;
        Ok(Some(Export::read_only(name, image.device())))
    }
}

impl Unchanged {
    fn check(&self) -> BlockResult<()> {
        if self.version.has_contents_of(&self.file.metadata()?) {
            return Ok(());
        }
        let reason = "the image has changed since it was opened";
        Err(block::Error::new(block::ErrorKind::Io, reason))
    }
}

impl BlockRead for Unchanged {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> BlockResult<()> {
        self.device.read_at(offset, buf)?;
        self.check()
    }

    fn extent_at(&self, offset: u64) -> BlockResult<Extent> {
        let extent = self.device.extent_at(offset)?;
        self.check()?;
        Ok(extent)
    }
}
