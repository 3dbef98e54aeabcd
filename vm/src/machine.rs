//! A running machine.

use std::fmt::Write as _;
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use diskfs_block::{BlockWrite, Memory};
use diskfs_remote::client::{Client, MountDevice, MountRequest, Remote};

use super::area::{self, Area};
use super::backend::{Channel, Prepared};
use super::connection::{ENDING, accept, no_answer};
use super::console::{self, Console};
use super::filesystem_kinds::{Access, Mounting};
use super::options::{BackendKind, VmOptions};
use super::process::Process;
use super::run_dir::RunDir;
use super::watch::Watch;
use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_export::vhost_user::{self, BlockDevice, Options, Served};

/// The timeout for the end of a machine that was killed.
const END_DEADLINE: Duration = Duration::from_secs(3);
/// The maximum number of disks: as many as have one-letter names in the machine, minus the area.
pub(super) const MAX_DISKS: usize = 25;

/// A disk of a machine.
pub(super) type Disk = Arc<BlockDevice>;

/// The prefix of the disks' serial numbers.
const SERIAL: &str = "diskfs";

/// Returns the serial number of the disk with that index.
pub(super) fn serial(index: usize) -> String {
    format!("{SERIAL}{index}")
}

/// Returns the disks of a machine with these devices, and then empty disks up to `count`.
pub(super) fn disks_of(devices: Vec<Arc<dyn BlockWrite>>, count: usize) -> Vec<Disk> {
    let empty = count.saturating_sub(devices.len());
    let empty = std::iter::repeat_with(empty_device).take(empty);
    let devices = devices.into_iter().chain(empty).enumerate();
    let disk = |(index, device)| BlockDevice::writable(device).with_serial(serial(index));
    devices.map(disk).map(Arc::new).collect()
}

/// Returns an empty device, the backing of a disk that is not used.
fn empty_device() -> Arc<dyn BlockWrite> {
    Arc::new(Memory::new(Vec::new()))
}

/// A machine whose agent answers. Dropping it ends its process, its sockets and its threads.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) kind: BackendKind,
    pub(super) client: Client,
    watch: Watch,
    process: Arc<Process>,
    disks: Vec<Disk>,
    /// The number of bytes that its kernel has written to its log until the agent answered.
    log_bytes: u64,
    /// The served devices; they end with the process.
    _served: Vec<Served>,
    _console: Option<Console>,
}

impl Machine {
    /// Starts a machine, and waits for its agent until `deadline`.
    ///
    /// # Errors
    /// Fails with the reason why the agent did not answer.
    pub(super) fn start(
        kind: BackendKind,
        prepared: &dyn Prepared,
        options: &VmOptions,
        disks: &[Disk],
        deadline: Duration,
    ) -> Result<Self> {
        let began = Instant::now();
        let dir = RunDir::with_room_for(options.memory_mib)?;
        let area = Arc::new(Area::default());
        let area_disk = Arc::new(area::disk(&area));
        // The area comes after the other disks, for which names are reserved.
        let all = disks.iter().chain([&area_disk]).enumerate();
        let served = all.map(|(index, disk)| {
            vhost_user::serve(listen(&dir.disk(index))?, disk, &Options::default())
        });
        let served = served.collect::<Result<Vec<_>>>()?;
        let console = match prepared.channel() {
            Channel::VhostUser => AgentPort::Served(console::serve(listen(&dir.console())?)?),
            Channel::Stream => AgentPort::Awaited(listen(&dir.console())?),
        };
        let (command, confinement) = prepared.command(&dir, served.len())?;
        tracing::debug!(backend = %kind, ?command, "starting a microVM");
        let process = Arc::new(Process::start(command, &confinement)?);
        drop(confinement); // What the machine inherits is now open there only.
        let (reader, writer, console) = console.open(&process, began, deadline)?;
        let left = deadline.saturating_sub(began.elapsed());
        let client = Client::connect_beside(Some(area), reader, writer, left);
        let client = client.map_err(|error| no_answer(&process, deadline, &error))?;
        tracing::debug!(backend = %kind, milliseconds = began.elapsed().as_millis(), "the microVM answers");
        // The machine has opened everything in the directory: if this process is killed now,
        // nothing is left behind.
        drop(dir);
        let watch = Watch::start(client.clone(), &process, disks, options.call_deadline)?;
        let machine = Self {
            kind,
            watch,
            client,
            log_bytes: process.log_bytes(),
            process,
            disks: disks.to_vec(),
            _served: served,
            _console: console,
        };
        machine.client.on_lost(machine.explanation());
        Ok(machine)
    }

    /// Mounts the filesystem on these disks, given by their indices.
    pub(super) fn mount(
        &self,
        disks: &[usize],
        mounting: &Mounting,
        access: Access,
    ) -> Result<Remote> {
        let mut devices = disks.iter().filter_map(|&index| {
            Some(MountDevice {
                name: serial(index),
                size_bytes: self.disks.get(index)?.size_bytes(),
            })
        });
        let none = || Error::new(ErrorKind::Invalid, "no device to mount");
        let request = MountRequest {
            device: devices.next().ok_or_else(none)?,
            other_devices: devices.collect(),
            kind: mounting.name_in(self.kernel()).to_owned(),
            read_only: access == Access::ReadOnly,
            options: mounting.data.to_owned(),
        };
        Ok(self.client.mount(&request)?)
    }

    /// Returns the number of disks.
    pub(super) fn disk_count(&self) -> usize {
        self.disks.len()
    }

    /// Sets the backing of these disks. Returns false if the machine's kernel cannot be notified of
    /// that.
    pub(super) fn attach(&self, disks: &[usize], devices: Vec<Arc<dyn BlockWrite>>) -> bool {
        let mut disks = disks.iter().zip(devices);
        disks.all(|(&index, device)| {
            self.disks.get(index).is_some_and(|disk| {
                disk.exchange(device);
                disk.tell_size()
            })
        })
    }

    /// Detaches the backing of these disks; the machine then sees empty ones, and writes nothing
    /// any more.
    pub(super) fn detach(&self, disks: &[usize]) {
        for disk in disks.iter().filter_map(|&index| self.disks.get(index)) {
            disk.exchange(empty_device());
        }
    }

    /// Returns true if the machine shows no fault: it runs, its kernel (which is told to be quiet)
    /// has logged nothing since the agent answered, and its disks had no errors.
    pub(super) fn is_sound(&self) -> bool {
        let is_silent = self.process.log_bytes() == self.log_bytes;
        let has_errors = self.disks.iter().any(|disk| disk.first_error().is_some());
        is_silent && !has_errors && self.process.ending().is_none()
    }

    /// Returns the version of the machine's kernel.
    pub(super) fn kernel(&self) -> &str {
        &self.client.about().kernel
    }

    /// Returns a function that explains why the stream from the machine has ended.
    fn explanation(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        // Weak references: the filesystem may outlive the machine, and must not keep process and
        // disks alive.
        let process = Arc::downgrade(&self.process);
        let disks: Vec<_> = self.disks.iter().map(Arc::downgrade).collect();
        let (kind, hung) = (self.kind, self.watch.hung());
        move || {
            let process = process.upgrade()?;
            process.wait(ENDING);
            let mut text = if let Some(ending) = process.ending() {
                format!("the microVM ({kind}) {ending}")
            } else {
                process.kill(); // It runs but breaks the protocol, so it is useless.
                format!("the microVM ({kind}) broke the protocol or closed its console")
            };
            if let Some(deadline) = hung.get() {
                let seconds = deadline.as_secs_f32();
                // Writing to a string does not fail.
                let _ = write!(text, "; it had not answered for {seconds} s");
            }
            let failed = |disk: &Weak<BlockDevice>| disk.upgrade()?.first_error();
            if let Some(error) = disks.iter().find_map(failed) {
                text.push_str("; before that, one of its disks failed: ");
                text.push_str(&error.to_string());
            }
            tracing::error!("{text}");
            process.print_log();
            Some(text)
        }
    }

    /// Ends the machine after its filesystems were unmounted. A failure to end it in order is only
    /// logged, because the data is durable.
    pub(super) fn end(&self) {
        if let Err(error) = self.shut_down() {
            tracing::debug!(%error, "cannot shut down the agent of a microVM");
        }
    }

    /// Unmounts everything and ends the machine.
    ///
    /// # Errors
    /// Fails if something could not be unmounted.
    pub(super) fn shut_down(&self) -> Result<()> {
        let ended = self.client.shut_down();
        // The machine has nothing more to write; it waits for being killed once the answer has
        // arrived.
        self.process.kill();
        if !self.process.wait(END_DEADLINE) {
            tracing::warn!(backend = %self.kind, "a microVM did not end");
        }
        Ok(ended?)
    }

    /// Kills the machine.
    pub(super) fn kill(&self) {
        self.process.kill();
    }
}

/// The source of the agent's stream.
enum AgentPort {
    /// A console that is served by this process.
    Served(Console),
    /// A socket to which the machine connects.
    Awaited(UnixListener),
}

type Reader = Box<dyn io::Read + Send>;
type Writer = Box<dyn io::Write + Send>;

impl AgentPort {
    fn open(
        self,
        process: &Arc<Process>,
        began: Instant,
        deadline: Duration,
    ) -> Result<(Reader, Writer, Option<Console>)> {
        match self {
            Self::Served(console) => {
                process.on_end(console.closer());
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
