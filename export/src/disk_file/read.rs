//! Reading of a disk as a file.

use diskfs_block::ExtentKind;
use diskfs_vfs::{
    DirEntries, ErrorKind, FileExtent, FileExtentKind, FileExtents, FileFlags, FileType, FsRead,
    Identity, InodeNumber, Metadata, Result, Statistics,
};

use super::{Device, DiskFile, ROOT, check, failed};

/// The preferred size of requests.
const BLOCK_BYTES: u32 = 4096;

impl DiskFile {
    /// Returns the extent that contains byte `offset`, from there on; `None` past the end.
    fn extent_from(&self, offset: u64) -> Result<Option<FileExtent>> {
        if offset >= self.reader().size_bytes() {
            return Ok(None);
        }
        let extent = self.reader().extent_at(offset).map_err(failed)?;
        let kind = match extent.kind {
            ExtentKind::Data => FileExtentKind::Inline,
            ExtentKind::Zero | ExtentKind::Unallocated => FileExtentKind::Hole,
        };
        Ok(Some(FileExtent {
            offset,
            len_bytes: extent.len_bytes,
            kind,
        }))
    }
}

impl FsRead for DiskFile {
    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn root(&self) -> InodeNumber {
        ROOT
    }

    fn lookup(&self, dir: InodeNumber, _: &[u8]) -> Result<InodeNumber> {
        check(dir)?;
        Err(ErrorKind::NotADirectory.into())
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        check(inode)?;
        let size_bytes = self.reader().size_bytes();
        let modified = self.with_modified(|_| {});
        Ok(Metadata {
            inode,
            generation: 0,
            file_type: FileType::Regular,
            permissions: match self.device {
                Device::ReadOnly(_) => 0o400,
                Device::Writable(_) => 0o600,
            },
            links: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            size_bytes,
            allocated_bytes: self.allocated_bytes.min(size_bytes),
            accessed: modified,
            modified,
            changed: modified,
            created: None,
            device: None,
            block_size: BLOCK_BYTES,
            flags: FileFlags::default(),
        })
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        check(inode)?;
        let left = self.reader().size_bytes().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let part = buf.get_mut(..len).unwrap_or_default();
        if !part.is_empty() {
            self.reader().read_at(offset, part).map_err(failed)?;
        }
        Ok(len)
    }

    fn read_dir(&self, dir: InodeNumber, _: u64) -> Result<DirEntries<'_>> {
        check(dir)?;
        Err(ErrorKind::NotADirectory.into())
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        check(inode)?;
        Err(ErrorKind::Invalid.into())
    }

    fn xattr(&self, inode: InodeNumber, _: &[u8]) -> Result<Option<Vec<u8>>> {
        check(inode).map(|()| None)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        check(inode).map(|()| Vec::new())
    }

    fn statistics(&self) -> Result<Statistics> {
        Ok(Statistics {
            block_size: BLOCK_BYTES,
            allocation_size: BLOCK_BYTES,
            blocks: self.reader().size_bytes() / u64::from(BLOCK_BYTES),
            inodes: 1,
            name_max: 255,
            ..Statistics::default()
        })
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        check(inode)?;
        let mut at = Some(offset);
        let extents = std::iter::from_fn(move || {
            let found = self.extent_from(at?).transpose();
            at = match &found {
                Some(Ok(extent)) => extent.offset.checked_add(extent.len_bytes),
                _ => None,
            };
            found
        });
        Ok(Box::new(extents))
    }

    fn will_need(&self, _: InodeNumber, offset: u64, len_bytes: u64) {
        self.reader().will_need(offset, len_bytes);
    }
}
