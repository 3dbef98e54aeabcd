//! The owner, permissions, times and extended attributes of a copy.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::host::{failed, path_of};
use super::{Preserve, Summary, count};
use crate::{FileType, FsRead, Metadata, Result, Timestamp};

/// Read, write and execute permission for everyone.
pub(super) const RWX: u16 = 0o777;

/// The permission bits without set-user-ID and set-group-ID. Those would lend the calling user's
/// rights to a file whose owner could not be set.
const WITHOUT_SET_ID: u16 = 0o1777;

/// Gives the file `fd` the attributes that `preserve` selects. `fd` may be opened with `O_PATH`.
///
/// The order matters: a change of owner clears set-user-ID and capabilities, a change of mode
/// changes the ACL, and every change updates the times.
pub(super) fn apply(
    fs: &dyn FsRead,
    metadata: &Metadata,
    fd: BorrowedFd<'_>,
    preserve: Preserve,
    summary: &mut Summary,
) -> Result<()> {
    let mut permissions = metadata.permissions;
    if preserve.owner && !set_owner(metadata, fd)? {
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

/// Sets the owner. Returns false if the host does not permit it.
fn set_owner(metadata: &Metadata, fd: BorrowedFd<'_>) -> Result<bool> {
    // In chown(2) the highest ID means "unchanged", and no user has it.
    let uid = (metadata.uid != u32::MAX).then(|| Uid::from_raw(metadata.uid));
    let gid = (metadata.gid != u32::MAX).then(|| Gid::from_raw(metadata.gid));
    match rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH) {
        Ok(()) => Ok(true),
        // The process lacks the rights, or the user namespace does not map the ID.
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
