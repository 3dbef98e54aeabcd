//! Writing of a disk as a file.

use diskfs_vfs::{
    Error, ErrorKind, Fallocate, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode, Result,
    SetMetadata, SetTime, SetXattr, SyncFile, Timestamp,
};

use super::{DiskFile, check, failed};

impl DiskFile {
    /// Refuses a change of names.
    fn no_directory<T>(&self, inode: InodeNumber) -> Result<T> {
        check(inode)?;
        self.writer()?;
        Err(ErrorKind::NotADirectory.into())
    }

    /// Refuses a change of what a disk does not have.
    fn unsupported<T>(&self, inode: InodeNumber, what: &'static str) -> Result<T> {
        check(inode)?;
        self.writer()?;
        Err(Error::new(ErrorKind::Unsupported, what).in_inode(inode))
    }

    fn note_change(&self) {
        self.with_modified(|modified| *modified = Timestamp::now());
    }
}

impl FsWrite for DiskFile {
    fn create(
        &self,
        dir: InodeNumber,
        _: &[u8],
        _: NewKind<'_>,
        _: &NewAttributes,
    ) -> Result<InodeNumber> {
        self.no_directory(dir)
    }

    fn create_unnamed(&self, dir: InodeNumber, _: &NewAttributes) -> Result<InodeNumber> {
        self.no_directory(dir)
    }

    fn link(&self, _: InodeNumber, dir: InodeNumber, _: &[u8]) -> Result<()> {
        self.no_directory(dir)
    }

    fn unlink(&self, dir: InodeNumber, _: &[u8]) -> Result<()> {
        self.no_directory(dir)
    }

    fn rmdir(&self, dir: InodeNumber, _: &[u8]) -> Result<()> {
        self.no_directory(dir)
    }

    fn rename(
        &self,
        dir: InodeNumber,
        _: &[u8],
        _: InodeNumber,
        _: &[u8],
        _: RenameMode,
    ) -> Result<()> {
        self.no_directory(dir)
    }

    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize> {
        check(inode)?;
        let device = self.writer()?;
        let left = device.size_bytes().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
        let part = data.get(..len).unwrap_or_default();
        if part.is_empty() && !data.is_empty() {
            let reason = "the disk ends here, and its size can't be changed by writing";
            return Err(Error::new(ErrorKind::NoSpace, reason).at(offset));
        }
        device.write_at(offset, part).map_err(failed)?;
        self.note_change();
        Ok(len)
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        if size_bytes == self.reader().size_bytes() {
            return self.writer().map(drop);
        }
        check(inode)?;
        self.writer()?;
        let reason = "the size of an exported disk can't be changed";
        Err(Error::new(ErrorKind::NotPermitted, reason).in_inode(inode))
    }

    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        match what {
            Fallocate::PunchHole | Fallocate::ZeroRange | Fallocate::ZeroRangeKeepSize => {}
            Fallocate::Allocate
            | Fallocate::AllocateKeepSize
            | Fallocate::CollapseRange
            | Fallocate::InsertRange => {
                return self.unsupported(inode, "a disk can't allocate or move a range");
            }
        }
        check(inode)?;
        let device = self.writer()?;
        let end = offset.saturating_add(len_bytes);
        if end > device.size_bytes() && what == Fallocate::ZeroRange {
            let reason = "the size of an exported disk can't be changed";
            return Err(Error::new(ErrorKind::NoSpace, reason).at(offset));
        }
        let len_bytes = end.min(device.size_bytes()).saturating_sub(offset);
        if len_bytes > 0 {
            // Not a discard: a hole reads as zeroes.
            device.write_zeroes(offset, len_bytes).map_err(failed)?;
        }
        self.note_change();
        Ok(())
    }

    /// Changes the time of the last modification. Nothing of it is stored.
    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        let times = SetMetadata {
            accessed: change.accessed,
            modified: change.modified,
            changed: change.changed,
            ..SetMetadata::default()
        };
        if *change != times {
            return self.unsupported(inode, "a disk has no owner, mode and flags");
        }
        check(inode)?;
        self.writer()?;
        self.with_modified(|modified| match change.modified {
            Some(SetTime::At(time)) => *modified = time,
            Some(SetTime::Now) => *modified = Timestamp::now(),
            None => {}
        });
        Ok(())
    }

    fn set_xattr(&self, inode: InodeNumber, _: &[u8], _: &[u8], _: SetXattr) -> Result<()> {
        self.unsupported(inode, "a disk has no extended attributes")
    }

    fn remove_xattr(&self, inode: InodeNumber, _: &[u8]) -> Result<()> {
        self.unsupported(inode, "a disk has no extended attributes")
    }

    fn hold(&self, _: InodeNumber) {}

    fn release(&self, _: InodeNumber) -> Result<()> {
        Ok(())
    }

    fn sync_file(&self, inode: InodeNumber, _: SyncFile) -> Result<()> {
        check(inode)?;
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        match self.writer() {
            Ok(device) => device.flush().map_err(failed),
            Err(_) => Ok(()),
        }
    }

    /// Makes all changes durable. The disk itself stays open, since others may serve it, too.
    fn close(&self) -> Result<()> {
        self.sync()
    }
}
