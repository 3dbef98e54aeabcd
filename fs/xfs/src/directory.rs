//! Directories: four forms of the same entries.
//!
//! * Short form: the entries are in the inode.
//! * Block: one block with the entries, and an index of their hashes at its end.
//! * Leaf: blocks of entries, and one block of the index.
//! * Node: the index is a tree.
//!
//! Source: "XFS Algorithms & Data Structures", section "Directories".

mod block;
mod data;
mod entries;
mod hash;
pub(crate) mod index;
mod lookup;
mod short_form;

use diskfs_vfs::FileType;

pub(crate) use self::entries::entries;
pub(crate) use self::hash::da_hash;
pub(crate) use self::lookup::lookup;

/// The byte of a directory at which the index begins, `XFS_DIR2_LEAF_OFFSET`.
const INDEX_START: u64 = 1 << 35;
/// The unit of the positions of entries.
const ENTRY_ALIGNMENT: usize = 8;

/// The number of a directory's type in an entry.
const DIRECTORY: u8 = 2;

/// Returns the type of a file in a directory entry, `XFS_DIR3_FT_*`; `None` if it is unknown.
fn file_type(number: u8) -> Option<FileType> {
    Some(match number {
        1 => FileType::Regular,
        DIRECTORY => FileType::Directory,
        3 => FileType::CharacterDevice,
        4 => FileType::BlockDevice,
        5 => FileType::Fifo,
        6 => FileType::Socket,
        7 => FileType::Symlink,
        _ => return None,
    })
}

/// Returns true if a name can be in a directory.
fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}
