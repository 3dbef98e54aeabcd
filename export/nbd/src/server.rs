//! A server of NBD: block devices, each under a name, for any number of clients.
//!
//! ```no_run
//! use std::os::unix::net::UnixListener;
//! use std::sync::Arc;
//!
//! use diskfs_block::File;
//! use diskfs_nbd::server::{Export, Options, Server};
//!
//! let device = Arc::new(File::open_read_write("disk.raw")?);
//! let exports = vec![Export::writable("disk", device).description("a disk")];
//! let server = Server::start(exports, Options::default())?;
//! server.listen(UnixListener::bind("/run/disk.sock")?)?;
//! // `qemu-img info 'nbd+unix:///disk?socket=/run/disk.sock'`
//! server.stop()?;
//! # Ok::<(), diskfs_block::Error>(())
//! ```

mod answer;
mod busy_poll;
mod catalog;
mod data_run;
mod export;
mod haggling;
mod handshake;
mod job;
mod listener;
mod options;
mod pace;
mod read;
mod selection;
mod session;
mod status;

use std::fmt;
use std::sync::{Arc, mpsc};

use diskfs_block::{Error, ErrorKind, Result};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};

use crate::stream::{Connection, Stream};
use catalog::Exports;
use listener::Accepting;
use session::Threads;

pub use catalog::Catalog;
pub use export::{BlockSizes, Export, MetaContext, Status};
pub use listener::Listener;
pub use options::{Options, Tls};

/// The state that all connections share.
#[derive(Debug)]
struct Shared {
    exports: Exports,
    options: Options,
    /// The number of clients that have used an export and are gone.
    gone: watch::Sender<u64>,
    /// One permit for each connection that may begin.
    connections: Arc<Semaphore>,
    stop: watch::Sender<bool>,
    threads: Threads,
}

impl Shared {
    fn connections(&self) -> usize {
        let free = self.connections.available_permits();
        self.options.max_connections.saturating_sub(free)
    }
}

/// A server of exports. It serves on threads of its own, until it is stopped or dropped.
pub struct Server {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

impl Server {
    /// Starts a server, which has no connections yet.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for exports that clients cannot be told of; the errors of starting
    /// threads.
    pub fn start(exports: Vec<Export>, options: Options) -> Result<Self> {
        check(&exports)?;
        let exports = exports.into_iter().map(Arc::new).collect();
        Self::of(Exports::Fixed(exports), options)
    }

    /// Starts a server of the exports of a catalog, which has no connections yet.
    ///
    /// # Errors
    /// The errors of starting threads.
    pub fn with_catalog(catalog: impl Catalog + 'static, options: Options) -> Result<Self> {
        Self::of(Exports::Catalog(Box::new(catalog)), options)
    }

    fn of(exports: Exports, options: Options) -> Result<Self> {
        let options = options.within_limits();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(options.threads)
            .thread_name("diskfs-nbd")
            .enable_all()
            .build()?;
        let shared = Arc::new(Shared {
            exports,
            connections: Arc::new(Semaphore::new(options.max_connections)),
            options,
            stop: watch::Sender::new(false),
            gone: watch::Sender::new(0),
            threads: Threads::new(runtime.handle().clone()),
        });
        Ok(Self {
            shared,
            runtime: Some(runtime),
        })
    }

    /// Accepts the connections of a socket that listens. The file of a Unix socket stays the
    /// caller's: it is not removed at the end.
    ///
    /// # Errors
    /// The errors of the socket.
    pub fn listen(&self, listener: impl Into<Listener>) -> Result<()> {
        if let Some(runtime) = &self.runtime {
            let _entered = runtime.enter();
            let accepting = Accepting::new(listener.into())?;
            runtime.spawn(accept_all(accepting, Arc::clone(&self.shared)));
        }
        Ok(())
    }

    /// Serves one connection, for example one that the service manager accepted.
    ///
    /// # Errors
    /// The errors of the socket.
    pub fn serve(&self, connection: impl Into<Connection>) -> Result<()> {
        connect(connection.into(), &self.shared)
    }

    /// Returns the number of connections, with those in their handshake.
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Calls `then` when the last client that has used an export is gone. Clients that only ask for
    /// the list of exports don't count.
    pub fn when_unused(&self, then: impl FnOnce() + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move {
                let mut gone = shared.gone.subscribe();
                while gone.changed().await.is_ok() {
                    if shared.connections() == 0 {
                        return then();
                    }
                }
            });
        }
    }

    /// Stops: completes the requests in progress, closes the connections and flushes the devices.
    ///
    /// # Errors
    /// The first error of flushing; [`ErrorKind::Io`] if requests were not completed within
    /// [`Options::stop_timeout`].
    pub fn stop(mut self) -> Result<()> {
        let ended = self.end_connections();
        self.shared.exports.flush().and(ended)
    }

    /// Waits until all connections have ended.
    fn end_connections(&mut self) -> Result<()> {
        let Some(runtime) = self.runtime.take() else {
            return Ok(());
        };
        self.shared.stop.send_replace(true);
        let all = u32::try_from(self.shared.options.max_connections).unwrap_or(u32::MAX);
        let connections = Arc::clone(&self.shared.connections);
        let (ended, wait) = mpsc::channel();
        runtime.spawn(async move {
            let _ = connections.acquire_many_owned(all).await;
            let _ = ended.send(());
        });
        let in_time = wait.recv_timeout(self.shared.options.stop_timeout);
        runtime.shutdown_background();
        in_time.map_err(|_| {
            let reason = "the requests of NBD clients were not completed in time";
            Error::new(ErrorKind::Io, reason)
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

fn check(exports: &[Export]) -> Result<()> {
    for (index, export) in exports.iter().enumerate() {
        export.check()?;
        let before = exports.get(..index).unwrap_or_default();
        if before.iter().any(|other| other.name == export.name) {
            let reason = format!("two exports of the name `{}`", export.name);
            return Err(Error::invalid(reason));
        }
    }
    Ok(())
}

async fn accept_all(accepting: Accepting, shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    loop {
        tokio::select! {
            connection = accepting.next() => {
                if let Err(error) = connect(connection, &shared) {
                    tracing::warn!("cannot serve an NBD connection: {error}");
                }
            }
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// Begins to serve a connection on a thread of its own, if the server may have one more. So no
/// connection waits for another one's device.
fn connect(connection: Connection, shared: &Arc<Shared>) -> Result<()> {
    let Ok(permit) = Arc::clone(&shared.connections).try_acquire_owned() else {
        tracing::warn!("refused an NBD connection: too many connections");
        return Ok(());
    };
    let shared = Arc::clone(shared);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = std::thread::Builder::new().name("diskfs-nbd".into());
    thread.spawn(move || {
        let mut has_used = false;
        let ended = runtime
            .block_on(async { serve_stream(connection.stream()?, &shared, &mut has_used).await });
        // The sockets are closed before the connection counts as ended.
        runtime.shutdown_background();
        drop(permit);
        if has_used {
            shared
                .gone
                .send_modify(|gone| *gone = gone.saturating_add(1));
        }
        match ended {
            Err(failure) if !failure.is_end() => {
                tracing::warn!("an NBD connection ended: {failure}");
            }
            _ => {}
        }
    })?;
    Ok(())
}

/// Serves a connection from its beginning to its end. `has_used` becomes true when the client has
/// chosen an export.
async fn serve_stream(
    stream: Stream,
    shared: &Shared,
    has_used: &mut bool,
) -> std::result::Result<(), crate::failure::Failure> {
    let options = &shared.options;
    let mut stop = shared.stop.subscribe();
    let handshake = handshake::negotiate(stream, &shared.exports, &options.tls);
    let negotiated = tokio::select! {
        done = tokio::time::timeout(options.handshake_timeout, handshake) => match done {
            Ok(negotiated) => negotiated?,
            Err(_) => {
                return Err(crate::protocol::Violation("the handshake took too long").into());
            }
        },
        _ = stop.wait_for(|stop| *stop) => return Ok(()),
    };
    let Some(negotiated) = negotiated else {
        return Ok(());
    };
    *has_used = true;
    let stopped = async move {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    session::serve(negotiated, options, shared.threads.clone(), stopped).await
}

/// A session of a server, for the fuzzers.
#[cfg(feature = "testing")]
pub(crate) mod testing {
    use std::sync::Arc;

    use super::{Export, Exports, Options, Tls, handshake, session};
    use crate::failure::Failure;
    use crate::stream::Stream;

    /// Serves a connection from its beginning to its end.
    pub(crate) async fn serve_stream(
        stream: Stream,
        exports: &[Arc<Export>],
        options: &Options,
    ) -> Result<(), Failure> {
        let exports = Exports::Fixed(exports.to_vec());
        let negotiated = handshake::negotiate(stream, &exports, &Tls::off()).await?;
        let Some(negotiated) = negotiated else {
            return Ok(());
        };
        let stop = std::future::pending();
        let threads = super::Threads::new(tokio::runtime::Handle::current());
        session::serve(negotiated, options, threads, stop).await
    }
}
