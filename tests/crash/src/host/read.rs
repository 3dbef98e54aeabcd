//! Read operations.

use std::ffi::CStr;
use std::os::unix::fs::FileExt;

use diskfs_vfs::{
    Device, DirEntries, DirEntry, ErrorKind, FileExtent, FileExtentKind, FileExtents, FileFlags,
    FileType, FsRead, Identity, InodeNumber, Metadata, Result, Statistics, Timestamp,
};
use rustix::fs::{AtFlags, OFlags, SeekFrom, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::{Host, SMALL_BYTES, error, io_error};

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
        // Through the file's descriptor, so that the access time stays unchanged.
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
        let block_size = stat.f_bsize.try_into().unwrap_or(u32::MAX);
        Ok(Statistics {
            block_size,
            // The host does not report it.
            allocation_size: block_size,
            blocks: stat.f_blocks,
            blocks_free: stat.f_bfree,
            blocks_available: stat.f_bavail,
            inodes: stat.f_files,
            inodes_free: stat.f_ffree,
            name_max: 255,
        })
    }

    /// While the kernel is writing, it sometimes reports data as a hole (inline contents, block
    /// maps). So small files are reported as data from start to end, and larger ones are synced
    /// first.
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
