//! Changes of a file's metadata.

use diskfs_vfs::{
    ErrorKind, FileFlags, FileType, InodeNumber, Metadata, Result, SetMetadata, SetTime,
};
use rustix::fs::{
    AtFlags, CWD, Gid, IFlags, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
    chmodat, chownat, ioctl_getflags, ioctl_setflags, utimensat,
};

use super::errors::failed;
use super::inodes::Inodes;
use super::node::Node;

/// The bits set-user-id and set-group-id, which the kernel drops when the owner changes.
const SET_IDS: u16 = 0o6000;

/// Applies the changes. The inode's change time can't be set: it becomes the current time.
pub(super) fn set(
    inodes: &Inodes,
    node: &Node,
    inode: InodeNumber,
    change: &SetMetadata,
) -> Result<()> {
    let before = inodes.metadata(node, inode)?;
    let flags = change.flags.filter(|flags| *flags != before.flags);
    // An immutable file can't be changed: set such flags last, and clear them first.
    let fixes = flags.is_some_and(|flags| flags.immutable || flags.append_only);
    if let Some(flags) = flags.filter(|_| !fixes) {
        set_flags(inodes, node, &before, flags)?;
    }
    set_owner(node, &before, change)?;
    if let Some(permissions) = change.permissions {
        set_permissions(node, &before, permissions)?;
    }
    set_times(node, change)?;
    match flags.filter(|_| fixes) {
        Some(flags) => set_flags(inodes, node, &before, flags),
        None => Ok(()),
    }
}

fn set_owner(node: &Node, before: &Metadata, change: &SetMetadata) -> Result<()> {
    if change.uid.is_none() && change.gid.is_none() {
        return Ok(());
    }
    // In system calls, the largest number means "unchanged".
    if [change.uid, change.gid].contains(&Some(u32::MAX)) {
        return Err(ErrorKind::Invalid.into());
    }
    let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
    chownat(node.fd(), c"", uid, gid, AtFlags::EMPTY_PATH).map_err(failed)?;
    let keeps = matches!(before.file_type, FileType::Directory | FileType::Symlink);
    if before.permissions & SET_IDS != 0 && !keeps && change.permissions.is_none() {
        set_permissions(node, before, before.permissions)?;
    }
    Ok(())
}

fn set_permissions(node: &Node, before: &Metadata, permissions: u16) -> Result<()> {
    if before.file_type == FileType::Symlink {
        return Err(ErrorKind::Unsupported.into());
    }
    let mode = Mode::from_bits_retain((permissions & 0o7777).into());
    chmodat(CWD, node.path(), mode, AtFlags::empty()).map_err(failed)
}

fn set_times(node: &Node, change: &SetMetadata) -> Result<()> {
    let now = change.changed.is_some();
    if change.accessed.is_none() && change.modified.is_none() && !now {
        return Ok(());
    }
    let times = Timestamps {
        last_access: time(change.accessed),
        last_modification: time(change.modified),
    };
    utimensat(node.fd(), c"", &times, AtFlags::EMPTY_PATH).map_err(failed)
}

fn time(time: Option<SetTime>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(UTIME_OMIT),
        Some(SetTime::Now) => special(UTIME_NOW),
        Some(SetTime::At(time)) => Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds.into(),
        },
    }
}

fn set_flags(inodes: &Inodes, node: &Node, before: &Metadata, flags: FileFlags) -> Result<()> {
    let settable = FileFlags {
        immutable: flags.immutable,
        append_only: flags.append_only,
        no_dump: flags.no_dump,
        ..before.flags
    };
    let can_have = matches!(before.file_type, FileType::Regular | FileType::Directory);
    if settable != flags || !can_have {
        return Err(ErrorKind::Unsupported.into());
    }
    let fd = node.reopen(OFlags::RDONLY).map_err(failed)?;
    let mut bits = ioctl_getflags(&fd).map_err(failed)?;
    bits.set(IFlags::IMMUTABLE, flags.immutable);
    bits.set(IFlags::APPEND, flags.append_only);
    bits.set(IFlags::NODUMP, flags.no_dump);
    ioctl_setflags(&fd, bits).map_err(failed)?;
    inodes.close(node, before.inode)
}
