//! Mounting of filesystems by the kernel.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use diskfs_remote::server::MountRequest;
use diskfs_vfs::{Error, ErrorKind, Result};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::kernel_calls::btrfs::forget_device;
use crate::programs::Programs;
use crate::{disks, modules};

/// The directory with the mount points.
const MOUNTS: &str = "/run/diskfs";

/// The kind of filesystem that may have several devices, which the kernel remembers.
const BTRFS: &str = "btrfs";

/// A filesystem that the kernel has mounted.
#[derive(Debug, Clone)]
pub(crate) struct Mounted {
    /// The mount point.
    pub(crate) target: String,
    kind: String,
    /// The device nodes of its devices.
    devices: Vec<PathBuf>,
}

impl Mounted {
    /// Mounts a filesystem at a directory with this number.
    pub(crate) fn new(request: &MountRequest, number: u32) -> Result<Self> {
        let devices = std::iter::once(&request.device).chain(&request.other_devices);
        let devices = devices.map(disks::find).collect::<Result<Vec<_>>>()?;
        let target = format!("{MOUNTS}/{number}");
        fs::create_dir_all(&target).map_err(|error| {
            Error::new(ErrorKind::Io, "cannot create a mount point").with_source(error)
        })?;
        modules::load_for(&request.kind);
        let mounted = Self {
            target,
            kind: request.kind.clone(),
            devices,
        };
        let done = mounted.mount(request);
        done.inspect_err(|_| forget(&mounted.kind, &mounted.devices))?;
        check_access(&mounted.target, request)
            .and_then(|()| check_distinct(&mounted.target))
            .inspect_err(|_| mounted.give_up())?;
        Ok(mounted)
    }

    fn mount(&self, request: &MountRequest) -> Result<()> {
        let [device, others @ ..] = &*self.devices else {
            return Err(Error::new(ErrorKind::Invalid, "no device"));
        };
        let options = mount_options(request, others)?;
        // Reading must not change access times, as in our own drivers.
        let mut flags = MountFlags::NOATIME;
        flags.set(MountFlags::RDONLY, request.read_only);
        mount(device, &self.target, &*self.kind, flags, &*options)
            .map_err(|errno| refused(request, errno))
    }

    /// Unmounts, and flushes the devices.
    pub(crate) fn end(&self, programs: &Programs) -> Result<()> {
        let failed = |reason: &'static str| {
            move |errno: rustix::io::Errno| Error::new(ErrorKind::Io, format!("{reason}: {errno}"))
        };
        match unmount(&self.target, UnmountFlags::empty()) {
            // A mount of a program that has ended keeps the filesystem busy. Detaching returns
            // before the filesystem is unmounted if anything else does.
            Err(rustix::io::Errno::BUSY) if programs.have_run() => {
                sync(&self.target)?;
                unmount(&self.target, UnmountFlags::DETACH)
            }
            unmounted => unmounted,
        }
        .map_err(failed("cannot unmount"))?;
        for device in &self.devices {
            let device = fs::File::open(device).map_err(|error| {
                Error::new(ErrorKind::Io, "cannot open the device").with_source(error)
            })?;
            rustix::fs::fsync(&device).map_err(failed("cannot flush the device"))?;
        }
        forget(&self.kind, &self.devices);
        Ok(())
    }

    /// Unmounts a filesystem that is not served.
    pub(crate) fn give_up(&self) {
        unmount(&self.target, UnmountFlags::empty()).ok();
        forget(&self.kind, &self.devices);
    }
}

/// Writes the changes of the filesystem that is mounted here to its devices.
fn sync(target: &str) -> Result<()> {
    let root = fs::File::open(target)?;
    rustix::fs::syncfs(&root).map_err(|errno| {
        Error::new(
            ErrorKind::Io,
            format!("cannot sync the filesystem: {errno}"),
        )
    })
}

/// Makes the kernel forget the devices of a filesystem that is not mounted. It remembers those of
/// btrfs by their UUIDs, and would take a disk that was exchanged meanwhile for one of them.
fn forget(kind: &str, devices: &[PathBuf]) {
    if kind != BTRFS {
        return;
    }
    for device in devices {
        // Old kernels can't forget; all of them read the superblock again before they mount.
        forget_device(device).ok();
    }
}

/// Checks that a mount is not that of another device: an old kernel mounts the same btrfs again
/// when it gets a clone of it.
fn check_distinct(target: &str) -> Result<()> {
    let device_of = |path: &Path| fs::metadata(path).map(|found| found.dev());
    let own = device_of(Path::new(target))?;
    for other in fs::read_dir(MOUNTS)? {
        let other = other?.path();
        if other != Path::new(target) && device_of(&other)? == own {
            let reason = "a filesystem with the same UUID is mounted already";
            return Err(Error::new(ErrorKind::Busy, reason));
        }
    }
    Ok(())
}

/// Returns the mount options, with the other devices of a filesystem that has several.
fn mount_options(request: &MountRequest, others: &[PathBuf]) -> Result<CString> {
    if !others.is_empty() && request.kind != BTRFS {
        let reason = format!("several devices are not supported for {}", request.kind);
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    let others = others
        .iter()
        .map(|device| format!("device={}", device.display()));
    let own = (!request.options.is_empty()).then(|| request.options.clone());
    let options: Vec<_> = own.into_iter().chain(others).collect();
    CString::new(options.join(",")).map_err(|_| {
        let reason = "invalid mount options: they contain a NUL";
        Error::new(ErrorKind::Invalid, reason)
    })
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
        request.device.name, request.kind
    );
    Error::new(kind, reason)
}
