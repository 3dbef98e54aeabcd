//! Owner, permissions, times and extended attributes of a copy.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::host::{failed, path_of};
use super::{Preserve, Summary, count};
use crate::{FileType, FsRead, Metadata, Result, Timestamp};

/// Read, write and execute for all.
pub(super) const RWX: u16 = 0o777;

/// Permissions without set-user-id and set-group-id, which would lend our own rights to a file
/// that could not be given to its owner.
const WITHOUT_SET_ID: u16 = 0o1777;

/// Gives the file behind `fd` what `preserve` asks for. `fd` may be opened with `O_PATH`.
///
/// The order counts: giving a file away clears set-user-id and capabilities, changing its mode
/// changes its ACL, and everything changes its times.
pub(super) fn apply(
    fs: &dyn FsRead,
    metadata: &Metadata,
    fd: BorrowedFd<'_>,
    preserve: Preserve,
    summary: &mut Summary,
) -> Result<()> {
    let mut permissions = metadata.permissions;
    if preserve.owner && !give_away(metadata, fd)? {
        count(&mut summary.owners_ignored);
        permissions &= WITHOUT_SET_ID;
    }
    // Symlinks have no permissions.
    if preserve.mode && metadata.file_type != FileType::Symlink {
        let mode = Mode::from_raw_mode(permissions.into());
        rustix::fs::chmod(path_of(fd), mode).map_err(|e| failed("setting permissions", e))?;
    }
    if preserve.xattrs {
        set_xattrs(fs, metadata, fd, summary)?;
    }
    if preserve.times {
        set_times(metadata, fd)?;
    }
    Ok(())
}

/// Sets the owner. Returns whether we may.
fn give_away(metadata: &Metadata, fd: BorrowedFd<'_>) -> Result<bool> {
    // The highest id stands for "leave it" in chown(2), and is nobody's.
    let uid = (metadata.uid != u32::MAX).then(|| Uid::from_raw(metadata.uid));
    let gid = (metadata.gid != u32::MAX).then(|| Gid::from_raw(metadata.gid));
    match rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH) {
        Ok(()) => Ok(true),
        // Without the rights, or with an id that a user namespace has no place for.
        Err(Errno::PERM | Errno::INVAL) => Ok(false),
        Err(errno) => Err(failed("setting the owner", errno)),
    }
}

fn set_xattrs(
    fs: &dyn FsRead,
    metadata: &Metadata,
    fd: BorrowedFd<'_>,
    summary: &mut Summary,
) -> Result<()> {
    for name in fs.list_xattrs(metadata.inode)? {
        let Some(value) = fs.xattr(metadata.inode, &name)? else {
            continue;
        };
        let name = OsStr::from_bytes(&name);
        match rustix::fs::setxattr(path_of(fd), name, &value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(
                Errno::PERM
                | Errno::ACCESS
                | Errno::OPNOTSUPP
                | Errno::INVAL
                | Errno::RANGE
                | Errno::TOOBIG
                | Errno::NOSPC,
            ) => count(&mut summary.xattrs_ignored),
            Err(errno) => return Err(failed("setting an extended attribute", errno)),
        }
    }
    Ok(())
}

fn set_times(metadata: &Metadata, fd: BorrowedFd<'_>) -> Result<()> {
    let timespec = |time: Timestamp| Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds.into(),
    };
    let times = Timestamps {
        last_access: timespec(metadata.accessed),
        last_modification: timespec(metadata.modified),
    };
    rustix::fs::utimensat(fd, "", &times, AtFlags::EMPTY_PATH)
        .map_err(|errno| failed("setting times", errno))
}
