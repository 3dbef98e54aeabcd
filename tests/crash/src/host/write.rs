//! Write operations.

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use diskfs_vfs::{
    Device, Fallocate, FileType, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode,
    Result, SetMetadata, SetTime, SetXattr, SyncFile,
};
use rustix::fs::{
    AtFlags, FallocateFlags, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid, XattrFlags,
};

use super::{Host, LARGEST_INODE_BYTES, PAGE_BYTES, error, io_error};

impl FsWrite for Host {
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        let parent = self.file(dir)?;
        let parent = &*parent;
        // With a default ACL, the kernel ignores the umask; without one, it is applied here.
        let has_default = self.xattr(dir, b"system.posix_acl_default")?.is_some();
        let masked = attributes.permissions & !attributes.umask;
        let mode = if has_default {
            attributes.permissions
        } else {
            masked
        };
        let mode = Mode::from_raw_mode(mode.into());
        let node = |file_type, device: Device| {
            let number = rustix::fs::makedev(device.major, device.minor);
            rustix::fs::mknodat(parent, name, file_type, mode, number)
        };
        let none = Device::default();
        match kind {
            NewKind::Regular => node(rustix::fs::FileType::RegularFile, none),
            NewKind::Directory => rustix::fs::mkdirat(parent, name, mode),
            NewKind::Symlink(target) => rustix::fs::symlinkat(target, parent, name),
            NewKind::CharacterDevice(device) => node(rustix::fs::FileType::CharacterDevice, device),
            NewKind::BlockDevice(device) => node(rustix::fs::FileType::BlockDevice, device),
            NewKind::Fifo => node(rustix::fs::FileType::Fifo, none),
            NewKind::Socket => node(rustix::fs::FileType::Socket, none),
        }
        .map_err(error)?;
        let inode = self.lookup(dir, name)?;
        self.set_new_owner(dir, inode, attributes)?;
        if kind == NewKind::Directory {
            // mkdir(2) drops these bits before it calls the filesystem.
            let special = attributes.permissions & 0o6000;
            let permissions = self.metadata(inode)?.permissions;
            let change = SetMetadata {
                permissions: (permissions & special != special).then_some(permissions | special),
                ..SetMetadata::default()
            };
            self.set_metadata(inode, &change)?;
        }
        Ok(inode)
    }

    fn create_unnamed(&self, dir: InodeNumber, attributes: &NewAttributes) -> Result<InodeNumber> {
        let has_default = self.xattr(dir, b"system.posix_acl_default")?.is_some();
        let masked = attributes.permissions & !attributes.umask;
        let mode = if has_default {
            attributes.permissions
        } else {
            masked
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode.into());
        let file = rustix::fs::open(self.path(dir)?, flags, mode).map_err(error)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let kept =
            rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(error)?;
        let inode = self.meet(kept)?;
        self.hold(inode);
        self.set_new_owner(dir, inode, attributes)?;
        Ok(inode)
    }

    fn link(&self, inode: InodeNumber, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let (path, dir) = (self.path(inode)?, self.file(dir)?);
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(rustix::fs::CWD, path, &*dir, name, flags).map_err(error)
    }

    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let victim = self.victim(dir, name);
        rustix::fs::unlinkat(&*self.file(dir)?, name, AtFlags::empty()).map_err(error)?;
        victim.map_or(Ok(()), |inode| self.forget_if_gone(inode))
    }

    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let victim = self.victim(dir, name);
        rustix::fs::unlinkat(&*self.file(dir)?, name, AtFlags::REMOVEDIR).map_err(error)?;
        victim.map_or(Ok(()), |inode| self.forget_if_gone(inode))
    }

    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let victim = self.victim(to_dir, to_name);
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
            RenameMode::Whiteout => RenameFlags::WHITEOUT,
            RenameMode::NoReplaceWhiteout => RenameFlags::WHITEOUT | RenameFlags::NOREPLACE,
        };
        let (from, to) = (self.file(dir)?, self.file(to_dir)?);
        rustix::fs::renameat_with(&*from, name, &*to, to_name, flags).map_err(error)?;
        victim.map_or(Ok(()), |inode| self.forget_if_gone(inode))
    }

    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize> {
        let file = self.writable(inode)?;
        let may_be_inline = self.metadata(inode)?.size_bytes < LARGEST_INODE_BYTES;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            // Linux 6.18 loses bytes in other pages when a write makes contents too large for the
            // inode. So the first piece ends at a page boundary and, if blocks are smaller than
            // pages, it must be on the disk before the next one.
            let page = usize::try_from(PAGE_BYTES - at % PAGE_BYTES).unwrap_or(1);
            let end = if done == 0 {
                page.min(data.len())
            } else {
                data.len()
            };
            match file.write_at(&data[done..end], at) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(_) if done > 0 => break,
                Err(error) => return Err(io_error(&error)),
            }
            if may_be_inline {
                file.sync_data().map_err(|error| io_error(&error))?;
            }
        }
        Ok(done)
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        self.writable(inode)?
            .set_len(size_bytes)
            .map_err(|e| io_error(&e))
    }

    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        let keep = FallocateFlags::KEEP_SIZE;
        let flags = match what {
            Fallocate::Allocate => FallocateFlags::empty(),
            Fallocate::AllocateKeepSize => keep,
            Fallocate::PunchHole => keep | FallocateFlags::PUNCH_HOLE,
            Fallocate::ZeroRange => FallocateFlags::ZERO_RANGE,
            Fallocate::ZeroRangeKeepSize => keep | FallocateFlags::ZERO_RANGE,
            Fallocate::CollapseRange => FallocateFlags::COLLAPSE_RANGE,
            Fallocate::InsertRange => FallocateFlags::INSERT_RANGE,
        };
        let file = self.writable(inode)?;
        rustix::fs::fallocate(&file, flags, offset, len_bytes).map_err(error)
    }

    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        let path = self.path(inode)?;
        let before = self.metadata(inode)?;
        let mut permissions = change.permissions;
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            let cwd = rustix::fs::CWD;
            rustix::fs::chownat(cwd, &path, uid, gid, AtFlags::empty()).map_err(error)?;
            // The operation may have cleared bits that are the caller's responsibility here.
            let lost = self.metadata(inode)?.permissions != before.permissions;
            permissions = permissions.or(lost.then_some(before.permissions));
        }
        if let Some(permissions) = permissions {
            let mode = Mode::from_raw_mode(permissions.into());
            rustix::fs::chmod(&path, mode).map_err(error)?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(change.accessed),
                last_modification: timespec(change.modified),
            };
            let cwd = rustix::fs::CWD;
            rustix::fs::utimensat(cwd, &path, &times, AtFlags::empty()).map_err(error)?;
        }
        change
            .flags
            .map_or(Ok(()), |flags| self.set_flags(inode, flags))
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        let flags = match how {
            SetXattr::Any => XattrFlags::empty(),
            SetXattr::Create => XattrFlags::CREATE,
            SetXattr::Replace => XattrFlags::REPLACE,
        };
        rustix::fs::setxattr(self.path(inode)?, name, value, flags).map_err(error)
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        rustix::fs::removexattr(self.path(inode)?, name).map_err(error)
    }

    fn hold(&self, inode: InodeNumber) {
        if let Some(known) = self.files().get_mut(&inode) {
            known.holds += 1;
        }
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        if let Some(known) = self.files().get_mut(&inode) {
            known.holds = known.holds.saturating_sub(1);
        }
        self.forget_if_gone(inode)
    }

    fn sync_file(&self, inode: InodeNumber, what: SyncFile) -> Result<()> {
        let kind = self.metadata(inode)?.file_type;
        if !matches!(kind, FileType::Regular | FileType::Directory) {
            // A file that cannot be opened cannot be synced alone.
            return self.sync();
        }
        let file = self.open_as(inode, OFlags::RDONLY)?;
        match what {
            SyncFile::Data => rustix::fs::fdatasync(&file),
            SyncFile::All => rustix::fs::fsync(&file),
        }
        .map_err(error)
    }

    fn sync(&self) -> Result<()> {
        let root = self.open_as(self.root, OFlags::RDONLY)?;
        rustix::fs::syncfs(&root).map_err(error)
    }

    fn close(&self) -> Result<()> {
        self.sync()?;
        self.files().clear();
        Ok(())
    }
}

fn timespec(time: Option<SetTime>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(rustix::fs::UTIME_OMIT),
        Some(SetTime::Now) => special(rustix::fs::UTIME_NOW),
        Some(SetTime::At(time)) => Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds.into(),
        },
    }
}
