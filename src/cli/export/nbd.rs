//! A disk as an export of an NBD server.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};

use clap::Args;
use diskfs::nbd::server::{Export, MetaContext, Options, Server, Tls};
use diskfs::{Error, ErrorKind, Result};
use listenfd::ListenFd;
use serde_json::{Map, Value};

pub(super) use super::super::nbd_address::Address;
use super::super::nbd_address::{bind_tcp, escaped};
use super::super::show::name::message;
use super::super::socket::Socket;
use super::Exported;
use super::ways::{Stop, Way};

/// The options of the NBD server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "NBD options")]
pub(super) struct NbdArgs {
    /// The name of the export, which clients give in their URI
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    export_name: String,

    /// The server's certificate in PEM, which makes clients use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,

    /// The key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,

    /// The authority in PEM that must have signed the certificates of clients
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_client_ca: Option<PathBuf>,

    /// Serve without TLS at an address that other machines reach
    #[arg(long)]
    insecure: bool,
}

impl NbdArgs {
    fn tls(&self) -> Result<Tls> {
        match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let client_ca = self.tls_client_ca.as_deref();
                Ok(Tls::required(certificate, key, client_ca)?)
            }
            _ => Ok(Tls::off()),
        }
    }

    /// Refuses an address at which everybody could read the disk.
    fn check(&self, address: &SocketAddr) -> Result<()> {
        if self.insecure || self.tls_certificate.is_some() || address.ip().is_loopback() {
            return Ok(());
        }
        let reason = format!("everybody who reaches {address} could use the disk");
        let hint =
            "give --tls-certificate and --tls-key, serve at tcp:localhost, or give --insecure";
        Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint))
    }
}

/// The sockets of a server.
#[derive(Default)]
pub(super) struct Sockets {
    unix: Vec<(Socket, PathBuf)>,
    tcp: Vec<TcpListener>,
    inherited_unix: Vec<UnixListener>,
}

impl Sockets {
    pub(super) fn bind(addresses: &[Address], args: &NbdArgs) -> Result<Self> {
        let mut sockets = Self::default();
        for address in addresses {
            match address {
                Address::Unix(path) => {
                    let bound = Socket::bind(path)?;
                    sockets.unix.push((bound, std::path::absolute(path)?));
                }
                Address::Tcp(host, port) => {
                    sockets
                        .tcp
                        .push(bind_tcp(host, *port, &|it| args.check(it))?);
                }
                Address::Inherited => sockets.inherit(args)?,
            }
        }
        Ok(sockets)
    }

    /// Takes the sockets that the service manager has bound, as `sd_listen_fds(3)` does.
    fn inherit(&mut self, args: &NbdArgs) -> Result<()> {
        let mut passed = ListenFd::from_env();
        for index in 0..passed.len() {
            if let Ok(Some(socket)) = passed.take_unix_listener(index) {
                self.inherited_unix.push(socket);
            } else if let Some(socket) = passed.take_tcp_listener(index)? {
                args.check(&socket.local_addr()?)?;
                self.tcp.push(socket);
            }
        }
        if passed.len() > 0 {
            return Ok(());
        }
        let reason = "--nbd systemd: the service manager has passed no socket";
        Err(Error::new(ErrorKind::Invalid, reason)
            .with_hint("start it by a unit with a .socket unit, or give unix:PATH"))
    }
}

/// An NBD server with one export.
pub(super) struct Nbd {
    server: Server,
    sockets: Sockets,
    uris: Vec<String>,
    stop: SyncSender<()>,
    stopped: Receiver<()>,
}

impl Nbd {
    pub(super) fn new(
        sockets: Sockets,
        disk: &Exported,
        description: &str,
        (args, contexts, is_once): (&NbdArgs, Vec<Arc<dyn MetaContext>>, bool),
    ) -> Result<Self> {
        let name = args.export_name.as_str();
        let export = match disk {
            Exported::ReadOnly(device) => Export::read_only(name, Arc::clone(device)),
            Exported::Writable(device) => Export::writable(name, Arc::clone(device)),
        };
        let export = contexts.into_iter().fold(export, Export::context);
        let options = Options {
            tls: args.tls()?,
            ..Options::default()
        };
        let server = Server::start(vec![export.description(description)], options)?;
        let mut uris = Vec::new();
        let scheme = if args.tls_certificate.is_some() {
            "nbds"
        } else {
            "nbd"
        };
        let unix_uri = |path: &Path| {
            let path = escaped(path.as_os_str().as_encoded_bytes());
            format!(
                "{scheme}+unix:///{}?socket={path}",
                escaped(name.as_bytes())
            )
        };
        for (socket, path) in &sockets.unix {
            server.listen(socket.listener()?)?;
            uris.push(unix_uri(path));
        }
        for socket in &sockets.inherited_unix {
            uris.extend(socket.local_addr()?.as_pathname().map(unix_uri));
            server.listen(socket.try_clone()?)?;
        }
        for socket in &sockets.tcp {
            uris.push(format!(
                "{scheme}://{}/{}",
                socket.local_addr()?,
                escaped(name.as_bytes())
            ));
            server.listen(socket.try_clone()?)?;
        }
        let (stop, stopped) = mpsc::sync_channel(1);
        if is_once {
            let stop = stop.clone();
            // The channel has room; without a receiver, it has ended already.
            server.when_unused(move || {
                let _ = stop.try_send(());
            });
        }
        Ok(Self {
            server,
            sockets,
            uris,
            stop,
            stopped,
        })
    }
}

impl Way for Nbd {
    fn place(&self) -> String {
        let uris: Vec<&str> = self.uris.iter().map(String::as_str).collect();
        format!("at {}", message(&uris.join(" and ")))
    }

    fn add_fields(&self, fields: &mut Map<String, Value>) {
        fields.insert("nbd".to_owned(), self.uris.clone().into());
    }

    fn stop(&self) -> Stop {
        let stop = self.stop.clone();
        Box::new(move || {
            // The channel has room; without a receiver, it has ended already.
            let _ = stop.try_send(());
        })
    }

    fn serve(self: Box<Self>, _: &dyn Fn(String)) -> Result<()> {
        // The other end is with the value itself, so this waits until it is stopped.
        let _ = self.stopped.recv();
        let Self {
            server, sockets, ..
        } = *self;
        drop(sockets);
        Ok(server.stop()?)
    }
}
