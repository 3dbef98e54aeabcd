//! Who mounts.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use diskfs_remote::server::{
    About, BulkArea, Greeting, Location, Machine, MountRequest, Program, Running, Served,
};
use diskfs_vfs::{Error, ErrorKind, Result};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::area::DiskArea;
use crate::disks;
use crate::kernel_fs::{Kept, KernelFs};
use crate::network;
use crate::programs::Programs;
use crate::wake;

/// Where filesystems are mounted.
const MOUNTS: &str = "/run/diskfs";

/// Filesystems of which the kernel can't find a file by its handle for good: numbers are made up
/// while a file is in use.
const WITHOUT_HANDLES: [&str; 5] = ["vfat", "msdos", "exfat", "hfs", "hfsplus"];

/// What this agent is and runs on.
fn about() -> About {
    let uname = rustix::system::uname();
    About {
        agent: env!("CARGO_PKG_VERSION").into(),
        kernel: uname.release().to_string_lossy().into_owned(),
        architecture: uname.machine().to_string_lossy().into_owned(),
    }
}

fn kept(kind: &str) -> Kept {
    if WITHOUT_HANDLES.contains(&kind) {
        Kept::Open
    } else {
        Kept::Handles
    }
}

/// Mounts devices of the machine that it runs on.
#[derive(Debug, Default)]
pub struct LinuxMachine {
    mounted: AtomicU32,
    programs: Arc<Programs>,
    /// Found when the host has greeted.
    area: OnceLock<DiskArea>,
    /// Whether all of the machine is this program's.
    init: Option<Init>,
}

/// What PID 1 knows.
#[derive(Debug)]
struct Init {
    /// The machine may have been saved and have got other disks since.
    is_saved: bool,
}

impl LinuxMachine {
    /// The one that PID 1 has for itself.
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

    fn wake(&self, greeting: &Greeting) {
        let Some(init) = &self.init else {
            return; // The time of this machine is its owner's.
        };
        wake::learn(greeting);
        if init.is_saved {
            wake::find_disks();
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
            Error::new(ErrorKind::Io, "no place to mount at").with_source(error)
        })?;
        crate::modules::load_for(&request.kind);
        // Reading changes no times, as drivers have it.
        let mut flags = MountFlags::NOATIME;
        flags.set(MountFlags::RDONLY, request.read_only);
        let options = std::ffi::CString::new(request.options.as_str());
        let options = options.map_err(|_| Error::new(ErrorKind::Invalid, "options with a NUL"))?;
        mount(&device, &target, request.kind.as_str(), flags, &*options)
            .map_err(|errno| refused(request, errno))?;
        check_access(&target, request).inspect_err(|_| {
            unmount(&target, UnmountFlags::empty()).ok();
        })?;
        let unmount_it = {
            let (target, programs) = (target.clone(), Arc::clone(&self.programs));
            move || end(&target, &device, &programs)
        };
        let fs = KernelFs::new(&target, &request.kind, kept(&request.kind), unmount_it);
        Ok(Arc::new(fs.inspect_err(|_| {
            unmount(&target, UnmountFlags::empty()).ok();
        })?))
    }

    fn bind(&self, from: &Location<'_>, to: &Location<'_>) -> Result<()> {
        self.programs.bind(from, to)
    }

    fn connect(&self) -> Result<()> {
        if self.init.is_none() {
            let reason = "the network of this machine is its owner's";
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

/// Some drivers mount what they don't write (HFS+ with a journal, NTFS that Windows sleeps in) without
/// saying that it is for reading only.
fn check_access(target: &str, request: &MountRequest) -> Result<()> {
    let told = statvfs(target).map_err(|errno| refused(request, errno))?;
    if request.read_only || !told.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    let reason = format!("the kernel mounts this {} for reading only", request.kind);
    Err(Error::new(ErrorKind::Unsupported, reason))
}

fn refused(request: &MountRequest, errno: rustix::io::Errno) -> Error {
    use rustix::io::Errno;
    let (kind, hint) = match errno {
        Errno::NODEV => (ErrorKind::Unsupported, "the kernel there does not know it"),
        Errno::INVAL => (ErrorKind::Corrupt, "its superblock or an option is refused"),
        Errno::UCLEAN => (ErrorKind::Corrupt, "it needs a repair"),
        Errno::ROFS | Errno::ACCESS => (ErrorKind::ReadOnly, "the device can't be written"),
        Errno::BUSY => (ErrorKind::Busy, "it is mounted already"),
        _ => (ErrorKind::Io, "see the log of the kernel there"),
    };
    let reason = format!(
        "{} can't be mounted as {}: {errno} ({hint})",
        request.device, request.kind
    );
    Error::new(kind, reason)
}

/// Unmounts, and lets the device write what it keeps.
fn end(target: &str, device: &Path, programs: &Programs) -> Result<()> {
    let failed = |reason: &'static str| {
        move |errno: rustix::io::Errno| Error::new(ErrorKind::Io, format!("{reason}: {errno}"))
    };
    match unmount(target, UnmountFlags::empty()) {
        // Something that a program mounted there, which nobody uses any more.
        Err(rustix::io::Errno::BUSY) if programs.have_run() => {
            unmount(target, UnmountFlags::DETACH)
        }
        unmounted => unmounted,
    }
    .map_err(failed("unmounting failed"))?;
    let device = fs::File::open(device)
        .map_err(|error| Error::new(ErrorKind::Io, "the device is gone").with_source(error))?;
    rustix::fs::fsync(&device).map_err(failed("the device can't be flushed"))
}

/// "Mounts" a directory that is there, whatever device is asked for: for tests.
#[derive(Debug)]
pub struct DirectoryMachine {
    directory: String,
}

impl DirectoryMachine {
    /// Serves this directory.
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
        let fs = KernelFs::new(&self.directory, kind, kept(kind), || Ok(()))?;
        Ok(Arc::new(fs))
    }
}
