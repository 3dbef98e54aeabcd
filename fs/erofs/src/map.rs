//! The map from the contents of an inode to where they are stored.

use crate::error::Result;
use crate::inode::Inode;
use crate::layout::Layout;
use crate::mapped::Mapped;
use crate::volume::Volume;
use crate::{chunk, encoded, flat};

/// Returns the range that contains the byte `offset`, which must lie within the contents.
pub(crate) fn map(volume: &Volume, inode: &Inode, offset: u64) -> Result<Mapped> {
    match inode.layout {
        Layout::FlatPlain | Layout::FlatInline => flat::map(volume, inode, offset),
        Layout::ChunkBased => chunk::map(volume, inode, offset),
        Layout::CompressedFull | Layout::CompressedCompact => encoded::map(volume, inode, offset),
    }
}
