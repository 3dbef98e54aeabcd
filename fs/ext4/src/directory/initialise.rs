//! The first contents of a directory, `.` and `..`, in the inode or in a block.

use diskfs_vfs::FileType;

use crate::error::Result;
use crate::features::Incompatible;
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::superblock::Superblock;

use super::editor::DirectoryEditor;
use super::entry::{ENTRY_BYTES_MIN, NewEntry};
use super::{inline, region};

/// Gives a new directory its `.` and `..`. It becomes an inline directory if the filesystem has
/// that feature and there is room beside the attributes that it already has; otherwise it gets a
/// block.
///
/// # Errors
/// `NoSpace`; `Corrupt`, `Io`.
pub(crate) fn initialise(handle: &Handle<'_>, directory: &mut Inode, parent: u32) -> Result<()> {
    let superblock = &handle.volume().superblock;
    directory.size_bytes = 0;
    directory.flags.remove(InodeFlags::INDEX);
    if superblock.features.has(Incompatible::INLINE_DATA)
        && inline::initialise(superblock, directory, parent)?
    {
        return Ok(());
    }
    let dots = Dots::new(superblock, directory.number, parent);
    let mut directory = DirectoryEditor::new(handle, directory);
    let added = directory.append_entries(|region| {
        region::pack(superblock, region, dots.entries());
    });
    added.map(|_| ())
}

/// The entries of `.` and `..`, with which a directory's first block begins.
#[derive(Debug)]
pub(super) struct Dots([u8; 2 * ENTRY_BYTES_MIN]);

impl Dots {
    pub(super) fn new(superblock: &Superblock, inode: u32, parent: u32) -> Self {
        let mut bytes = [0; 2 * ENTRY_BYTES_MIN];
        for (offset, name, inode) in [(0, &b"."[..], inode), (ENTRY_BYTES_MIN, b"..", parent)] {
            let entry = NewEntry {
                inode,
                name,
                file_type: FileType::Directory,
            };
            entry.put(superblock, &mut bytes, offset, ENTRY_BYTES_MIN);
        }
        Self(bytes)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &[u8]> {
        self.0.chunks(ENTRY_BYTES_MIN)
    }
}
