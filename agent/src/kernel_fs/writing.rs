//! The implementation of `FsWrite`.

use diskfs_remote::server::Served as _;
use diskfs_vfs::{
    Device, ErrorKind, Fallocate, FileType, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind,
    RenameMode, Result, SetMetadata, SetXattr, SyncFile,
};
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, XattrFlags, chmodat, fallocate, fdatasync,
    fsync, ftruncate, linkat, makedev, mkdirat, mknodat, openat, removexattr, renameat_with,
    setxattr, symlinkat, syncfs, unlinkat,
};
use rustix::io::{Errno, pwrite};

use super::KernelFs;
use super::creator::become_creator;
use super::errors::failed;
use super::inodes::stat_at;
use super::node::Node;
use super::reading::c_name;

/// The mode bits that mkdir(2) accepts.
const MKDIR_BITS: u16 = 0o1777;

impl FsWrite for KernelFs {
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        self.create_with_metadata(dir, name, kind, attributes)
            .map(|metadata| metadata.inode)
    }

    fn create_unnamed(&self, dir: InodeNumber, attributes: &NewAttributes) -> Result<InodeNumber> {
        let open = self.open();
        let inodes = open.inodes()?;
        let node = open.node(dir)?;
        become_creator(attributes)?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_bits_retain(attributes.permissions.into());
        let fd = openat(node.fd(), c".", flags, mode).map_err(|errno| match errno {
            // A filesystem without O_TMPFILE returns the error of opening a directory for writing.
            Errno::ISDIR => ErrorKind::Unsupported.into(),
            errno => failed(errno),
        })?;
        let metadata = inodes.register_new(Node::of_open_file(fd))?;
        inodes.hold(metadata.inode, open.node(metadata.inode)?);
        inodes.lost_a_name(&open.node(metadata.inode)?.statx()?);
        Ok(metadata.inode)
    }

    fn link(&self, inode: InodeNumber, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let open = self.open();
        let (file, dir) = (open.node(inode)?, open.node(dir)?);
        linkat(file.fd(), c"", dir.fd(), c_name(name)?, AtFlags::EMPTY_PATH).map_err(failed)?;
        open.inodes()?.got_a_name(inode);
        Ok(())
    }

    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.remove(dir, name, AtFlags::empty())
    }

    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.remove(dir, name, AtFlags::REMOVEDIR)
    }

    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let open = self.open();
        let (from, to) = (open.node(dir)?, open.node(to_dir)?);
        let (name, to_name) = (c_name(name)?, c_name(to_name)?);
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
            RenameMode::Whiteout => RenameFlags::WHITEOUT,
            RenameMode::NoReplaceWhiteout => RenameFlags::WHITEOUT | RenameFlags::NOREPLACE,
        };
        if flags.contains(RenameFlags::WHITEOUT) {
            // A whiteout always belongs to root.
            become_creator(&NewAttributes::for_root(0))?;
        }
        let before = match mode {
            RenameMode::Replace | RenameMode::Whiteout => stat_at(&to, &to_name).ok(),
            _ => None,
        };
        renameat_with(from.fd(), &name, to.fd(), &to_name, flags).map_err(failed)?;
        let Some(before) = before else { return Ok(()) };
        // Both are names of the same file: rename did nothing.
        let same = |now: rustix::fs::Statx| {
            (now.stx_ino, now.stx_dev_major, now.stx_dev_minor)
                == (before.stx_ino, before.stx_dev_major, before.stx_dev_minor)
        };
        if !stat_at(&to, &to_name).is_ok_and(same) {
            open.inodes()?.lost_a_name(&before);
        }
        Ok(())
    }

    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize> {
        let open = self.open();
        let node = open.node(inode)?;
        let appending;
        let fd = match node.try_writer()? {
            Ok(fd) => fd,
            // The file may be append-only.
            Err(Errno::PERM) if node.statx()?.stx_size == offset => {
                let flags = OFlags::WRONLY | OFlags::APPEND;
                appending = node.reopen(flags).map_err(failed)?;
                std::os::fd::AsFd::as_fd(&appending)
            }
            Err(errno) => return Err(failed(errno)),
        };
        let mut written = 0_usize;
        while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
            if i64::try_from(at).is_err() {
                return if written > 0 {
                    Ok(written)
                } else {
                    Err(ErrorKind::FileTooLarge.into())
                };
            }
            match pwrite(fd, rest, at) {
                Ok(0) => break,
                Ok(len) => written = written.saturating_add(len),
                Err(Errno::INTR) => {}
                // Report what was written before the error; the next write meets the error again.
                Err(_) if written > 0 => break,
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(written)
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        let open = self.open();
        let node = open.node(inode)?;
        if i64::try_from(size_bytes).is_err() {
            return Err(ErrorKind::FileTooLarge.into());
        }
        ftruncate(node.writer()?, size_bytes).map_err(failed)
    }

    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        let open = self.open();
        let node = open.node(inode)?;
        let keep = FallocateFlags::KEEP_SIZE;
        let flags = match what {
            Fallocate::Allocate => FallocateFlags::empty(),
            Fallocate::AllocateKeepSize => keep,
            Fallocate::PunchHole => FallocateFlags::PUNCH_HOLE | keep,
            Fallocate::ZeroRange => FallocateFlags::ZERO_RANGE,
            Fallocate::ZeroRangeKeepSize => FallocateFlags::ZERO_RANGE | keep,
            Fallocate::CollapseRange => FallocateFlags::COLLAPSE_RANGE,
            Fallocate::InsertRange => FallocateFlags::INSERT_RANGE,
        };
        let fd = match node.try_writer()? {
            Err(Errno::PERM) if node.statx()?.stx_size <= offset => {
                return Err(ErrorKind::Unsupported.into());
            }
            fd => fd.map_err(failed)?,
        };
        fallocate(fd, flags, offset, len_bytes).map_err(failed)
    }

    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        let open = self.open();
        let node = open.node(inode)?;
        super::setting::set(open.inodes()?, &node, inode, change)
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        let open = self.open();
        let node = open.node(inode)?;
        let flags = match how {
            SetXattr::Any => XattrFlags::empty(),
            SetXattr::Create => XattrFlags::CREATE,
            SetXattr::Replace => XattrFlags::REPLACE,
        };
        setxattr(node.path(), name, value, flags).map_err(failed)
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        let open = self.open();
        let node = open.node(inode)?;
        removexattr(node.path(), name).map_err(failed)
    }

    fn hold(&self, inode: InodeNumber) {
        let open = self.open();
        if let (Ok(inodes), Ok(node)) = (open.inodes(), open.node(inode)) {
            inodes.hold(inode, node);
        }
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        self.open().inodes()?.release(inode);
        Ok(())
    }

    fn sync_file(&self, inode: InodeNumber, what: SyncFile) -> Result<()> {
        let open = self.open();
        let node = open.node(inode)?;
        // On the other filesystems, fsync makes the file durable, but not its name.
        let is_enough = matches!(self.kind.as_str(), "ext4" | "xfs" | "btrfs" | "f2fs");
        match node.file_type()? {
            FileType::Regular if is_enough && what == SyncFile::Data => {
                fdatasync(node.reader()?).map_err(failed)
            }
            FileType::Regular if is_enough => fsync(node.reader()?).map_err(failed),
            FileType::Directory if is_enough => {
                fsync(node.reopen(OFlags::RDONLY).map_err(failed)?).map_err(failed)
            }
            // These files can't be opened.
            _ => syncfs(open.mount()?).map_err(failed),
        }
    }

    fn sync(&self) -> Result<()> {
        syncfs(self.open().mount()?).map_err(failed)
    }

    fn close(&self) -> Result<()> {
        self.end()
    }
}

impl KernelFs {
    pub(super) fn make_file(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<Metadata> {
        let open = self.open();
        let dir = open.node(dir)?;
        let name = c_name(name)?;
        become_creator(attributes)?;
        let mode = Mode::from_bits_retain(attributes.permissions.into());
        let special = |file_type, Device { major, minor }| {
            mknodat(dir.fd(), &name, file_type, mode, makedev(major, minor))
        };
        match kind {
            NewKind::Regular => {
                let flags = OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::RDWR
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                let fd = openat(dir.fd(), &name, flags, mode).map_err(failed)?;
                return open.inodes()?.register_new(Node::of_open_file(fd));
            }
            NewKind::Directory => mkdirat(dir.fd(), &name, mode),
            NewKind::Symlink(target) => symlinkat(target, dir.fd(), &name),
            NewKind::CharacterDevice(device) => {
                special(rustix::fs::FileType::CharacterDevice, device)
            }
            NewKind::BlockDevice(device) => special(rustix::fs::FileType::BlockDevice, device),
            NewKind::Fifo => special(rustix::fs::FileType::Fifo, Device::default()),
            NewKind::Socket => special(rustix::fs::FileType::Socket, Device::default()),
        }
        .map_err(failed)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = Node::of_path(openat(dir.fd(), &name, flags, Mode::empty()).map_err(failed)?);
        if kind == NewKind::Directory {
            set_other_bits(&node, attributes.permissions)?;
        }
        open.inodes()?.register_new(node)
    }

    fn remove(&self, dir: InodeNumber, name: &[u8], flags: AtFlags) -> Result<()> {
        let open = self.open();
        let dir = open.node(dir)?;
        let name = c_name(name)?;
        let before = stat_at(&dir, &name);
        unlinkat(dir.fd(), &name, flags).map_err(failed)?;
        if let Ok(before) = before {
            open.inodes()?.lost_a_name(&before);
        }
        Ok(())
    }
}

/// Sets the mode bits of a new directory that mkdir(2) doesn't accept; some may be inherited.
fn set_other_bits(node: &Node, permissions: u16) -> Result<()> {
    let other = permissions & 0o7777 & !MKDIR_BITS;
    if other == 0 {
        return Ok(());
    }
    let mode = (node.statx()?.stx_mode & 0o7777) | other;
    let mode = Mode::from_bits_retain(mode.into());
    chmodat(rustix::fs::CWD, node.path(), mode, AtFlags::empty()).map_err(failed)
}
