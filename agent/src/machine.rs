//! The machines that mount filesystems.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use diskfs_remote::server::{
    About, BulkArea, HostHello, Location, Machine, MountRequest, Program, Running, Served,
};
use diskfs_vfs::{Error, ErrorKind, Result};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::area::DiskArea;
use crate::disks;
use crate::kernel_fs::{KernelFs, LookupMethod};
use crate::network;
use crate::programs::Programs;
use crate::resume;

/// The directory with the mount points.
const MOUNTS: &str = "/run/diskfs";

/// Filesystems without persistent handles: their inode numbers are valid only while a file is in
/// use.
const WITHOUT_HANDLES: [&str; 5] = ["vfat", "msdos", "exfat", "hfs", "hfsplus"];

/// Returns a description of this agent and its machine.
fn about() -> About {
    let uname = rustix::system::uname();
    About {
        agent: env!("CARGO_PKG_VERSION").into(),
        kernel: uname.release().to_string_lossy().into_owned(),
        architecture: uname.machine().to_string_lossy().into_owned(),
    }
}

fn lookup_method(kind: &str) -> LookupMethod {
    if WITHOUT_HANDLES.contains(&kind) {
        LookupMethod::Open
    } else {
        LookupMethod::Handles
    }
}

/// The machine on which the agent runs; it mounts the machine's devices.
#[derive(Debug, Default)]
pub struct LinuxMachine {
    mounted: AtomicU32,
    programs: Arc<Programs>,
    /// The area, which is searched after the handshake.
    area: OnceLock<DiskArea>,
    /// The state of PID 1; `None` if the agent is not PID 1.
    init: Option<Init>,
}

/// The state that only PID 1 has.
#[derive(Debug)]
struct Init {
    /// True if the machine may have been restored from a saved state, with other disks.
    is_saved: bool,
}

impl LinuxMachine {
    /// Creates the machine of PID 1.
    pub(crate) fn of_init(is_saved: bool) -> Self {
        Self {
            init: Some(Init { is_saved }),
            ..Self::default()
        }
    }
}

impl Machine for LinuxMachine {
    fn about(&self) -> About {
        about()
    }

    fn on_handshake(&self, host_hello: &HostHello) {
        let Some(init) = &self.init else {
            return; // The machine's time belongs to its own system.
        };
        resume::apply_handshake(host_hello);
        if init.is_saved {
            resume::find_disks();
        }
        if let Some(area) = DiskArea::find() {
            self.area.get_or_init(|| area);
        }
    }

    fn area(&self) -> Option<&dyn BulkArea> {
        let area = self.area.get()?;
        Some(area)
    }

    fn mount(&self, request: &MountRequest) -> Result<Arc<dyn Served>> {
        let device = disks::wait_for(&request.device)?;
        disks::wait_for_size(&device, request.size_bytes)?;
        let number = self.mounted.fetch_add(1, Ordering::Relaxed);
        let target = format!("{MOUNTS}/{number}");
        fs::create_dir_all(&target).map_err(|error| {
            Error::new(ErrorKind::Io, "cannot create a mount point").with_source(error)
        })?;
        crate::modules::load_for(&request.kind);
        // Reading must not change access times, as in our own drivers.
        let mut flags = MountFlags::NOATIME;
        flags.set(MountFlags::RDONLY, request.read_only);
        let options = std::ffi::CString::new(request.options.as_str());
        let options = options.map_err(|_| {
            Error::new(
                ErrorKind::Invalid,
                "invalid mount options: they contain a NUL",
            )
        })?;
        mount(&device, &target, request.kind.as_str(), flags, &*options)
            .map_err(|errno| refused(request, errno))?;
        check_access(&target, request).inspect_err(|_| {
            unmount(&target, UnmountFlags::empty()).ok();
        })?;
        let unmount_it = {
            let (target, programs) = (target.clone(), Arc::clone(&self.programs));
            move || end(&target, &device, &programs)
        };
        let fs = KernelFs::new(
            &target,
            &request.kind,
            lookup_method(&request.kind),
            unmount_it,
        );
        Ok(Arc::new(fs.inspect_err(|_| {
            unmount(&target, UnmountFlags::empty()).ok();
        })?))
    }

    fn bind(&self, from: &Location<'_>, to: &Location<'_>) -> Result<()> {
        self.programs.bind(from, to)
    }

    fn connect(&self) -> Result<()> {
        if self.init.is_none() {
            let reason = "setting up the network is not supported: the agent is not PID 1";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        network::connect()
    }

    fn start(&self, root: &Location<'_>, program: &Program) -> Result<Arc<dyn Running>> {
        self.programs.start(root, program)
    }

    fn end_programs(&self) {
        self.programs.end_all();
    }
}

/// Checks that a mount is writable if it should be. For some filesystems that the kernel can't
/// write (HFS+ with a journal, a hibernated NTFS), a read-write mount silently becomes read-only.
fn check_access(target: &str, request: &MountRequest) -> Result<()> {
    let stats = statvfs(target).map_err(|errno| refused(request, errno))?;
    if request.read_only || !stats.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    let reason = format!(
        "the microVM's kernel mounts this {} read-only",
        request.kind
    );
    Err(Error::new(ErrorKind::Unsupported, reason))
}

fn refused(request: &MountRequest, errno: rustix::io::Errno) -> Error {
    use rustix::io::Errno;
    let (kind, hint) = match errno {
        Errno::NODEV => (
            ErrorKind::Unsupported,
            "the microVM's kernel does not support it",
        ),
        Errno::INVAL => (ErrorKind::Corrupt, "invalid superblock or option"),
        Errno::UCLEAN => (ErrorKind::Corrupt, "it must be repaired"),
        Errno::ROFS | Errno::ACCESS => (ErrorKind::ReadOnly, "the device is read-only"),
        Errno::BUSY => (ErrorKind::Busy, "it is already mounted"),
        _ => (ErrorKind::Io, "see the log of the microVM's kernel"),
    };
    let reason = format!(
        "cannot mount {} as {}: {errno} ({hint})",
        request.device, request.kind
    );
    Error::new(kind, reason)
}

/// Unmounts, and flushes the device.
fn end(target: &str, device: &Path, programs: &Programs) -> Result<()> {
    let failed = |reason: &'static str| {
        move |errno: rustix::io::Errno| Error::new(ErrorKind::Io, format!("{reason}: {errno}"))
    };
    match unmount(target, UnmountFlags::empty()) {
        // A mount of a program that has ended keeps the filesystem busy.
        Err(rustix::io::Errno::BUSY) if programs.have_run() => {
            unmount(target, UnmountFlags::DETACH)
        }
        unmounted => unmounted,
    }
    .map_err(failed("cannot unmount"))?;
    let device = fs::File::open(device)
        .map_err(|error| Error::new(ErrorKind::Io, "cannot open the device").with_source(error))?;
    rustix::fs::fsync(&device).map_err(failed("cannot flush the device"))
}

/// A machine for tests that "mounts" an existing directory, whatever device is requested.
#[derive(Debug)]
pub struct DirectoryMachine {
    directory: String,
}

impl DirectoryMachine {
    /// Creates a machine that serves this directory.
    pub fn new(directory: impl Into<String>) -> Self {
        Self {
            directory: directory.into(),
        }
    }
}

impl Machine for DirectoryMachine {
    fn about(&self) -> About {
        about()
    }

    fn mount(&self, request: &MountRequest) -> Result<Arc<dyn Served>> {
        let kind = &request.kind;
        let fs = KernelFs::new(&self.directory, kind, lookup_method(kind), || Ok(()))?;
        Ok(Arc::new(fs))
    }
}
