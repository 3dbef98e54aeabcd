//! Names in encrypted directories, in the form in which the kernel shows them without the key.

use std::borrow::Cow;

use crate::features::Compatible;
use crate::htree::{HashSeed, Hasher};
use crate::inode::{Inode, InodeFlags};
use crate::no_key_name;
use crate::volume::Volume;

/// Returns a name in the form in which it is shown. Outside of encrypted directories, and for `.`
/// and `..`, this is the name itself.
pub(super) fn displayed<'a>(volume: &Volume, directory: &Inode, name: &'a [u8]) -> Cow<'a, [u8]> {
    if !directory.has(InodeFlags::ENCRYPT) || name == b"." || name == b".." {
        return Cow::Borrowed(name);
    }
    Cow::Owned(no_key_name::encode(dir_hash(volume, directory, name), name))
}

/// Returns the two hash words by which the kernel finds the entry. It lists a directory by hash if
/// the directory has an index, or is small enough not to need one yet; otherwise the words are
/// zero.
fn dir_hash(volume: &Volume, directory: &Inode, name: &[u8]) -> [u32; 2] {
    let superblock = &volume.superblock;
    let by_hash = superblock.features.has(Compatible::DIR_INDEX)
        && (directory.has(InodeFlags::INDEX)
            || superblock.block_size.blocks_for(directory.size_bytes) == 1);
    match superblock.default_hash {
        Some(algorithm) if by_hash => {
            let hasher = Hasher {
                algorithm,
                sign: superblock.hash_signedness,
                seed: HashSeed::new(superblock.hash_seed),
            };
            let (hash, minor) = hasher.hash_and_minor(name);
            [hash.0, minor]
        }
        _ => [0, 0],
    }
}
