//! The end that wants the files.

mod area;
mod attributes;
mod calls;
mod connection;
mod handshake;
mod holds;
mod listing;
mod names;
mod programs;
mod reading;
mod remote;
mod writing;

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use diskfs_vfs::{Metadata, Result};

use crate::protocol::{Mounted, Reply, Request};
use connection::{Call, Connection};
use names::Names;

pub use crate::protocol::{About, Ended, MountRequest, Place, Program, Stream, User};
pub use area::BulkArea;
pub use programs::{Happened, Running};
pub use remote::Remote;

/// A connection with an agent, from any number of threads at once.
///
/// Whoever waits for an answer takes what comes over the stream, for others that wait, too: no
/// thread stands between. So an end of the stream is noticed by whoever asks for something then.
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
    /// Waits so long for the agent to introduce itself. When it doesn't, the thread that reads goes
    /// on until the stream ends, for which the caller should care.
    ///
    /// # Errors
    /// `Io` when it doesn't in that time, or the stream ends; `Unsupported` when it speaks another
    /// version of the protocol.
    pub fn connect(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        deadline: Duration,
    ) -> Result<Self> {
        Self::connect_beside(None, reader, writer, deadline)
    }

    /// The same with an area for contents, which an agent uses that sees it.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
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

    /// What the agent said of itself: not to be trusted, but to be shown.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The numbers of the requests that wait for their answers, each of which is given once: one that is among them
    /// again and again is not answered. Those that wait for a program, which may do nothing for ever, are left
    /// out.
    pub fn waiting_requests(&self) -> Vec<u64> {
        self.connection.waiting()
    }

    /// Who is asked, once, why the stream ended: whoever owns the other end knows best (`the microVM
    /// was killed (signal 9)`). It should also see to it that nothing more comes over the stream.
    pub fn on_lost(&self, explain: impl Fn() -> Option<String> + Send + Sync + 'static) {
        self.connection.on_lost(Box::new(explain));
    }

    /// Mounts a filesystem there.
    ///
    /// # Errors
    /// `NotFound` without the device, `Unsupported` for a kind that is not known there, and what
    /// mounting itself meets.
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
        let names = Names::new(&request.kind);
        Ok(Remote::new(
            connection, filesystem, access, &root, identity, names,
        ))
    }

    /// Unmounts everything and ends the agent, and with it the machine. Returns when everything is
    /// durable.
    ///
    /// # Errors
    /// When something can't be unmounted. The agent ends in any case.
    pub fn shut_down(&self) -> Result<()> {
        let call = Call::new(Request::ShutDown);
        self.connection.call(call, connection::done)
    }
}
