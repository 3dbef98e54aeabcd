//! Changing a mounted filesystem: the implementation of `FsWrite`.

use diskfs_vfs::{
    ErrorKind, Fallocate, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode, Result,
    SetMetadata, SetXattr, SyncFile,
};

use super::calls::{check_name, file};
use super::connection::{MISMATCH, done};
use super::holds::ReleaseNeeded;
use super::remote::Remote;
use crate::protocol::{
    MAX_BULK, MAX_TARGET, MAX_XATTR, Operation, Reply, Violation, is_xattr_name,
};

impl FsWrite for Remote {
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        self.check_writable()?;
        check_name(name)?;
        if let NewKind::Symlink(target) = kind
            && target.len() >= MAX_TARGET
        {
            return Err(ErrorKind::NameTooLong.into());
        }
        let operation = Operation::Create {
            dir: dir.0,
            name,
            kind: kind.into(),
            file: attributes.into(),
        };
        self.negative_cache.add_name(dir, name);
        let before = self.negative_cache.creation_time();
        let made = self.make(dir, operation)?;
        match kind {
            NewKind::Directory => self.negative_cache.add_new_dir(before, made),
            _ => self.negative_cache.remove(made),
        }
        Ok(made)
    }

    fn create_unnamed(&self, dir: InodeNumber, attributes: &NewAttributes) -> Result<InodeNumber> {
        self.check_writable()?;
        let operation = Operation::CreateUnnamed {
            dir: dir.0,
            file: attributes.into(),
        };
        let inode = self.make(dir, operation)?;
        self.holds.hold(inode);
        // The file is held, so this cannot ask for a release.
        let _ = self.holds.note_kept(inode);
        Ok(inode)
    }

    fn link(&self, inode: InodeNumber, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_name(name)?;
        let operation = Operation::Link {
            inode: inode.0,
            dir: dir.0,
            name,
        };
        self.negative_cache.add_name(dir, name);
        self.change(&[inode, dir], operation)
    }

    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_name(name)?;
        let operation = Operation::Unlink {
            dir: dir.0,
            name,
            keep: self.holds.are_any(),
        };
        self.remove(dir, operation)
    }

    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_name(name)?;
        let operation = Operation::Rmdir {
            dir: dir.0,
            name,
            keep: self.holds.are_any(),
        };
        self.remove(dir, operation)
    }

    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.check_writable()?;
        check_name(name)?;
        check_name(to_name)?;
        let operation = Operation::Rename {
            dir: dir.0,
            name,
            to_dir: to_dir.0,
            to_name,
            mode: mode.into(),
            keep: self.holds.are_any(),
        };
        self.negative_cache.add_name(to_dir, to_name);
        let renamed = self.ask(operation, |answer| match answer.reply {
            Reply::Renamed { moved, replaced } => Ok((InodeNumber(moved), replaced)),
            _ => Err(MISMATCH),
        });
        self.changed(dir);
        self.changed(to_dir);
        let (moved, replaced) = renamed?;
        self.changed(moved);
        replaced.map_or(Ok(()), |replaced| self.lost_a_name(replaced))
    }

    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize> {
        self.check_writable()?;
        let mut written = 0_usize;
        // An empty write is sent, too: its answer tells whether writing is possible.
        let once = usize::from(data.is_empty());
        let nothing = std::iter::repeat_n(data, once);
        for chunk in data.chunks(MAX_BULK).chain(nothing) {
            let at = u64::try_from(written).ok();
            let at = at.and_then(|written| offset.checked_add(written));
            let wrote = at
                .ok_or_else(|| ErrorKind::FileTooLarge.into())
                .and_then(|at| self.write_chunk(inode, at, chunk));
            let wrote = match wrote {
                Ok(wrote) => wrote,
                // Report what was written before the error; the next write meets the error again.
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            };
            written = written.saturating_add(wrote);
            if wrote < chunk.len() {
                break;
            }
        }
        Ok(written)
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        self.check_writable()?;
        let operation = Operation::SetLen {
            inode: inode.0,
            size_bytes,
        };
        self.change_file(inode, operation)
    }

    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        self.check_writable()?;
        let operation = Operation::Fallocate {
            inode: inode.0,
            offset,
            len_bytes,
            what: what.into(),
        };
        self.change(&[inode], operation)
    }

    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        self.check_writable()?;
        let operation = Operation::SetMetadata {
            inode: inode.0,
            change: change.into(),
        };
        self.change_file(inode, operation)
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        self.check_writable()?;
        check_xattr_name(name)?;
        if value.len() > MAX_XATTR {
            return Err(ErrorKind::NoSpace.into());
        }
        let operation = Operation::SetXattr {
            inode: inode.0,
            name,
            how: how.into(),
        };
        let set = self.send_bulk(operation, value, done);
        self.changed(inode);
        set
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_xattr_name(name)?;
        let operation = Operation::RemoveXattr {
            inode: inode.0,
            name,
        };
        self.change(&[inode], operation)
    }

    fn hold(&self, inode: InodeNumber) {
        self.holds.hold(inode);
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        match self.holds.release(inode) {
            // Unmounting releases everything.
            ReleaseNeeded::Yes if self.check_open().is_ok() => {
                self.change(&[inode], Operation::Release { inode: inode.0 })
            }
            _ => Ok(()),
        }
    }

    fn sync_file(&self, inode: InodeNumber, what: SyncFile) -> Result<()> {
        self.check_writable()?;
        let operation = Operation::SyncFile {
            inode: inode.0,
            what: what.into(),
        };
        self.ask(operation, done)
    }

    fn sync(&self) -> Result<()> {
        self.check_writable()?;
        self.ask(Operation::Sync, done)
    }

    fn close(&self) -> Result<()> {
        self.unmount()
    }
}

impl Remote {
    /// Creates a file in `dir`.
    fn make(&self, dir: InodeNumber, operation: Operation<'_>) -> Result<InodeNumber> {
        let asked = self.attributes.request_time();
        let made = self.ask(operation, file);
        self.changed(dir);
        let made = made?;
        // Another file may have had this inode number before.
        self.changed_to(asked, &made);
        Ok(made.inode)
    }

    /// Removes a name in `dir`.
    fn remove(&self, dir: InodeNumber, operation: Operation<'_>) -> Result<()> {
        let removed = self.ask(operation, |answer| match answer.reply {
            Reply::Removed(removed) => Ok(removed),
            _ => Err(MISMATCH),
        });
        self.changed(dir);
        self.lost_a_name(removed?)
    }

    fn write_chunk(&self, inode: InodeNumber, offset: u64, chunk: &[u8]) -> Result<usize> {
        let operation = Operation::Write {
            inode: inode.0,
            offset,
        };
        let written = self.send_bulk(operation, chunk, |answer| match answer.reply {
            Reply::Written { len } => usize::try_from(len)
                .ok()
                .filter(|&len| len <= chunk.len())
                .ok_or(Violation("invalid number of bytes written")),
            _ => Err(MISMATCH),
        });
        self.changed(inode);
        written
    }
}

fn check_xattr_name(name: &[u8]) -> Result<()> {
    if !is_xattr_name(name) {
        return Err(ErrorKind::Invalid.into());
    }
    Ok(())
}
