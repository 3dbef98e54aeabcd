//! The tree that programs see.

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

/// The directory that is meant. Symlinks and `..` stay below the system's root.
pub(super) fn open(location: &Location<'_>) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mounted = open_path(location.mounted_at, flags, Mode::empty());
    let found = mounted
        .and_then(|mounted| below(&mounted, location.root))
        .and_then(|root| below(&root, location.path));
    found.map_err(|errno| {
        let path = String::from_utf8_lossy(location.path);
        Error::new(ErrorKind::from_errno(errno), format!("{path}: {errno}"))
    })
}

pub(super) fn below(root: &OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = match path {
        [] => OsStr::new("/"),
        path => OsStr::from_bytes(path),
    };
    openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// What a directory that is open is called by whoever has it open.
pub(super) fn name_of(dir: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", dir.as_raw_fd())
}

/// Where a directory is.
pub(super) fn path_of(dir: &OwnedFd) -> Result<PathBuf> {
    fs::read_link(name_of(dir)).map_err(io_error("a directory's path"))
}

/// Shows one directory at another place, too, and gives what is there then.
pub(super) fn bind(from: &Location<'_>, to: &Location<'_>) -> Result<OwnedFd> {
    mount_bind_recursive(name_of(&open(from)?), name_of(&open(to)?))
        .map_err(|errno| io_error("a directory can't be shown twice")(errno.into()))?;
    open(to)
}

/// What is mounted below the root of a tree for its programs, in directories that are there.
const FURNITURE: [(&str, &str, MountFlags, &CStr); 4] = [
    ("proc", "proc", NO_DEVICES, c""),
    ("sysfs", "sys", NO_DEVICES.union(MountFlags::RDONLY), c""),
    ("tmpfs", "run", NO_DEVICES, c"mode=0755"),
    ("tmpfs", "dev", MountFlags::NOSUID, c"mode=0755"),
];

const NO_DEVICES: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC);

/// The devices that each program counts on: name, major and minor number (`devices.txt` of the kernel).
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

/// Mounts what programs count on, and gives that. What fails here shows when it is missed: a tree that has
/// no `/proc` does without.
pub(super) fn furnish(root: &OwnedFd) -> Vec<OwnedFd> {
    let mounted = FURNITURE.iter().filter_map(|(kind, name, flags, data)| {
        let mounted = mount_below(root, name, kind, *flags, data).ok()?;
        if *name == "dev" {
            make_devices(&mounted);
        }
        Some(mounted)
    });
    mounted.collect()
}

/// Mounts at a directory that is there, and gives what is there then.
fn mount_below(
    root: &OwnedFd,
    name: &str,
    kind: &str,
    flags: MountFlags,
    data: &CStr,
) -> rustix::io::Result<OwnedFd> {
    let dir = below(root, name.as_bytes())?;
    mount(kind, name_of(&dir), kind, flags, data)?;
    below(root, name.as_bytes())
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
    for (name, kind, data) in [
        (
            "pts",
            "devpts",
            c"newinstance,ptmxmode=0666,mode=0620,gid=5",
        ),
        ("shm", "tmpfs", c"mode=1777"),
    ] {
        mkdirat(dev, name, Mode::from_raw_mode(0o755)).ok();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount_below(dev, name, kind, flags, data).ok();
    }
}

/// A disk of the machine.
struct Disk {
    name: String,
    /// If it could be a file's name.
    serial: Option<String>,
    number: u64,
}

fn disks() -> Vec<Disk> {
    let Ok(entries) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    let disks = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let told = |what: &str| fs::read_to_string(format!("/sys/block/{name}/{what}"));
        let numbers = told("dev").ok()?;
        let (major, minor) = numbers.trim_end().split_once(':')?;
        let number = makedev(major.parse().ok()?, minor.parse().ok()?);
        let serial = told("serial").unwrap_or_default().trim_end().to_owned();
        let is_name = !serial.is_empty() && serial.bytes().all(|b| b.is_ascii_alphanumeric());
        name.starts_with("vd").then_some(Disk {
            name,
            serial: is_name.then_some(serial),
            number,
        })
    });
    disks.collect()
}

/// Unmounts what is mounted at a directory, and all below it. Whoever used it is gone.
pub(super) fn unmount_all_at(mounted: OwnedFd) {
    unmount(name_of(&mounted), UnmountFlags::DETACH).ok();
    // It is in use while we have it open.
    drop(mounted);
}

/// Why a program was not started.
pub(super) fn not_started(root: &Location<'_>, program: &Program, error: &io::Error) -> Error {
    let name = String::from_utf8_lossy(program.words.first().map_or(&[], Vec::as_slice));
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let (kind, reason) = match errno {
        Some(Errno::NOENT) => (
            ErrorKind::NotFound,
            "there is no such program, or not what interprets it".to_owned(),
        ),
        Some(Errno::ACCESS | Errno::PERM) => (ErrorKind::Denied, "it may not be run".to_owned()),
        Some(Errno::NOEXEC) => (ErrorKind::Unsupported, foreign_script(root)),
        Some(Errno::TOOBIG) => (
            ErrorKind::Invalid,
            "its arguments and environment are too long".to_owned(),
        ),
        _ => (ErrorKind::Io, error.to_string()),
    };
    Error::new(kind, format!("{name}: {reason}"))
}

/// Whether the program that is meant is for another architecture. It is asked before it is started: the C
/// library takes what the kernel can't run for a script.
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
            let reason = format!("{name}: {}", foreign(machine));
            Err(Error::new(ErrorKind::Unsupported, reason))
        }
        _ => Ok(()),
    }
}

/// What the kernel here runs.
fn own_machine() -> Option<ElfMachine> {
    // A program of this kernel is this one.
    ElfMachine::of(&read_head(&fs::File::open("/proc/self/exe").ok()?.into())?)
}

/// Why the kernel can't run a program for this machine.
fn foreign(machine: ElfMachine) -> String {
    let name = |machine: ElfMachine| {
        let unknown = || format!("machine {}", machine.number());
        machine.name().map_or_else(unknown, str::to_owned)
    };
    let here = own_machine().map_or_else(|| "others".to_owned(), name);
    let there = name(machine);
    format!("it is for {there}, and the microVM's kernel runs what is for {here}")
}

/// The same of a script, by what the guest's shell is for.
fn foreign_script(root: &Location<'_>) -> String {
    let head = open(root).ok().and_then(|root| head_of(&root, b"/bin/sh"));
    let shell = head.as_ref().and_then(ElfMachine::of);
    shell.map_or_else(|| "it is no program that a kernel runs".to_owned(), foreign)
}

/// How a file of the guest begins.
fn head_of(root: &OwnedFd, path: &[u8]) -> Option<ElfHead> {
    if !path.starts_with(b"/") {
        return None;
    }
    // It may be a FIFO, which nobody writes to.
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
