//! System calls that rustix has no functions for.
#![expect(unsafe_code, reason = "system calls")]

use std::ffi::CStr;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The longest handle there is: `MAX_HANDLE_SZ`.
const MAX_HANDLE_BYTES: usize = 128;

/// `struct file_handle`, with room for the longest.
#[repr(C)]
struct RawHandle {
    handle_bytes: u32,
    handle_type: i32,
    f_handle: [u8; MAX_HANDLE_BYTES],
}

/// What the kernel finds a file by, whatever names it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle {
    kind: i32,
    bytes: Box<[u8]>,
}

impl Handle {
    /// The handle of what `name` names below `dir`; of `dir` itself when it is empty. No symlink is
    /// followed.
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
        // SAFETY: `raw` has the layout of `struct file_handle` with room for as much as it says, and
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

    /// Whether it can be that of an inode with this number. The handles of all filesystems that can
    /// be opened by handle for good begin with its low bits.
    pub(crate) fn may_be_of(&self, number: u64) -> bool {
        self.bytes.first_chunk::<4>() == number.to_le_bytes().first_chunk::<4>()
    }

    /// The inode's generation, where the handle has the form that most filesystems give it
    /// (`FILEID_INO32_GEN`), or XFS with 64-bit numbers.
    pub(crate) fn generation(&self) -> u32 {
        let at = match (self.kind, self.bytes.len()) {
            (1, 8) => 4,
            (0x81, 12..) => 8,
            _ => return 0,
        };
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Opens the file, on the filesystem that `mount` is on.
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
        // SAFETY: the kernel just made it, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// Gives the calling thread an umask of its own.
pub(crate) fn unshare_umask() -> io::Result<()> {
    // SAFETY: it touches no memory; only the thread's umask and directories become its own.
    match unsafe { libc::unshare(libc::CLONE_FS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets who the calling thread's new files belong to.
pub(crate) fn set_file_ids(uid: u32, gid: u32) {
    // SAFETY: they touch no memory. Both are of the thread alone, and have no error to tell.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
}

/// Children that nobody waits for leave nothing behind.
pub(crate) fn reap_orphans() {
    // SAFETY: no handler is installed.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
}

/// How many extents are asked for at once.
pub(crate) const MAP_EXTENTS: usize = 128;

/// `struct fiemap_extent`.
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

/// The extents of a file from `start` on, as many as there is room for. What is not yet where it
/// belongs is written first.
pub(crate) fn map_extents(fd: BorrowedFd<'_>, start: u64) -> io::Result<Vec<MapExtent>> {
    /// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`, of which the extents are no part.
    const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;
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
    // SAFETY: `map` has the layout of `struct fiemap` with room for as many extents as it says.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let count = usize::try_from(map.mapped_extents).unwrap_or(0);
    Ok(map.extents.get(..count).unwrap_or_default().to_vec())
}
