//! A running machine.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::BlockWrite;
use diskfs_remote::client::{Client, MountRequest, Remote};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::backend::{Channel, Kind, Prepared};
use super::console::{self, Console};
use super::process::Process;
use super::run_dir::RunDir;
use super::{VmOptions, kinds, start};
use crate::export::vhost_user::{self, BlockDevice, Options, Served};
use crate::{Error, ErrorKind, Result, Wanted};

/// How long a machine may take to end after it was told to: it has nothing more to write then.
const END_DEADLINE: Duration = Duration::from_secs(3);
/// How long after the stream ended a process is waited for, to say how it did.
const OBITUARY: Duration = Duration::from_secs(1);
/// How often it is looked whether a machine that has not called yet is still alive.
const LOOK: Duration = Duration::from_millis(20);

/// The one disk of a machine.
pub(super) type Disk = Arc<BlockDevice>;

/// The disk's name in the machine.
const DEVICE: &str = "vda";

/// What a filesystem is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadOnly,
    ReadWrite,
}

/// Opens a filesystem in a machine of its own, which ends when the filesystem is closed or dropped.
pub(super) fn mount(
    options: &VmOptions,
    wanted: &Wanted<'_>,
    device: Arc<dyn BlockWrite>,
    access: Access,
) -> Result<Arc<Remote>> {
    let mounting = kinds::of(wanted.kind).ok_or_else(|| {
        let reason = format!("{} is not known to the microVM", wanted.kind);
        Error::new(ErrorKind::Unsupported, reason)
    })?;
    if access == Access::ReadWrite && !mounting.is_written {
        let reason = format!("{} is read only, by its own design", wanted.kind);
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    let disk = Arc::new(BlockDevice::writable(device));
    let began = Instant::now();
    let machine = start::start(options, &disk)?;
    let request = MountRequest {
        read_only: access == Access::ReadOnly,
        options: mounting.data.to_owned(),
        ..MountRequest::new(DEVICE, mounting.name_in(machine.kernel()))
    };
    let remote = machine.client.mount(&request)?;
    tracing::info!(
        volume = wanted.volume,
        backend = %machine.kind,
        kernel = machine.client.about().kernel,
        milliseconds = began.elapsed().as_millis(),
        "mounted in a microVM"
    );
    Ok(Arc::new(remote.ending_with(move || machine.end())))
}

/// A machine that answers. Dropped, it is gone, with its process, its sockets and its threads.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) kind: Kind,
    pub(super) client: Client,
    process: Arc<Process>,
    disk: Disk,
    /// They end with the process.
    _served: Served,
    _console: Option<Console>,
}

impl Machine {
    /// Starts one, and waits so long for its agent.
    ///
    /// # Errors
    /// Why it did not answer.
    pub(super) fn start(
        kind: Kind,
        prepared: &dyn Prepared,
        memory_mib: u32,
        disk: &Disk,
        deadline: Duration,
    ) -> Result<Self> {
        let began = Instant::now();
        let dir = RunDir::with_room_for(memory_mib)?;
        let served = vhost_user::serve(listen(&dir.disk())?, disk, &Options::default())?;
        let console = match prepared.channel() {
            Channel::VhostUser => Port::Served(console::serve(listen(&dir.console())?)?),
            Channel::Stream => Port::Awaited(listen(&dir.console())?),
        };
        let (command, confinement) = prepared.command(&dir);
        tracing::debug!(backend = %kind, ?command, "a microVM is started");
        let process = Arc::new(Process::start(command, &confinement)?);
        let (reader, writer, console) = console.open(&process, began, deadline)?;
        let left = deadline.saturating_sub(began.elapsed());
        let client = Client::connect(reader, writer, left);
        let client = client.map_err(|error| no_answer(&process, deadline, &error))?;
        tracing::debug!(backend = %kind, milliseconds = began.elapsed().as_millis(), "it answers");
        // Everything in it is open now: should this process be killed, nothing is left behind.
        drop(dir);
        let machine = Self {
            kind,
            client,
            process,
            disk: Arc::clone(disk),
            _served: served,
            _console: console,
        };
        machine.client.on_lost(machine.explanation());
        Ok(machine)
    }

    /// The kernel's version, as it says.
    pub(super) fn kernel(&self) -> &str {
        &self.client.about().kernel
    }

    /// Why nothing comes from the machine any more.
    fn explanation(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        // Whoever still has the filesystem keeps neither alive: it may be closed by then.
        let (process, disk) = (Arc::downgrade(&self.process), Arc::downgrade(&self.disk));
        let kind = self.kind;
        move || {
            let process = process.upgrade()?;
            process.wait(OBITUARY);
            let mut text = if let Some(ending) = process.ending() {
                format!("the microVM ({kind}) was {ending}")
            } else {
                process.kill(); // What it says makes no sense, so it is of no use.
                format!("the microVM ({kind}) broke off")
            };
            if let Some(error) = disk.upgrade().and_then(|disk| disk.first_error()) {
                text.push_str("; before that, its disk failed: ");
                text.push_str(&error.to_string());
            }
            tracing::error!("{text}");
            process.tell_log();
            Some(text)
        }
    }

    /// Ends it, when its filesystem is unmounted. That was what mattered: whether it ends well does
    /// not.
    pub(super) fn end(self) {
        if let Err(error) = self.client.shut_down() {
            tracing::debug!(%error, "a microVM was not told to end");
        }
        if !self.process.wait(END_DEADLINE) {
            tracing::warn!(backend = %self.kind, "a microVM did not end by itself");
        }
    }
}

/// Where the agent's bytes come from and go to.
enum Port {
    /// From a console that is served here.
    Served(Console),
    /// From whoever connects.
    Awaited(UnixListener),
}

type Reader = Box<dyn io::Read + Send>;
type Writer = Box<dyn io::Write + Send>;

impl Port {
    fn open(
        self,
        process: &Arc<Process>,
        began: Instant,
        deadline: Duration,
    ) -> Result<(Reader, Writer, Option<Console>)> {
        match self {
            Self::Served(console) => {
                let (reader, writer) = console.stream();
                Ok((Box::new(reader), Box::new(writer), Some(console)))
            }
            Self::Awaited(listener) => {
                let stream = accept(&listener, process, began, deadline)?;
                Ok((Box::new(stream.try_clone()?), Box::new(stream), None))
            }
        }
    }
}

/// Waits for the machine to connect; not longer than it lives, nor than the deadline.
fn accept(
    listener: &UnixListener,
    process: &Process,
    began: Instant,
    deadline: Duration,
) -> Result<UnixStream> {
    let timeout = Timespec::try_from(LOOK).unwrap_or_default();
    loop {
        let mut wanted = [PollFd::new(listener, PollFlags::IN)];
        if poll(&mut wanted, Some(&timeout)).map_err(io::Error::from)? > 0 {
            return Ok(listener.accept()?.0);
        }
        if process.ending().is_some() || began.elapsed() > deadline {
            return Err(no_answer(process, deadline, "it did not connect"));
        }
    }
}

/// Why a machine did not answer.
fn no_answer(process: &Process, deadline: Duration, error: impl std::fmt::Display) -> Error {
    let ended = process.wait(OBITUARY);
    process.tell_log();
    let reason = match process.ending().filter(|_| ended) {
        Some(ending) => format!("the kernel did not start: it was {ending}"),
        None => format!("no answer within {} s: {error}", deadline.as_secs_f32()),
    };
    Error::new(ErrorKind::Unsupported, reason)
}

fn listen(socket: &std::path::Path) -> Result<UnixListener> {
    UnixListener::bind(socket).map_err(|error| Error::from(error).in_file(socket))
}
