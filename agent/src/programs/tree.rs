//! The file tree that programs see.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use diskfs_remote::server::{Location, Program};
use diskfs_vfs::elf::{ElfHead, ElfMachine};
use diskfs_vfs::{Error, ErrorKind, Result};
use rustix::fs::{
    FileType, Mode, OFlags, ResolveFlags, makedev, mkdirat, mknodat, open as open_path, openat2,
    symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind_recursive, unmount};

use super::io_error;

/// Opens a directory. Symlinks and `..` stay below the system's root.
pub(super) fn open(location: &Location<'_>) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mounted = open_path(location.mounted_at, flags, Mode::empty());
    let found = mounted
        .and_then(|mounted| open_below(&mounted, location.root))
        .and_then(|root| open_below(&root, location.path));
    found.map_err(|errno| {
        let path = String::from_utf8_lossy(location.path);
        Error::new(ErrorKind::from_errno(errno), format!("{path}: {errno}"))
    })
}

pub(super) fn open_below(root: &OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = match path {
        [] => OsStr::new("/"),
        path => OsStr::from_bytes(path),
    };
    openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// Returns the path in `/proc` of an open directory.
pub(super) fn name_of(dir: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", dir.as_raw_fd())
}

/// Returns the path of a directory.
pub(super) fn path_of(dir: &OwnedFd) -> Result<PathBuf> {
    fs::read_link(name_of(dir)).map_err(io_error("cannot read a directory's path"))
}

/// Bind-mounts a directory at another place. Returns the root of the new mount.
pub(super) fn bind(from: &Location<'_>, to: &Location<'_>) -> Result<OwnedFd> {
    mount_bind_recursive(name_of(&open(from)?), name_of(&open(to)?))
        .map_err(|errno| io_error("cannot bind-mount a directory")(errno.into()))?;
    open(to)
}

/// The filesystems that are mounted for programs in a tree, where the mount points exist.
const STANDARD_MOUNTS: [(&str, &str, MountFlags, &CStr); 4] = [
    ("proc", "proc", NO_DEVICES, c""),
    ("sysfs", "sys", NO_DEVICES.union(MountFlags::RDONLY), c""),
    ("tmpfs", "run", NO_DEVICES, c"mode=0755"),
    ("tmpfs", "dev", MountFlags::NOSUID, c"mode=0755"),
];

const NO_DEVICES: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC);

/// The devices that every program expects: name, major and minor number (`devices.txt` of the
/// kernel).
const DEVICES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];

/// Mounts the filesystems that programs expect, and returns the mounts. Failures are ignored: a
/// tree without the directory `/proc` works without it.
pub(super) fn mount_standard(root: &OwnedFd) -> Vec<OwnedFd> {
    let mounted = STANDARD_MOUNTS
        .iter()
        .filter_map(|(kind, name, flags, data)| {
            let mounted = mount_below(root, name, kind, *flags, data).ok()?;
            if *name == "dev" {
                make_devices(&mounted);
            }
            Some(mounted)
        });
    mounted.collect()
}

/// Mounts a filesystem at an existing directory. Returns the root of the mount.
fn mount_below(
    root: &OwnedFd,
    name: &str,
    kind: &str,
    flags: MountFlags,
    data: &CStr,
) -> rustix::io::Result<OwnedFd> {
    let dir = open_below(root, name.as_bytes())?;
    mount(kind, name_of(&dir), kind, flags, data)?;
    open_below(root, name.as_bytes())
}

fn make_devices(dev: &OwnedFd) {
    let mode = Mode::from_raw_mode(0o666);
    for (name, major, minor) in DEVICES {
        if mknodat(
            dev,
            name,
            FileType::CharacterDevice,
            mode,
            makedev(major, minor),
        )
        .is_ok()
        {
            rustix::fs::chmodat(dev, name, mode, rustix::fs::AtFlags::empty()).ok();
        }
    }
    for Disk {
        name,
        serial,
        number,
    } in disks()
    {
        let mode = Mode::from_raw_mode(0o600);
        mknodat(dev, name.as_str(), FileType::BlockDevice, mode, number).ok();
        if let Some(serial) = serial {
            symlinkat(name.as_str(), dev, serial.as_str()).ok();
        }
    }
    for (target, name) in LINKS {
        symlinkat(target, dev, name).ok();
    }
    for (name, kind, flags, data) in [
        // Its files are devices.
        (
            "pts",
            "devpts",
            MountFlags::NOSUID | MountFlags::NOEXEC,
            c"newinstance,ptmxmode=0666,mode=0620,gid=5",
        ),
        (
            "shm",
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            c"mode=1777",
        ),
    ] {
        mkdirat(dev, name, Mode::from_raw_mode(0o755)).ok();
        mount_below(dev, name, kind, flags, data).ok();
    }
}

/// A disk of the machine.
struct Disk {
    name: String,
    /// The serial number, if it is a valid file name.
    serial: Option<String>,
    number: u64,
}

fn disks() -> Vec<Disk> {
    let Ok(entries) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    let disks = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let attribute = |what: &str| fs::read_to_string(format!("/sys/block/{name}/{what}"));
        let numbers = attribute("dev").ok()?;
        let (major, minor) = numbers.trim_end().split_once(':')?;
        let number = makedev(major.parse().ok()?, minor.parse().ok()?);
        let serial = attribute("serial")
            .unwrap_or_default()
            .trim_end()
            .to_owned();
        let is_name = !serial.is_empty() && serial.bytes().all(|b| b.is_ascii_alphanumeric());
        name.starts_with("vd").then_some(Disk {
            name,
            serial: is_name.then_some(serial),
            number,
        })
    });
    disks.collect()
}

/// Unmounts a mount and all mounts below it. Its users have ended.
pub(super) fn unmount_all_at(mounted: OwnedFd) {
    unmount(name_of(&mounted), UnmountFlags::DETACH).ok();
    // The open descriptor keeps the mount busy.
    drop(mounted);
}

/// Returns the error for a program that could not be started.
pub(super) fn not_started(root: &Location<'_>, program: &Program, error: &io::Error) -> Error {
    let name = String::from_utf8_lossy(program.words.first().map_or(&[], Vec::as_slice));
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let (kind, reason) = match errno {
        Some(Errno::NOENT) => (
            ErrorKind::NotFound,
            "no such program, or its interpreter is missing".to_owned(),
        ),
        Some(Errno::ACCESS | Errno::PERM) => {
            (ErrorKind::Denied, "it may not be executed".to_owned())
        }
        Some(Errno::NOEXEC) => (ErrorKind::Unsupported, unsupported_script(root)),
        Some(Errno::TOOBIG) => (
            ErrorKind::Invalid,
            "arguments and environment are too long".to_owned(),
        ),
        _ => (ErrorKind::Io, error.to_string()),
    };
    Error::new(kind, format!("{name}: {reason}"))
}

/// Refuses a program for another architecture. This is checked before the start, because the C
/// library runs a file that the kernel can't execute as a script.
pub(super) fn check_machine(root: &OwnedFd, program: &Program) -> Result<()> {
    let named = program.words.first().map_or(&[][..], Vec::as_slice);
    let path = |line: &Vec<u8>| line.strip_prefix(b"PATH=").map(<[u8]>::to_vec);
    let dirs = program.environment.iter().find_map(path);
    let candidates = match dirs.filter(|_| !named.contains(&b'/')) {
        None => vec![named.to_vec()],
        Some(dirs) => {
            let dirs = dirs.split(|&byte| byte == b':');
            dirs.map(|dir| [dir, b"/", named].concat()).collect()
        }
    };
    let found = candidates.iter().find_map(|path| head_of(root, path));
    match found.as_ref().and_then(ElfMachine::of) {
        Some(machine) if Some(machine.number()) != own_machine().map(ElfMachine::number) => {
            let name = String::from_utf8_lossy(named);
            let reason = format!("{name}: {}", unsupported_architecture(machine));
            Err(Error::new(ErrorKind::Unsupported, reason))
        }
        _ => Ok(()),
    }
}

/// Returns the architecture that this kernel runs.
fn own_machine() -> Option<ElfMachine> {
    // This program has the kernel's architecture.
    ElfMachine::of(&read_head(&fs::File::open("/proc/self/exe").ok()?.into())?)
}

/// Returns the reason why the kernel can't run a program for this architecture.
fn unsupported_architecture(machine: ElfMachine) -> String {
    let name = |machine: ElfMachine| {
        let unknown = || format!("machine {}", machine.number());
        machine.name().map_or_else(unknown, str::to_owned)
    };
    let here = own_machine().map_or_else(|| "another architecture".to_owned(), name);
    let there = name(machine);
    format!("unsupported architecture {there}; the microVM's kernel runs {here}")
}

/// Returns the reason why a script can't be run: the architecture of the guest's shell.
fn unsupported_script(root: &Location<'_>) -> String {
    let head = open(root).ok().and_then(|root| head_of(&root, b"/bin/sh"));
    let shell = head.as_ref().and_then(ElfMachine::of);
    shell.map_or_else(
        || "not an executable format".to_owned(),
        unsupported_architecture,
    )
}

/// Reads the beginning of a file of the guest.
fn head_of(root: &OwnedFd, path: &[u8]) -> Option<ElfHead> {
    if !path.starts_with(b"/") {
        return None;
    }
    // The file may be a FIFO without a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = OsStr::from_bytes(path);
    let file = openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
    read_head(&file)
}

fn read_head(file: &OwnedFd) -> Option<ElfHead> {
    let mut head = ElfHead::default();
    let read = rustix::io::read(file, &mut head).ok()?;
    (read == head.len()).then_some(head)
}
