//! The client: the side of the protocol that uses filesystems of the other side.

mod area;
mod attributes;
mod calls;
mod connection;
mod handshake;
mod holds;
mod listing;
mod negative_cache;
mod programs;
mod reading;
mod remote;
mod small_files;
mod small_reads;
mod writing;

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use diskfs_vfs::{Metadata, Result};

use crate::protocol::{Mounted, Reply, Request};
use connection::{Call, Connection};
use negative_cache::NegativeCache;

pub use crate::protocol::{
    About, Ended, MountDevice, MountRequest, Program, ProgramDir, Stream, TerminalSize, User,
};
pub use area::BulkArea;
pub use programs::{ProgramEvent, Running};
pub use remote::Remote;

/// A connection to an agent, usable by any number of threads at once.
///
/// There is no thread of its own: a thread that waits for an answer reads from the stream, also on
/// behalf of other waiting threads. So the end of the stream is noticed only at the next request.
#[derive(Clone)]
pub struct Client {
    connection: Arc<Connection>,
    about: Arc<About>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Performs the handshake, which the agent must answer within `deadline`. If it doesn't, the
    /// thread that reads continues until the stream ends; the caller must see to that.
    ///
    /// # Errors
    /// Fails with `Io` if the deadline passes or the stream ends, and with `Unsupported` if the
    /// agent has another version of the protocol.
    pub fn connect(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        deadline: Duration,
    ) -> Result<Self> {
        Self::connect_beside(None, reader, writer, deadline)
    }

    /// Connects like [`connect`](Self::connect), with an area for contents, which is used if the
    /// agent sees it, too.
    ///
    /// # Errors
    /// Fails for the same reasons as [`connect`](Self::connect).
    pub fn connect_beside(
        area: Option<Arc<dyn BulkArea>>,
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        deadline: Duration,
    ) -> Result<Self> {
        let (frames, writer, hello) =
            handshake::shake_hands(Box::new(reader), Box::new(writer), deadline)?;
        let area = area.filter(|_| hello.has_area);
        Ok(Self {
            connection: Arc::new(Connection::new(frames, writer, area)),
            about: Arc::new(hello.about),
        })
    }

    /// Returns the agent's description of itself: untrusted, only for display.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Returns the numbers of the requests that wait for an answer. Numbers are not reused: one
    /// that is returned again and again is not being answered. Requests that wait for a program are
    /// left out, because a program may run without limit.
    pub fn waiting_requests(&self) -> Vec<u64> {
        self.connection.waiting()
    }

    /// Sets a function that is called once to explain why the stream ended, because the owner of
    /// the agent knows best (`the microVM was killed (signal 9)`). It should also make sure that
    /// nothing more is sent over the stream.
    pub fn on_lost(&self, explain: impl Fn() -> Option<String> + Send + Sync + 'static) {
        self.connection.on_lost(Box::new(explain));
    }

    /// Mounts a filesystem in the agent.
    ///
    /// # Errors
    /// Fails with `NotFound` if the device does not exist, with `Unsupported` if the agent's kernel
    /// does not know the kind, and with the error of mounting.
    pub fn mount(&self, request: &MountRequest) -> Result<Remote> {
        let call = Call::new(Request::Mount(request.clone()));
        let (mounted, root, identity) = self.connection.call(call, |answer| {
            let Reply::Mounted(mounted) = answer.reply else {
                return Err(connection::MISMATCH);
            };
            let root = Metadata::try_from(mounted.root.clone())?;
            let identity = mounted.identity()?;
            Ok((mounted, root, identity))
        })?;
        let Mounted { filesystem, .. } = mounted;
        let connection = Arc::clone(&self.connection);
        let access = if request.read_only {
            remote::Access::ReadOnly
        } else {
            remote::Access::ReadWrite
        };
        let negative_cache = NegativeCache::new(&request.kind);
        Ok(Remote::new(
            connection,
            filesystem,
            access,
            &root,
            identity,
            negative_cache,
        ))
    }

    /// Unmounts everything and ends the agent, and with it the machine. All data is durable when it
    /// returns.
    ///
    /// # Errors
    /// Fails if something can't be unmounted. The agent ends in any case.
    pub fn shut_down(&self) -> Result<()> {
        let call = Call::new(Request::ShutDown);
        self.connection.call(call, connection::done)
    }
}
