//! The implementation of [`FsWrite`], which converts inode numbers.

use diskfs_vfs::{
    Error, ErrorKind, Fallocate, FileAttributes, FsWrite, InodeNumber, NewAttributes, NewKind,
    Remains, RenameMode, Result, SetMetadata, SetXattr, SyncFile,
};

use super::WritableExt4;

/// Converts an inode number to that of ext4.
fn number(inode: InodeNumber) -> Result<u32> {
    u32::try_from(inode.0)
        .map_err(|_| Error::new(ErrorKind::NotFound, "no such inode").in_inode(inode))
}

fn outside(number: u32) -> InodeNumber {
    InodeNumber(u64::from(number))
}

impl FsWrite for WritableExt4 {
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        self.core
            .create(number(dir)?, name, kind, attributes)
            .map(outside)
    }

    fn create_unnamed(&self, dir: InodeNumber, attributes: &NewAttributes) -> Result<InodeNumber> {
        self.core
            .create_unnamed(number(dir)?, attributes)
            .map(outside)
    }

    fn link(&self, inode: InodeNumber, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.core.link(number(inode)?, number(dir)?, name)
    }

    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.core.unlink(number(dir)?, name)
    }

    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.core.rmdir(number(dir)?, name)
    }

    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let from = (number(dir)?, name);
        self.core.rename(from, (number(to_dir)?, to_name), mode)
    }

    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize> {
        self.core.write(number(inode)?, offset, data)
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        self.core.set_len(number(inode)?, size_bytes)
    }

    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        self.core.fallocate(number(inode)?, offset, len_bytes, what)
    }

    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        self.core.set_metadata(number(inode)?, change)
    }

    fn set_file_attributes(&self, inode: InodeNumber, wanted: FileAttributes) -> Result<()> {
        self.core.set_file_attributes(number(inode)?, wanted)
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        self.core.set_xattr(number(inode)?, name, value, how)
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.core.remove_xattr(number(inode)?, name)
    }

    fn hold(&self, inode: InodeNumber) {
        // An inode without such a number cannot be held.
        if let Ok(number) = number(inode) {
            self.core.holds.add(number);
        }
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        self.core.release(number(inode)?)
    }

    fn set_uuid(&self, inode: InodeNumber, uuid: [u8; 16]) -> Result<()> {
        number(inode)?;
        self.core.set_uuid(uuid)
    }

    fn sync_file(&self, inode: InodeNumber, what: SyncFile) -> Result<()> {
        self.core.sync_file(number(inode)?, what)
    }

    fn sync(&self) -> Result<()> {
        self.core.sync()
    }

    fn close(&self) -> Result<()> {
        self.finish()
    }

    fn is_in_parts(&self) -> bool {
        self.is_in_parts()
    }

    fn abandon(&self) -> Result<Remains> {
        Ok(self.abandon_changes())
    }
}
