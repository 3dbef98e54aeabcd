//! A running machine.

use std::fmt::Write as _;
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use diskfs_block::{BlockWrite, Memory};
use diskfs_remote::client::{Client, MountRequest, Remote};

use super::area::{self, Area};
use super::backend::{Channel, Prepared};
use super::connection::{ENDING, accept, no_answer};
use super::console::{self, Console};
use super::kinds::{Access, Mounting};
use super::options::{Kind, VmOptions};
use super::process::Process;
use super::run_dir::RunDir;
use super::watch::Watch;
use diskfs_disk::{Error, Result};
use diskfs_export::vhost_user::{self, BlockDevice, Options, Served};

/// How long a machine that was killed may take to be gone.
const END_DEADLINE: Duration = Duration::from_secs(3);
/// A disk of a machine.
pub(super) type Disk = Arc<BlockDevice>;

/// What the serial numbers of several begin with.
const SERIAL: &str = "diskfs";

/// The serial number of the disk with that index.
pub(super) fn serial(index: usize) -> String {
    format!("{SERIAL}{index}")
}

/// A machine's only disk.
pub(super) fn only_disk(device: Arc<dyn BlockWrite>) -> Disk {
    Arc::new(BlockDevice::writable(device).with_serial(serial(0)))
}

/// A device with nothing on it: what is behind the disk of a machine that waits.
pub(super) fn nothing() -> Arc<dyn BlockWrite> {
    Arc::new(Memory::new(Vec::new()))
}

/// A machine that answers. Dropped, it is gone, with its process, its sockets and its threads.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) kind: Kind,
    pub(super) client: Client,
    watch: Watch,
    process: Arc<Process>,
    disks: Vec<Disk>,
    /// How many bytes its kernel has said until the agent answered.
    said: u64,
    /// They end with the process.
    _served: Vec<Served>,
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
        options: &VmOptions,
        disks: &[Disk],
        deadline: Duration,
    ) -> Result<Self> {
        let began = Instant::now();
        let dir = RunDir::with_room_for(options.memory_mib)?;
        let area = Arc::new(Area::default());
        let area_disk = Arc::new(area::disk(&area));
        // Behind the others, for which names are kept free.
        let all = disks.iter().chain([&area_disk]).enumerate();
        let served = all.map(|(index, disk)| {
            vhost_user::serve(listen(&dir.disk(index))?, disk, &Options::default())
        });
        let served = served.collect::<Result<Vec<_>>>()?;
        let console = match prepared.channel() {
            Channel::VhostUser => Port::Served(console::serve(listen(&dir.console())?)?),
            Channel::Stream => Port::Awaited(listen(&dir.console())?),
        };
        let (command, confinement) = prepared.command(&dir, served.len());
        tracing::debug!(backend = %kind, ?command, "a microVM is started");
        let process = Arc::new(Process::start(command, &confinement)?);
        let (reader, writer, console) = console.open(&process, began, deadline)?;
        let left = deadline.saturating_sub(began.elapsed());
        let client = Client::connect_beside(Some(area), reader, writer, left);
        let client = client.map_err(|error| no_answer(&process, deadline, &error))?;
        tracing::debug!(backend = %kind, milliseconds = began.elapsed().as_millis(), "it answers");
        // Everything in it is open now: should this process be killed, nothing is left behind.
        drop(dir);
        let watch = Watch::start(client.clone(), &process, options.call_deadline)?;
        let machine = Self {
            kind,
            watch,
            client,
            said: process.said(),
            process,
            disks: disks.to_vec(),
            _served: served,
            _console: console,
        };
        machine.client.on_lost(machine.explanation());
        Ok(machine)
    }

    /// Mounts the filesystem on a disk.
    pub(super) fn mount(
        &self,
        device: &str,
        mounting: &Mounting,
        access: Access,
    ) -> Result<Remote> {
        // Of several, none was exchanged.
        let size_bytes = self.only_disk().map_or(0, |disk| disk.size_bytes());
        let request = MountRequest {
            size_bytes,
            read_only: access == Access::ReadOnly,
            options: mounting.data.to_owned(),
            ..MountRequest::new(device, mounting.name_in(self.kernel()))
        };
        Ok(self.client.mount(&request)?)
    }

    fn only_disk(&self) -> Option<&Disk> {
        match &*self.disks {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The same with this behind its only disk; `None` when its kernel can't be told of that.
    pub(super) fn with(self, device: Arc<dyn BlockWrite>) -> Option<Self> {
        let disk = self.only_disk()?;
        disk.exchange(device);
        disk.tell_size().then_some(self)
    }

    /// Lets go of what is behind its disks, which it sees no more.
    pub(super) fn detach(&self) {
        for disk in &self.disks {
            disk.exchange(nothing());
        }
    }

    /// Whether nothing is known against it: it runs, its kernel (which is told to be quiet) has complained of
    /// nothing, and its disks had no errors.
    pub(super) fn is_sound(&self) -> bool {
        let is_silent = self.process.said() == self.said;
        let has_errors = self.disks.iter().any(|disk| disk.first_error().is_some());
        is_silent && !has_errors && self.process.ending().is_none()
    }

    /// The kernel's version, as it says.
    pub(super) fn kernel(&self) -> &str {
        &self.client.about().kernel
    }

    /// Why nothing comes from the machine any more.
    fn explanation(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        // Whoever still has the filesystem keeps neither alive: it may be closed by then.
        let process = Arc::downgrade(&self.process);
        let disks: Vec<_> = self.disks.iter().map(Arc::downgrade).collect();
        let (kind, hung) = (self.kind, self.watch.hung());
        move || {
            let process = process.upgrade()?;
            process.wait(ENDING);
            let mut text = if let Some(ending) = process.ending() {
                format!("the microVM ({kind}) was {ending}")
            } else {
                process.kill(); // What it says makes no sense, so it is of no use.
                format!("the microVM ({kind}) broke off")
            };
            if let Some(deadline) = hung.get() {
                let seconds = deadline.as_secs_f32();
                // Writing to a string does not fail.
                let _ = write!(text, "; it had not answered for {seconds} s");
            }
            let failed = |disk: &Weak<BlockDevice>| disk.upgrade()?.first_error();
            if let Some(error) = disks.iter().find_map(failed) {
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
    pub(super) fn end(&self) {
        if let Err(error) = self.shut_down() {
            tracing::debug!(%error, "a microVM was not told to end");
        }
    }

    /// Has everything unmounted, and ends it.
    ///
    /// # Errors
    /// When something could not be unmounted.
    pub(super) fn shut_down(&self) -> Result<()> {
        let ended = self.client.shut_down();
        // It has nothing more to write, and lingers until the answer has come.
        self.process.kill();
        if !self.process.wait(END_DEADLINE) {
            tracing::warn!(backend = %self.kind, "a microVM did not end");
        }
        Ok(ended?)
    }

    /// Kills it.
    pub(super) fn kill(&self) {
        self.process.kill();
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

fn listen(socket: &std::path::Path) -> Result<UnixListener> {
    UnixListener::bind(socket).map_err(|error| Error::from(error).in_file(socket))
}
