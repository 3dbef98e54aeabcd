//! The command `diskfs serve images`.

mod nbd;

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use diskfs::image::validate::{Policy, ValidateOptions, validate_device};
use diskfs::nbd::server::Tls;
use diskfs::{Error, ErrorKind, Result, block};
use diskfs_http::{Access, Described, Listeners, Options, Server};
use diskfs_sandbox::{FileRules, HostFiles, Network};

use super::LogFormat;
use crate::cli::nbd_address;
use crate::cli::session::Session;
use crate::cli::socket::Socket;
use nbd::Nbd;

/// Serve the images of a directory over HTTP and NBD, read-only
///
/// The files of DIR itself are served under their names, whole and by ranges, and `GET /` lists them
/// as JSON. Symlinks, hidden files and subdirectories are not served. Each version of a file has an
/// entity tag of its own, and if a file changes while it is sent, the answer breaks off. Every
/// command of diskfs takes the URLs of images, as do qemu-img and curl.
///
/// diskfs gets images compressed by zstd, unless that would not make them shorter, and without their
/// holes. Other clients can ask for slices of at most 8 MiB, which `Accept-Encoding: zstd` allows to
/// be compressed, by `GET /NAME?bytes=FIRST-LAST`.
///
/// NBD clients see each image in a format that QEMU has as a disk under its name; images that need
/// other files, such as a backing file, are refused. A disk stays readable when its image is
/// replaced or removed, and fails when the image is changed in place.
///
/// SIGTERM completes the running requests, and then ends the server.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("addresses").required(true).multiple(true),
    after_help = "Each line of the file of tokens is a token of at least 16 characters, and after a space the
pattern of the names that it is for (* and ?); without one it is for all images. Only its owner may
read the file. A client sends `Authorization: Bearer TOKEN`; diskfs does with DISKFS_HTTP_TOKEN.
Without tokens, every client that can connect may read all images. NBD has no tokens: with a file
of tokens, NBD is served at addresses only to clients with a certificate (--tls-client-ca), and at
unix:PATH to users who may write to the socket. These clients may read all images.

Examples:
  diskfs serve images /srv/images --listen 127.0.0.1:8080
  diskfs serve images /srv/images --listen unix:/run/images.sock
  diskfs serve images /srv/images --nbd tcp:localhost
  diskfs serve images /srv --listen [::]:8443 --token-file t --tls-cert c.pem --tls-key k.pem

To read a part of an image, compressed on its way:
  curl --compressed 'http://localhost:8080/debian.raw?bytes=0-4194303'

To use an image by NBD:
  nbdinfo --list nbd://localhost/
  qemu-img convert -f raw -O qcow2 nbd://localhost/debian.qcow2 copy.qcow2"
)]
pub(super) struct Images {
    /// The directory of the images
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Serve HTTP at ADDR:PORT or unix:PATH; can be repeated
    #[arg(long, value_name = "ADDRESS", group = "addresses")]
    listen: Vec<Address>,

    /// Serve NBD at unix:PATH or tcp:HOST[:PORT]; can be repeated
    #[arg(long, value_name = "ADDRESS", group = "addresses")]
    nbd: Vec<nbd_address::Address>,

    /// The tokens of clients, with the images that each may read
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The certificate of the server, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key of the server, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The certificate authority of the clients, which then need a certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,

    /// End the requests that still run this many seconds after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    stop_timeout: u32,

    /// The format of the log on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: LogFormat,
}

/// An address of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let expected = "expected ADDR:PORT, such as 127.0.0.1:8080, or unix:PATH";
        text.parse().map(Self::Tcp).map_err(|_| expected.to_owned())
    }
}

pub(super) fn run(args: &Images, session: &Session) -> Result<()> {
    let access = match &args.token_file {
        Some(path) => Access::of_file(path)?,
        None => Access::everyone(),
    };
    let (listeners, sockets, places) = args.bind()?;
    let tls = args.tls()?;
    let nbd = Nbd::new(args, &access, tls.clone())?;
    args.warn(&access, nbd.as_ref());
    let options = Options {
        directory: args.directory.clone(),
        access,
        tls: tls.and_then(|tls| tls.config()),
        describe: Box::new(|name, file| described(name, file).unwrap_or_default()),
        stop_timeout: Duration::from_secs(args.stop_timeout.into()),
    };
    let server = Server::new(listeners, options)?;
    if session.confines() {
        args.confine();
    }
    // Its threads are confined, too: they start afterwards.
    let mut nbd = nbd.map(Nbd::start).transpose()?;
    let mut stopping = None;
    let served = server.run(
        || {
            for place in places {
                tracing::info!(%place, "serving images");
            }
        },
        || stopping = nbd.take().map(nbd::Servers::stop),
    );
    if let Some(stopping) = stopping {
        stopping.wait();
    }
    drop(sockets);
    Ok(served?)
}

impl Images {
    fn tls(&self) -> Result<Option<Tls>> {
        let Some((certificate, key)) = self.tls_cert.as_ref().zip(self.tls_key.as_ref()) else {
            return Ok(None);
        };
        let tls = Tls::required(certificate, key, self.tls_client_ca.as_deref())?;
        Ok(Some(tls))
    }

    /// Binds the sockets. Returns them with those whose names are removed at the end, and with the
    /// addresses for people.
    fn bind(&self) -> Result<(Listeners, Vec<Socket>, Vec<String>)> {
        let (mut listeners, mut sockets, mut places) = (Listeners::default(), vec![], vec![]);
        let scheme = self.tls_cert.as_ref().map_or("http", |_| "https");
        for address in &self.listen {
            match address {
                Address::Unix(path) => {
                    let socket = Socket::bind(path)?;
                    listeners.unix.push(socket.listener()?);
                    sockets.push(socket);
                    places.push(format!("unix:{}", path.display()));
                }
                Address::Tcp(address) => {
                    let in_place = |e: io::Error| {
                        let reason = format!("cannot listen on {address}: {e}");
                        Error::new(ErrorKind::Other, reason)
                    };
                    let listener = TcpListener::bind(address).map_err(in_place)?;
                    let bound = listener.local_addr().map_err(in_place)?;
                    places.push(format!("{scheme}://{bound}/"));
                    listeners.tcp.push(listener);
                }
            }
        }
        Ok((listeners, sockets, places))
    }

    /// Limits this process, which has one thread, to reading the directory and removing its sockets.
    fn confine(&self) {
        let listen = self.listen.iter().filter_map(|address| match address {
            Address::Unix(path) => Some(path.as_path()),
            Address::Tcp(_) => None,
        });
        let sockets = listen.chain(self.nbd_sockets());
        let files = HostFiles {
            read: vec![self.directory.clone()],
            write: sockets
                .map(|path| path.parent().filter(|dir| !dir.as_os_str().is_empty()))
                .map(|dir| dir.unwrap_or(Path::new(".")).to_owned())
                .collect(),
            ..HostFiles::default()
        };
        // Landlock demands it. It fails only on kernels that are older.
        let _ = rustix::thread::set_no_new_privs(true);
        let enforced = FileRules::new(&files, Network::Kept).and_then(FileRules::enforce);
        match enforced {
            Ok(0) => tracing::warn!("not confined: this host has no Landlock"),
            Ok(version) => tracing::debug!(version, "confined by Landlock"),
            Err(error) => tracing::warn!(%error, "not confined"),
        }
    }

    /// Warns about clients that anybody could be, and about tokens that anybody could see.
    fn warn(&self, access: &Access, nbd: Option<&Nbd>) {
        let mut listen = self.listen.iter();
        let is_reached = listen.any(|it| matches!(it, Address::Tcp(it) if !it.ip().is_loopback()));
        if !is_reached && !nbd.is_some_and(Nbd::is_reached) {
            return;
        }
        if !access.needs_token() && self.tls_client_ca.is_none() {
            tracing::warn!("every client that can connect may read all images: see --token-file");
        }
        if is_reached && access.needs_token() && self.tls_cert.is_none() {
            tracing::warn!("tokens travel without encryption: see --tls-cert");
        }
    }
}

/// Looks into an image, and opens no file that it names.
fn described(name: &str, file: File) -> Result<Described> {
    let name = Path::new(name);
    let device = block::File::from_fd(file.into(), name)?;
    let options = ValidateOptions {
        policy: Policy::Glance,
        claimed: None,
        size_limit_bytes: None,
    };
    let verdict = validate_device(name, Arc::new(device), &options)?;
    Ok(Described {
        format: Some(verdict.format.to_owned()),
        virtual_size_bytes: verdict.virtual_size_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_hosts_or_sockets() {
        let tcp = |text: &str| Ok(Address::Tcp(text.parse().unwrap()));
        assert_eq!("127.0.0.1:80".parse(), tcp("127.0.0.1:80"));
        assert_eq!("[::1]:80".parse(), tcp("[::1]:80"));
        assert_eq!("unix:/a:b".parse(), Ok(Address::Unix("/a:b".into())));
        for text in ["unix:", "localhost", "127.0.0.1", ":80", "/run/x.sock"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
