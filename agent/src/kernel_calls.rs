//! System calls that rustix does not provide.
#![expect(unsafe_code, reason = "system calls")]

pub(crate) mod btrfs;
pub(crate) mod net;

use std::ffi::CStr;
use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{Gid, Mode, Uid};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, chdir, chroot, fchdir, ioctl_tiocsctty, setrlimit, setsid, umask,
};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

/// The maximum length of a handle: `MAX_HANDLE_SZ`.
const MAX_HANDLE_BYTES: usize = 128;

/// `struct file_handle`, with room for the longest handle.
#[repr(C)]
struct RawHandle {
    handle_bytes: u32,
    handle_type: i32,
    f_handle: [u8; MAX_HANDLE_BYTES],
}

/// A file handle, by which the kernel finds a file whatever its names are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle {
    kind: i32,
    bytes: Box<[u8]>,
}

impl Handle {
    /// Returns the handle of `name` in `dir`, or of `dir` itself if the name is empty. Symlinks are
    /// not followed.
    pub(crate) fn of(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Self> {
        let mut raw = RawHandle {
            handle_bytes: u32::try_from(MAX_HANDLE_BYTES).unwrap_or(0),
            handle_type: 0,
            f_handle: [0; MAX_HANDLE_BYTES],
        };
        let mut mount_id = 0;
        let flags = if name.is_empty() {
            libc::AT_EMPTY_PATH
        } else {
            0
        };
        // SAFETY: `raw` has the layout of `struct file_handle` with the room that it states, and
        // `name` ends with a NUL.
        let done = unsafe {
            libc::name_to_handle_at(
                dir.as_raw_fd(),
                name.as_ptr(),
                (&raw mut raw).cast(),
                &raw mut mount_id,
                flags,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        let len = usize::try_from(raw.handle_bytes).unwrap_or(MAX_HANDLE_BYTES);
        Ok(Self {
            kind: raw.handle_type,
            bytes: raw.f_handle.get(..len).unwrap_or_default().into(),
        })
    }

    /// Returns true if this may be the handle of an inode with this number. On all filesystems with
    /// persistent handles, the handle begins with the low bits of the number.
    pub(crate) fn may_be_of(&self, number: u64) -> bool {
        self.bytes.first_chunk::<4>() == number.to_le_bytes().first_chunk::<4>()
    }

    /// Returns the inode's generation if the handle has the format of most filesystems
    /// (`FILEID_INO32_GEN`), or that of XFS with 64-bit numbers; otherwise 0.
    pub(crate) fn generation(&self) -> u32 {
        let at = match (self.kind, self.bytes.len()) {
            (1, 8) => 4,
            (0x81, 12..) => 8,
            _ => return 0,
        };
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Opens the file, which must be on the filesystem of `mount`.
    pub(crate) fn open(&self, mount: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<OwnedFd> {
        let mut raw = RawHandle {
            handle_bytes: u32::try_from(self.bytes.len()).unwrap_or(0),
            handle_type: self.kind,
            f_handle: [0; MAX_HANDLE_BYTES],
        };
        for (to, from) in raw.f_handle.iter_mut().zip(&self.bytes) {
            *to = *from;
        }
        let flags = flags | libc::O_CLOEXEC;
        // SAFETY: as above.
        let fd =
            unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut raw).cast(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created the descriptor, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// Returns the number of an ioctl in the type of the C library: musl and glibc have different ones.
#[cfg(target_env = "musl")]
const fn ioctl(number: u32) -> libc::Ioctl {
    number.cast_signed()
}
#[cfg(not(target_env = "musl"))]
fn ioctl(number: u32) -> libc::Ioctl {
    number.into()
}

/// Makes the kernel reseed its random generator from all its entropy: `RNDRESEEDCRNG`, `_IO('R',
/// 7)`.
pub(crate) fn reseed() -> io::Result<()> {
    const RNDRESEEDCRNG: u32 = 0x5207;
    let device = std::fs::File::open("/dev/urandom")?;
    // SAFETY: the call accesses no memory of this process.
    match unsafe { libc::ioctl(device.as_raw_fd(), ioctl(RNDRESEEDCRNG)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives the calling thread a umask of its own.
pub(crate) fn unshare_umask() -> io::Result<()> {
    // SAFETY: the call accesses no memory; only the thread's umask and working directory become its
    // own.
    match unsafe { libc::unshare(libc::CLONE_FS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the owner and group of files that the calling thread creates.
pub(crate) fn set_file_ids(uid: u32, gid: u32) {
    // SAFETY: the calls access no memory. They affect only this thread, and never fail.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
}

/// The properties that a new process sets before it executes its program.
#[derive(Debug)]
pub(crate) struct ProcessSetup {
    /// The root directory.
    pub(crate) root: OwnedFd,
    /// The working directory within the root.
    pub(crate) directory: PathBuf,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    /// True if the standard input is a terminal, which the process then controls.
    pub(crate) has_terminal: bool,
}

/// The limit of open files for a program, as distributions set it for a session.
const PROGRAM_FILES: Rlimit = Rlimit {
    current: Some(1024),
    maximum: Some(1 << 19),
};

/// Makes the process of `command` set these properties before it executes its program, and become
/// the leader of a session.
pub(crate) fn set_up_before_exec(command: &mut Command, setup: ProcessSetup) {
    let groups: Vec<_> = setup.groups.iter().map(|&id| Gid::from_raw(id)).collect();
    let directory = std::ffi::CString::new(setup.directory.as_os_str().as_bytes());
    let directory = directory.unwrap_or_default(); // The path contains no NUL.
    let (root, uid, gid) = (setup.root, setup.uid, setup.gid);
    let has_terminal = setup.has_terminal;
    let run = move || -> io::Result<()> {
        setsid()?;
        if has_terminal {
            ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        setrlimit(Resource::Nofile, PROGRAM_FILES)?;
        umask(Mode::from_raw_mode(0o022));
        fchdir(&root)?;
        chroot(c".")?;
        chdir(directory.as_c_str())?;
        set_thread_groups(&groups)?;
        set_thread_gid(Gid::from_raw(gid))?;
        set_thread_uid(Uid::from_raw(uid))?;
        Ok(())
    };
    // SAFETY: between fork and exec of a multi-threaded process, only async-signal-safe operations
    // are allowed: another thread may have held the allocator's lock. `run` was given all that it
    // needs, and makes only system calls.
    unsafe {
        command.pre_exec(run);
    }
}

/// Waits for a child that has ended, and returns it without reaping it.
pub(crate) fn ended_child() -> io::Result<Pid> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: the call writes a `siginfo_t`, for which there is room.
    if unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroes are a valid value, and `waitid` has returned a child, which has a process id.
    let pid = unsafe { info.assume_init().si_pid() };
    Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Kills every process except this one, which must be PID 1.
pub(crate) fn kill_all() {
    if rustix::process::getpid().is_init() {
        // SAFETY: the call accesses no memory.
        unsafe {
            libc::kill(-1, libc::SIGKILL);
        }
    }
}

/// Returns the signal with this number.
pub(crate) fn signal(number: i32) -> Option<Signal> {
    if !diskfs_remote::protocol::is_signal(number) {
        return None;
    }
    // SAFETY: the signal is only sent. The numbers between the named and the real-time signals,
    // which the C library reserves, have no effect in this process, because it installs no handler.
    Some(unsafe { Signal::from_raw_unchecked(number) })
}

/// The number of extents per request.
pub(crate) const MAP_EXTENTS: usize = 128;

/// An extent in the kernel's format: `struct fiemap_extent`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MapExtent {
    pub(crate) logical: u64,
    pub(crate) physical: u64,
    pub(crate) length: u64,
    reserved64: [u64; 2],
    pub(crate) flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap`, with room for some extents.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [MapExtent; MAP_EXTENTS],
}

/// Returns the extents of a file from `start` on, as many as fit. Delayed allocations are written
/// first.
pub(crate) fn map_extents(fd: BorrowedFd<'_>, start: u64) -> io::Result<Vec<MapExtent>> {
    /// The request `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`, whose size does not include
    /// the extents.
    const FS_IOC_FIEMAP: u32 = 0xc020_660b;
    const FIEMAP_FLAG_SYNC: u32 = 1;
    const { assert!(offset_of!(Map, extents) == 32 && size_of::<MapExtent>() == 56) };
    let mut map = Map {
        start,
        length: u64::MAX.wrapping_sub(start),
        flags: FIEMAP_FLAG_SYNC,
        mapped_extents: 0,
        extent_count: u32::try_from(MAP_EXTENTS).unwrap_or(0),
        reserved: 0,
        extents: [MapExtent::default(); MAP_EXTENTS],
    };
    // SAFETY: `map` has the layout of `struct fiemap` with room for as many extents as it states.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), ioctl(FS_IOC_FIEMAP), &raw mut map) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let count = usize::try_from(map.mapped_extents).unwrap_or(0);
    Ok(map.extents.get(..count).unwrap_or_default().to_vec())
}
