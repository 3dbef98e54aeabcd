//! A directory of the host as a filesystem: the kernel's mount, to do the same operations on.
//!
//! Each file that was met is kept by an `O_PATH` descriptor, so that it has a number here for as
//! long as it lives, whatever becomes of its names.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_vfs::{
    Device, DirEntries, DirEntry, Error, ErrorKind, Fallocate, FileExtent, FileExtentKind,
    FileExtents, FileFlags, FileType, FsRead, FsWrite, Identity, InodeNumber, Metadata,
    NewAttributes, NewKind, RenameMode, Result, SetMetadata, SetTime, SetXattr, Statistics,
    SyncFile, Timestamp,
};
use rustix::fs::{
    AtFlags, FallocateFlags, Gid, IFlags, Mode, OFlags, RenameFlags, SeekFrom, StatxAttributes,
    StatxFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

/// Files up to this size are read whole, whether they have holes or not.
const SMALL_BYTES: u64 = 4 << 20;

const PAGE_BYTES: u64 = 4096;

/// Contents that are shorter may lie in the inode.
const LARGEST_INODE_BYTES: u64 = 4096;

/// A mounted directory.
#[derive(Debug)]
pub struct Host {
    root: InodeNumber,
    files: Mutex<HashMap<InodeNumber, Known>>,
}

#[derive(Debug)]
struct Known {
    file: Arc<OwnedFd>,
    holds: u64,
}

impl Host {
    /// The filesystem mounted at `path`. Sets the process's umask to nothing.
    ///
    /// # Errors
    /// Whatever the host says.
    pub fn open(path: &Path) -> Result<Self> {
        rustix::process::umask(Mode::empty());
        let root = rustix::fs::open(
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(error)?;
        let host = Self {
            root: number_of(root.as_fd())?,
            files: Mutex::default(),
        };
        host.meet(root)?;
        host.meet_all()?;
        Ok(host)
    }

    /// Meets every file that has a name, so that it is known by its number.
    fn meet_all(&self) -> Result<()> {
        let mut pending = vec![self.root];
        while let Some(dir) = pending.pop() {
            for entry in self.read_dir(dir, 0)? {
                let inode = entry?.inode;
                if self.metadata(inode)?.is_dir() {
                    pending.push(inode);
                }
            }
        }
        Ok(())
    }

    fn files(&self) -> MutexGuard<'_, HashMap<InodeNumber, Known>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meet(&self, file: OwnedFd) -> Result<InodeNumber> {
        let number = number_of(file.as_fd())?;
        self.files().entry(number).or_insert_with(|| Known {
            file: Arc::new(file),
            holds: 0,
        });
        Ok(number)
    }

    fn file(&self, inode: InodeNumber) -> Result<Arc<OwnedFd>> {
        let files = self.files();
        let known = files.get(&inode).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::clone(&known.file))
    }

    /// A path that leads to the file itself, whatever its names are.
    fn path(&self, inode: InodeNumber) -> Result<PathBuf> {
        let file = self.file(inode)?;
        Ok(format!("/proc/self/fd/{}", file.as_raw_fd()).into())
    }

    fn open_as(&self, inode: InodeNumber, flags: OFlags) -> Result<File> {
        // Closed in the programs that are started meanwhile, or nothing could be unmounted.
        let flags = flags | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.path(inode)?, flags, Mode::empty()).map_err(error)?;
        Ok(file.into())
    }

    fn writable(&self, inode: InodeNumber) -> Result<File> {
        match self.metadata(inode)?.file_type {
            FileType::Regular => {}
            FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
            _ => return Err(ErrorKind::Invalid.into()),
        }
        let flags = self.metadata(inode)?.flags;
        if flags.append_only {
            return self.open_as(inode, OFlags::WRONLY | OFlags::APPEND);
        }
        self.open_as(inode, OFlags::RDWR)
    }

    fn open_child(&self, dir: InodeNumber, name: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&*self.file(dir)?, name, flags, Mode::empty()).map_err(error)
    }

    /// Forgets a file that has no name and is not held.
    fn forget_if_gone(&self, inode: InodeNumber) -> Result<()> {
        let links = self.metadata(inode)?.links;
        let mut files = self.files();
        if links == 0 && files.get(&inode).is_some_and(|known| known.holds == 0) {
            files.remove(&inode);
        }
        Ok(())
    }

    /// What a name names, kept until the guard is asked whether it is gone.
    fn victim(&self, dir: InodeNumber, name: &[u8]) -> Option<InodeNumber> {
        self.lookup(dir, name).ok()
    }

    /// Gives a new file the owner that was asked for. The group only where none is inherited.
    fn own(&self, dir: InodeNumber, inode: InodeNumber, attributes: &NewAttributes) -> Result<()> {
        let inherits = self.metadata(dir)?.permissions & 0o2000 != 0;
        let made = self.metadata(inode)?;
        let change = SetMetadata {
            uid: (made.uid != attributes.uid).then_some(attributes.uid),
            gid: (!inherits && made.gid != attributes.gid).then_some(attributes.gid),
            ..SetMetadata::default()
        };
        self.set_metadata(inode, &change)
    }

    fn set_flags(&self, inode: InodeNumber, flags: FileFlags) -> Result<()> {
        let file = self.open_as(inode, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let mut now = rustix::fs::ioctl_getflags(&file).map_err(error)?;
        now.set(IFlags::IMMUTABLE, flags.immutable);
        now.set(IFlags::APPEND, flags.append_only);
        now.set(IFlags::NODUMP, flags.no_dump);
        rustix::fs::ioctl_setflags(&file, now).map_err(error)
    }
}

fn number_of(file: BorrowedFd<'_>) -> Result<InodeNumber> {
    Ok(InodeNumber(rustix::fs::fstat(file).map_err(error)?.st_ino))
}

fn error(errno: Errno) -> Error {
    let kind = match errno {
        Errno::NOENT | Errno::STALE => ErrorKind::NotFound,
        Errno::EXIST => ErrorKind::Exists,
        Errno::NOTDIR => ErrorKind::NotADirectory,
        Errno::ISDIR => ErrorKind::IsADirectory,
        Errno::NOTEMPTY => ErrorKind::NotEmpty,
        Errno::LOOP => ErrorKind::TooManyLinks,
        Errno::NAMETOOLONG => ErrorKind::NameTooLong,
        Errno::ROFS => ErrorKind::ReadOnly,
        Errno::NOSPC => ErrorKind::NoSpace,
        Errno::DQUOT => ErrorKind::QuotaExceeded,
        Errno::ACCESS => ErrorKind::Denied,
        Errno::PERM => ErrorKind::NotPermitted,
        Errno::MLINK => ErrorKind::TooManyNames,
        Errno::FBIG => ErrorKind::FileTooLarge,
        Errno::NODATA => ErrorKind::NoAttribute,
        Errno::INVAL | Errno::NXIO => ErrorKind::Invalid,
        Errno::OPNOTSUPP => ErrorKind::Unsupported,
        Errno::UCLEAN => ErrorKind::Corrupt,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("the kernel says {errno}"))
}

fn io_error(found: &std::io::Error) -> Error {
    match found.raw_os_error() {
        Some(code) => error(Errno::from_raw_os_error(code)),
        None => Error::new(ErrorKind::Io, found.to_string()),
    }
}

impl FsRead for Host {
    fn identity(&self) -> Identity {
        Identity {
            kind: "ext4".into(),
            ..Identity::default()
        }
    }

    fn root(&self) -> InodeNumber {
        self.root
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.meet(self.open_child(dir, name)?)
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        let file = self.file(inode)?;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statx(&*file, "", flags, wanted).map_err(error)?;
        let mode = u32::from(stat.stx_mode);
        let file_type = FileType::from_mode(mode).ok_or(ErrorKind::Corrupt)?;
        let is_device = matches!(file_type, FileType::CharacterDevice | FileType::BlockDevice);
        let time = |time: rustix::fs::StatxTimestamp| Timestamp {
            seconds: time.tv_sec,
            nanoseconds: time.tv_nsec,
        };
        let has = |bit| stat.stx_attributes.contains(bit);
        Ok(Metadata {
            inode,
            generation: 0,
            file_type,
            permissions: stat.stx_mode & 0o7777,
            links: stat.stx_nlink,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            size_bytes: stat.stx_size,
            allocated_bytes: stat.stx_blocks * 512,
            accessed: time(stat.stx_atime),
            modified: time(stat.stx_mtime),
            changed: time(stat.stx_ctime),
            created: (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| time(stat.stx_btime)),
            device: is_device.then_some(Device {
                major: stat.stx_rdev_major,
                minor: stat.stx_rdev_minor,
            }),
            block_size: stat.stx_blksize,
            flags: FileFlags {
                immutable: has(StatxAttributes::IMMUTABLE),
                append_only: has(StatxAttributes::APPEND),
                no_dump: has(StatxAttributes::NODUMP),
                encrypted: has(StatxAttributes::ENCRYPTED),
                verity: has(StatxAttributes::VERITY),
                casefold: false,
            },
        })
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let file = self.open_as(inode, OFlags::RDONLY | OFlags::NOATIME)?;
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            match file
                .read_at(&mut buf[done..], at)
                .map_err(|e| io_error(&e))?
            {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        if cookie != 0 {
            return Err(ErrorKind::Unsupported.into());
        }
        // Through the file, so that the time of the last reading stays.
        let file = self.open_as(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME)?;
        let mut entries = Vec::new();
        for (index, entry) in (1..).zip(rustix::fs::Dir::new(file).map_err(error)?) {
            let entry = entry.map_err(error)?;
            let name = entry.file_name().to_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            entries.push(Ok(DirEntry {
                inode: self.lookup(dir, &name)?,
                name,
                file_type: None,
                cookie: index,
            }));
        }
        Ok(Box::new(entries.into_iter()))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(&*self.file(inode)?, "", Vec::new());
        Ok(target.map_err(error)?.into_bytes())
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = vec![0; 64 << 10];
        match rustix::fs::getxattr(self.path(inode)?, name, &mut value[..]) {
            Ok(len) => {
                value.truncate(len);
                Ok(Some(value))
            }
            Err(Errno::NODATA) => Ok(None),
            Err(errno) => Err(error(errno)),
        }
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        let mut list = vec![0; 64 << 10];
        let len = rustix::fs::listxattr(self.path(inode)?, &mut list[..]).map_err(error)?;
        let mut names = Vec::new();
        let mut rest = &list[..len];
        while let Ok(name) = CStr::from_bytes_until_nul(rest) {
            rest = &rest[name.to_bytes_with_nul().len()..];
            names.push(name.to_bytes().to_vec());
        }
        Ok(names)
    }

    fn statistics(&self) -> Result<Statistics> {
        let stat = rustix::fs::fstatvfs(&*self.file(self.root)?).map_err(error)?;
        Ok(Statistics {
            block_size: stat.f_bsize.try_into().unwrap_or(u32::MAX),
            blocks: stat.f_blocks,
            blocks_free: stat.f_bfree,
            blocks_available: stat.f_bavail,
            inodes: stat.f_files,
            inodes_free: stat.f_ffree,
            name_max: 255,
        })
    }

    /// While the kernel is writing, it takes data for a hole now and then (inline contents, block
    /// maps): small files are data from end to end, and others are written first.
    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let size = self.metadata(inode)?.size_bytes;
        let file = self.open_as(inode, OFlags::RDONLY | OFlags::NOATIME)?;
        let small = size <= SMALL_BYTES;
        if !small {
            rustix::fs::fdatasync(&file).map_err(error)?;
        }
        let seek = |to| match rustix::fs::seek(&file, to) {
            Ok(found) => Ok(found.min(size)),
            Err(Errno::NXIO) => Ok(size),
            Err(errno) => Err(error(errno)),
        };
        let mut extents = Vec::new();
        let mut at = offset;
        while at < size {
            let data = if small { at } else { seek(SeekFrom::Data(at))? };
            let hole = if small || data == size {
                size
            } else {
                seek(SeekFrom::Hole(data))?
            };
            for (start, end, kind) in [
                (at, data, FileExtentKind::Hole),
                (data, hole, FileExtentKind::Inline),
            ] {
                if start < end {
                    extents.push(Ok(FileExtent {
                        offset: start,
                        len_bytes: end - start,
                        kind,
                    }));
                }
            }
            at = hole;
        }
        Ok(Box::new(extents.into_iter()))
    }
}

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
        // A default ACL makes the kernel forget the mask; without one it is applied here.
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
        self.own(dir, inode, attributes)?;
        if kind == NewKind::Directory {
            // mkdir(2) leaves these out, before it asks the filesystem.
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
        self.own(dir, inode, attributes)?;
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
            // Linux 6.18 loses what lies in other pages when a write makes contents outgrow the
            // inode: the first piece ends with its page, and, where blocks are smaller than pages,
            // it must be on the disk before the next.
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
            // Which may have taken bits that here are the caller's to take.
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
            // Nothing that can be opened can be synced alone.
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
