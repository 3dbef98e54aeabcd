//! The metabox: an inode whose contents are metadata, mostly compressed.

use crate::contents;
use crate::error::Result;
use crate::inode::Inode;
use crate::volume::{Metabox, Volume};

/// Opens the metabox, if there is one.
pub(crate) fn open(volume: &Volume) -> Result<Option<Box<dyn Metabox>>> {
    let Some(nid) = volume.superblock.metabox else {
        return Ok(None);
    };
    Ok(Some(Box::new(Inode::read_named(volume, nid)?)))
}

impl Metabox for Inode {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, volume: &Volume, at: u64, buf: &mut [u8]) -> Result<()> {
        contents::read(volume, self, at, buf)?;
        Ok(())
    }
}
