//! The implementation of `FsRead`.

use std::ffi::CString;
use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_remote::server::{ListedEntries, Served};
use diskfs_vfs::{
    DirEntries, ErrorKind, FileExtents, FileType, FsRead, Identity, InodeNumber, Metadata,
    NewAttributes, NewKind, Result, Statistics,
};
use rustix::fs::{Advice, fadvise, fstatvfs, getxattr, listxattr, readlinkat};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use super::KernelFs;
use super::errors::failed;
use super::extents::{Addresses, extents};
use super::inodes::Inodes;
use super::subvolumes;

/// The size of a page of memory.
const PAGE_BYTES: u64 = 4096;

/// The minimum length of a read in the middle of a file whose pages are not read again. The kernel
/// reads ahead in parts of such a length, and drops no smaller ones.
const LONG_READ_BYTES: usize = 32 << 10;

/// Linux's limit for an attribute's value and for a list of names.
const XATTR_MAX: usize = 64 << 10;

impl FsRead for KernelFs {
    fn identity(&self) -> Identity {
        Identity {
            kind: self.kind.clone(),
            ..Identity::default()
        }
    }

    fn root(&self) -> InodeNumber {
        let open = self.open();
        open.inodes().map_or(InodeNumber(0), Inodes::root)
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.lookup_metadata(dir, name)
            .map(|metadata| metadata.inode)
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        let open = self.open();
        open.inodes()?.metadata(&*open.node(inode)?, inode)
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let open = self.open();
        let node = open.node(inode)?;
        let fd = node.reader()?;
        let caching = Caching::of_read(offset, buf.len());
        let mut read = 0_usize;
        while let Some(rest) = buf.get_mut(read..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            match read_once(fd, rest, at, caching) {
                Ok(0) if caching == Caching::Stay => {
                    drop_end(fd, offset);
                    break;
                }
                Ok(0) => break,
                Ok(len) => read = read.saturating_add(len),
                Err(Errno::INTR) => {}
                // An invalid offset is also past the end of this file.
                Err(Errno::INVAL) if i64::try_from(at).is_err() => break,
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(read)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let listed = self.listing(dir, cookie)?;
        Ok(Box::new(
            listed.map(|listed| listed.map(|(entry, _)| entry)),
        ))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let open = self.open();
        let node = open.node(inode)?;
        match readlinkat(node.fd(), c"", Vec::new()) {
            Ok(target) => Ok(target.into_bytes()),
            // readlinkat's error for a file that is not a symlink.
            Err(Errno::NOENT) if node.file_type()? != FileType::Symlink => {
                Err(ErrorKind::Invalid.into())
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let open = self.open();
        let node = open.node(inode)?;
        let mut value = vec![0; XATTR_MAX];
        match getxattr(node.path(), name, &mut *value) {
            Ok(len) => {
                value.truncate(len);
                Ok(Some(value))
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(failed(errno)),
        }
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        let open = self.open();
        let node = open.node(inode)?;
        let mut names = vec![0; XATTR_MAX];
        let len = match listxattr(node.path(), &mut *names) {
            Ok(len) => len,
            Err(Errno::OPNOTSUPP) => 0,
            Err(errno) => return Err(failed(errno)),
        };
        names.truncate(len);
        let names = names.split(|&byte| byte == 0);
        Ok(names
            .filter(|name| !name.is_empty())
            .map(<[u8]>::to_vec)
            .collect())
    }

    fn statistics(&self) -> Result<Statistics> {
        let open = self.open();
        let stat = fstatvfs(open.mount()?).map_err(failed)?;
        let unit = u32::try_from(stat.f_frsize).unwrap_or(u32::MAX);
        Ok(Statistics {
            block_size: unit,
            allocation_size: unit,
            blocks: stat.f_blocks,
            blocks_free: stat.f_bfree,
            blocks_available: stat.f_bavail,
            inodes: stat.f_files,
            inodes_free: stat.f_ffree,
            name_max: u32::try_from(stat.f_namemax).unwrap_or(u32::MAX),
        })
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let open = self.open();
        let node = open.node(inode)?;
        let fd = node.reader()?;
        let size = node.statx()?.stx_size;
        let addresses = if self.kind == "btrfs" {
            Addresses::Other
        } else {
            Addresses::OfDevice
        };
        let found = extents(fd, offset, size, addresses)?;
        Ok(Box::new(found.into_iter().map(Ok)))
    }

    fn subvolume(&self, id: Option<u64>) -> Result<Vec<u8>> {
        if self.kind != "btrfs" {
            return Err(ErrorKind::Unsupported.into());
        }
        let open = self.open();
        let mount = open.mount()?;
        let id = id.map_or_else(|| subvolumes::default_id(mount), Ok)?;
        subvolumes::path(mount, id)
    }
}

/// Says whether contents that were read stay in this kernel's page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caching {
    Stay,
    /// The host's kernel has them, so keeping them here would only take memory.
    Drop,
}

impl Caching {
    /// Returns the caching of a read. The rest of a page of which a small read in the middle of a
    /// file took a part is probably read next.
    fn of_read(offset: u64, len: usize) -> Self {
        let is_long = offset.is_multiple_of(PAGE_BYTES) && len >= LONG_READ_BYTES;
        if offset == 0 || is_long {
            Self::Drop
        } else {
            Self::Stay
        }
    }
}

/// Drops the end of a file that was read from here on: a short read says that nothing follows.
fn drop_end(fd: BorrowedFd<'_>, offset: u64) {
    // Pages that stay cost memory alone.
    let _ = fadvise(fd, offset, None, Advice::DontNeed);
}

/// Performs one `pread`.
fn read_once(
    fd: BorrowedFd<'_>,
    buf: &mut [u8],
    at: u64,
    caching: Caching,
) -> rustix::io::Result<usize> {
    /// `RWF_DONTCACHE`, since Linux 6.14.
    const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
    /// False once the kernel or the filesystem has refused the flag.
    static CAN_DROP: AtomicBool = AtomicBool::new(true);
    if caching == Caching::Drop && CAN_DROP.load(Ordering::Relaxed) {
        match preadv2(fd, &mut [IoSliceMut::new(buf)], at, DONT_CACHE) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => CAN_DROP.store(false, Ordering::Relaxed),
            read => return read,
        }
    }
    pread(fd, buf, at)
}

impl Served for KernelFs {
    fn mounted_at(&self) -> Option<&str> {
        Some(&self.mounted_at)
    }

    fn lookup_metadata(&self, dir: InodeNumber, name: &[u8]) -> Result<Metadata> {
        let open = self.open();
        let inodes = open.inodes()?;
        let node = open.node(dir)?;
        // The parent of the root belongs to another filesystem.
        if name == b".." && dir == inodes.root() {
            return inodes.metadata(&node, dir);
        }
        inodes.lookup(&node, &c_name(name)?)
    }

    fn create_with_metadata(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<Metadata> {
        self.make_file(dir, name, kind, attributes)
    }

    fn list(&self, dir: InodeNumber, cookie: u64) -> Result<ListedEntries<'_>> {
        self.listing(dir, cookie)
    }
}

/// Converts a name for system calls; it must be one component, not a path.
pub(super) fn c_name(name: &[u8]) -> Result<CString> {
    if name.is_empty() || name.contains(&b'/') {
        return Err(ErrorKind::Invalid.into());
    }
    CString::new(name).map_err(|_| ErrorKind::Invalid.into())
}
