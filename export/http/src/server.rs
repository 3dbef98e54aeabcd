//! The server: its listeners, and its end.

use std::fmt;
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diskfs_block::Result;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::access::Access;
use crate::answer::Shared;
use crate::connection;
use crate::images::Images;
use crate::listing::{Describe, Lister};

/// The largest number of connections at once. Others wait until one ends.
const MAX_CONNECTIONS: usize = 128;

/// The number of threads that read files. More requests wait for one.
const READERS: usize = 16;

/// The time for the handshake of TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a connection could not be accepted, for example without free descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The sockets on which clients connect.
#[derive(Debug, Default)]
pub struct Listeners {
    /// Addresses of this host.
    pub tcp: Vec<StdTcpListener>,
    /// Sockets in the filesystem, on which there is no TLS.
    pub unix: Vec<StdUnixListener>,
}

/// The options of a server.
pub struct Options {
    /// The directory of the images.
    pub directory: PathBuf,
    /// The clients that may read images.
    pub access: Access,
    /// TLS on addresses.
    pub tls: Option<Arc<ServerConfig>>,
    /// Looks into an image for the list.
    pub describe: Box<Describe>,
    /// The time that running requests have after the server was asked to stop.
    pub stop_timeout: Duration,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("directory", &self.directory)
            .field("access", &self.access)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// A server that has everything open that it needs, except for the images.
#[derive(Debug)]
pub struct Server {
    listeners: Listeners,
    tls: Option<Arc<ServerConfig>>,
    shared: Arc<Shared>,
    stop_timeout: Duration,
}

impl Server {
    /// Opens the directory. Afterwards, the process may confine itself to reading it.
    ///
    /// # Errors
    /// Those of the directory.
    pub fn new(listeners: Listeners, options: Options) -> Result<Self> {
        let http = |config: Arc<ServerConfig>| {
            let mut config = Arc::unwrap_or_clone(config);
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Arc::new(config)
        };
        Ok(Self {
            listeners,
            tls: options.tls.map(http),
            shared: Arc::new(Shared {
                images: Images::new(&options.directory)?,
                access: options.access,
                lister: Lister::new(options.describe),
            }),
            stop_timeout: options.stop_timeout,
        })
    }

    /// Serves until the process gets SIGTERM or SIGINT, and then completes the running requests.
    /// Calls `ready` when clients can connect and signals are handled, and `stopping` when the signal
    /// has arrived.
    ///
    /// # Errors
    /// Those of the host.
    pub fn run(self, ready: impl FnOnce(), stopping: impl FnOnce()) -> Result<()> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(READERS)
            .thread_name("diskfs-http")
            .enable_all()
            .build()?;
        let served = runtime.block_on(run(self, ready, stopping));
        runtime.shutdown_timeout(Duration::from_secs(1));
        served
    }
}

async fn run(server: Server, ready: impl FnOnce(), stopping: impl FnOnce()) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stop, stopped) = watch::channel(false);
    let (listeners, stop_timeout) = (server.listeners, server.stop_timeout);
    let acceptors = Acceptors {
        shared: server.shared,
        acceptor: server.tls.map(TlsAcceptor::from),
        connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        stopped,
    };
    let mut tasks = Vec::new();
    for listener in listeners.tcp {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        tasks.push(tokio::spawn(acceptors.clone().accept_tcp(listener)));
    }
    for listener in listeners.unix {
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        tasks.push(tokio::spawn(acceptors.clone().accept_unix(listener)));
    }
    ready();
    tokio::select! {
        _ = terminate.recv() => tracing::info!("stopping: SIGTERM"),
        _ = interrupt.recv() => tracing::info!("stopping: SIGINT"),
    }
    stopping();
    for task in tasks {
        task.abort();
    }
    let _ = stop.send(true);
    // All permits are free when the last connection has ended.
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    if timeout(stop_timeout, acceptors.connections.acquire_many(all))
        .await
        .is_err()
    {
        tracing::warn!("ending the connections that are still open");
    }
    Ok(())
}

/// The state of the listeners.
#[derive(Clone)]
struct Acceptors {
    shared: Arc<Shared>,
    acceptor: Option<TlsAcceptor>,
    connections: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
}

impl Acceptors {
    /// Waits until another connection is allowed.
    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.connections).acquire_owned().await.ok()
    }

    async fn accept_tcp(self, listener: TcpListener) {
        while let Some(permit) = self.permit().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true); // It is only slower without.
                    let server = self.clone();
                    tokio::spawn(async move {
                        server.serve_tcp(stream).await;
                        drop(permit);
                    });
                }
                Err(error) => not_accepted(&error).await,
            }
        }
    }

    async fn serve_tcp(self, stream: tokio::net::TcpStream) {
        let Some(acceptor) = &self.acceptor else {
            return connection::serve(stream, self.shared, self.stopped).await;
        };
        match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => connection::serve(stream, self.shared, self.stopped).await,
            Ok(Err(error)) => tracing::debug!(%error, "a client failed in TLS"),
            Err(_) => tracing::debug!("a client is too slow in TLS"),
        }
    }

    async fn accept_unix(self, listener: UnixListener) {
        while let Some(permit) = self.permit().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (shared, stopped) = (Arc::clone(&self.shared), self.stopped.clone());
                    tokio::spawn(async move {
                        connection::serve(stream, shared, stopped).await;
                        drop(permit);
                    });
                }
                Err(error) => not_accepted(&error).await,
            }
        }
    }
}

async fn not_accepted(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}
