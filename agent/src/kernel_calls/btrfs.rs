//! The ioctls of btrfs (`include/uapi/linux/btrfs.h`, `btrfs_tree.h`).

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::ioctl;

/// The key of an item in a tree: `struct btrfs_key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) objectid: u64,
    pub(crate) kind: u32,
    pub(crate) offset: u64,
}

/// The size of the buffer for the items that are found.
const FOUND_BYTES: usize = 3992;

/// The arguments of a tree search: `struct btrfs_ioctl_search_args`.
#[repr(C)]
struct SearchArgs {
    tree_id: u64,
    objectid: [u64; 2],
    offset: [u64; 2],
    transid: [u64; 2],
    kind: [u32; 2],
    nr_items: u32,
    unused: u32,
    reserved: [u64; 4],
    found: [u8; FOUND_BYTES],
}

/// Returns the first item with this object id and type in the root tree: its key and its data.
pub(crate) fn search_root_tree(
    fd: BorrowedFd<'_>,
    objectid: u64,
    kind: u32,
) -> io::Result<Option<(Key, Vec<u8>)>> {
    /// The request `BTRFS_IOC_TREE_SEARCH`: `_IOWR(0x94, 17, struct btrfs_ioctl_search_args)`.
    const TREE_SEARCH: u32 = 0xd000_9411;
    /// The id of the root tree, `BTRFS_ROOT_TREE_OBJECTID`.
    const ROOT_TREE: u64 = 1;
    const { assert!(size_of::<SearchArgs>() == 4096) };
    let mut args = SearchArgs {
        tree_id: ROOT_TREE,
        objectid: [objectid; 2],
        offset: [0, u64::MAX],
        transid: [0, u64::MAX],
        kind: [kind; 2],
        nr_items: 1,
        unused: 0,
        reserved: [0; 4],
        found: [0; FOUND_BYTES],
    };
    // SAFETY: `args` has the layout and the size of the request.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), ioctl(TREE_SEARCH), &raw mut args) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    if args.nr_items == 0 {
        return Ok(None);
    }
    Ok(first_item(&args.found))
}

/// Returns the first of the items that were found: `struct btrfs_ioctl_search_header` and its data.
fn first_item(found: &[u8]) -> Option<(Key, Vec<u8>)> {
    let (header, rest) = found.split_first_chunk::<32>()?;
    let [_, _, _, _, _, _, _, _, key @ ..] = *header;
    let (objectid, key) = key.split_first_chunk()?;
    let (offset, key) = key.split_first_chunk()?;
    let (kind, len) = key.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*len.first_chunk()?)).ok()?;
    let key = Key {
        objectid: u64::from_le_bytes(*objectid),
        kind: u32::from_le_bytes(*kind),
        offset: u64::from_le_bytes(*offset),
    };
    Some((key, rest.get(..len)?.to_vec()))
}

/// The size of the buffer for a path.
const PATH_BYTES: usize = 4080;

/// The arguments of a path look-up: `struct btrfs_ioctl_ino_lookup_args`.
#[repr(C)]
struct LookupArgs {
    tree_id: u64,
    objectid: u64,
    path: [u8; PATH_BYTES],
}

/// Returns the path of a directory below its subvolume's root, with a slash at the end; empty for
/// the root itself.
pub(crate) fn path_in_subvolume(
    fd: BorrowedFd<'_>,
    tree_id: u64,
    objectid: u64,
) -> io::Result<Vec<u8>> {
    /// The request `BTRFS_IOC_INO_LOOKUP`: `_IOWR(0x94, 18, struct btrfs_ioctl_ino_lookup_args)`.
    const INO_LOOKUP: u32 = 0xd000_9412;
    const { assert!(size_of::<LookupArgs>() == 4096) };
    let mut args = LookupArgs {
        tree_id,
        objectid,
        path: [0; PATH_BYTES],
    };
    // SAFETY: as above.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), ioctl(INO_LOOKUP), &raw mut args) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let path = args.path.split(|&byte| byte == 0).next();
    Ok(path.unwrap_or_default().to_vec())
}

/// The device that takes the requests about all filesystems.
const CONTROL: &str = "/dev/btrfs-control";

/// The size of the buffer for a device's name.
const NAME_BYTES: usize = 4088;

/// The arguments of requests about devices: `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct VolumeArgs {
    fd: i64,
    name: [u8; NAME_BYTES],
}

/// Makes the kernel forget a device of a filesystem that is not mounted.
pub(crate) fn forget_device(device: &Path) -> io::Result<()> {
    /// The request `BTRFS_IOC_FORGET_DEV`: `_IOW(0x94, 5, struct btrfs_ioctl_vol_args)`.
    const FORGET_DEV: u32 = 0x5000_9405;
    const { assert!(size_of::<VolumeArgs>() == 4096) };
    let mut args = VolumeArgs {
        fd: 0,
        name: [0; NAME_BYTES],
    };
    let device = device.as_os_str().as_bytes();
    let name = args.name.get_mut(..device.len());
    let name = name.filter(|_| device.len() < NAME_BYTES);
    name.ok_or(io::ErrorKind::InvalidInput)?
        .copy_from_slice(device);
    let control = File::open(CONTROL)?;
    // SAFETY: `args` has the layout and the size of the request, and its name ends with a NUL.
    let done = unsafe { libc::ioctl(control.as_raw_fd(), ioctl(FORGET_DEV), &raw const args) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
