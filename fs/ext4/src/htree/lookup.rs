//! Lookup of the leaf that contains a name.

use diskfs_vfs::{Error, ErrorKind, InodeNumber, Result};

use crate::block::{BlockSize, FileBlock};
use crate::checksum::ChecksumSeed;
use crate::error::{Corrupt, Structure};

use super::dx_entry::{DxTable, ENTRY_BYTES};
use super::dx_root::DxRoot;
use super::dx_tail::{Checksums, TAIL_BYTES};
use super::hash::{Algorithm, HashSeed, HashSignedness, Hasher};
use super::path::Path;
use super::{dx_node, dx_root, dx_tail};

/// The maximum number of consecutive leaves that a lookup follows for names with the same hash. A
/// leaf of the smallest block size has three of the longest names, so this means thousands of
/// collisions in 31 bits: they were crafted, or the index has a loop. The directory is then
/// searched block by block, which its size bounds.
const COLLIDING_LEAVES_MAX: usize = 1024;

/// The properties of a directory that a lookup needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directory {
    /// The directory's inode number, for messages.
    pub(crate) inode: InodeNumber,
    /// The filesystem's block size.
    pub(crate) block_size: BlockSize,
    /// The directory's checksum seed, if metadata has checksums.
    pub(crate) checksum: Option<ChecksumSeed>,
    /// The maximum number of levels of index blocks besides the root: [`Self::LEVELS_MAX`], or
    /// [`Self::LEVELS_MAX_LARGE_DIR`] with the feature `large_dir`.
    pub(crate) levels_max: u8,
    /// The signedness of a name's bytes.
    pub(crate) sign: HashSignedness,
    /// The seed of the hashes.
    pub(crate) seed: HashSeed,
}

impl Directory {
    /// The maximum without `large_dir`: `EXT4_HTREE_LEVEL_COMPAT` minus the root.
    pub(crate) const LEVELS_MAX: u8 = 1;
    /// The maximum with `large_dir`: `EXT4_HTREE_LEVEL` minus the root.
    pub(crate) const LEVELS_MAX_LARGE_DIR: u8 = 2;

    /// Reads the root. Returns `None` if hashes of names cannot be computed without a key.
    pub(super) fn start<B: Blocks>(&self, blocks: &B) -> Result<Option<Start<B::Block>>> {
        let bytes = blocks.block(FileBlock(0))?;
        let root = self.root(bytes.as_ref())?;
        Ok(root.algorithm.map(|algorithm| Start {
            root: bytes,
            hasher: self.hasher(algorithm),
            levels: root.levels,
        }))
    }

    /// Returns the hasher for this directory's names.
    pub(super) const fn hasher(&self, algorithm: Algorithm) -> Hasher {
        Hasher {
            algorithm,
            sign: self.sign,
            seed: self.seed,
        }
    }

    /// Returns the number of entries that fit into a table at `offset`.
    pub(super) fn limit(&self, offset: usize) -> usize {
        let tail = if self.checksum.is_some() {
            TAIL_BYTES
        } else {
            0
        };
        let room = self
            .block_size
            .len()
            .saturating_sub(offset)
            .saturating_sub(tail);
        room.wrapping_div(ENTRY_BYTES)
    }

    /// Returns the table at `offset` of `bytes`.
    pub(super) fn table<'a>(
        &self,
        block: FileBlock,
        bytes: &'a [u8],
        offset: usize,
    ) -> Result<DxTable<'a>> {
        DxTable::parse(bytes, offset, self.limit(offset))
            .map_err(|reason| self.malformed(block, &reason))
    }

    fn verify(&self, block: FileBlock, checksums: Checksums) -> Result<()> {
        let Checksums { stored, computed } = checksums;
        if stored == computed {
            return Ok(());
        }
        Err(self.corrupt(Error::from(Corrupt::Checksum {
            structure: Structure::HtreeBlock(block),
            expected: computed,
            actual: stored,
        })))
    }

    fn root(&self, bytes: &[u8]) -> Result<DxRoot> {
        DxRoot::parse(bytes, self.block_size, self.levels_max)
            .map_err(|reason| self.malformed(FileBlock(0), &reason))
    }

    pub(super) fn malformed(&self, block: FileBlock, reason: &dyn std::error::Error) -> Error {
        let what = format!("{}: {reason}", Structure::HtreeBlock(block));
        self.corrupt(Error::new(ErrorKind::Corrupt, what))
    }

    fn corrupt(&self, error: Error) -> Error {
        error
            .in_inode(self.inode)
            .with_hint("on a copy, rebuild the index with `e2fsck -fD`")
    }
}

/// The source of the directory's blocks for a lookup.
pub(crate) trait Blocks {
    /// The type of a block's bytes.
    type Block: AsRef<[u8]>;

    /// Reads a block and checks its checksum.
    fn block(&self, block: FileBlock) -> Result<Self::Block>;
}

/// The result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LookupOutcome<T> {
    /// The name exists.
    Found(T),
    /// The directory does not have the name.
    Absent,
    /// The index cannot be used; all blocks must be searched.
    NotIndexed,
}

/// Looks up a name in an indexed directory. `hashed` is the text whose hash is used, and `search`
/// searches a leaf for the name. `.` and `..` are not in the index, but in block 0.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the index is invalid; the errors of `blocks` and `search`.
pub(crate) fn lookup<B: Blocks, T>(
    directory: &Directory,
    blocks: &B,
    hashed: &[u8],
    mut search: impl FnMut(FileBlock) -> Result<Option<T>>,
) -> Result<LookupOutcome<T>> {
    let Some(Start {
        root,
        hasher,
        levels,
    }) = directory.start(blocks)?
    else {
        return Ok(LookupOutcome::NotIndexed);
    };
    let hash = hasher.hash(hashed);
    let mut path = Path::to_hash(directory, blocks, root, levels, hash)?;
    for _ in 0..COLLIDING_LEAVES_MAX {
        if let Some(entry) = search(path.leaf()?)? {
            return Ok(LookupOutcome::Found(entry));
        }
        if !path.advance(hash)? {
            return Ok(LookupOutcome::Absent);
        }
    }
    Ok(LookupOutcome::NotIndexed)
}

/// The root's contents that a descent begins with.
pub(super) struct Start<B> {
    pub(super) root: B,
    pub(super) hasher: Hasher,
    pub(super) levels: u8,
}

/// Returns true if `bytes` is the root or an index block of an indexed directory. The checksum of
/// such a block is at another place than that of an ordinary directory block.
pub(crate) fn is_index_block(directory: &Directory, block: FileBlock, bytes: &[u8]) -> bool {
    block == FileBlock(0) || dx_node::is_node(bytes, directory.block_size)
}

/// Checks an index block that is read as part of the whole directory.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if it is invalid or its checksum does not match.
pub(crate) fn verify(directory: &Directory, block: FileBlock, bytes: &[u8]) -> Result<()> {
    let offset = if block == FileBlock(0) {
        directory.root(bytes)?;
        dx_root::TABLE_OFFSET
    } else {
        dx_node::TABLE_OFFSET
    };
    let table = directory.table(block, bytes, offset)?;
    match directory.checksum {
        Some(seed) => directory.verify(block, dx_tail::checksums(bytes, offset, &table, seed)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::dx_entry::tests::table;
    use super::super::{dx_node, dx_root};
    use super::*;

    const SIZE: u16 = 1024;

    struct Fake {
        blocks: HashMap<u32, Vec<u8>>,
        leaf_of_name: Option<u32>,
    }

    impl Blocks for Fake {
        type Block = Vec<u8>;
        fn block(&self, block: FileBlock) -> Result<Vec<u8>> {
            Ok(self
                .blocks
                .get(&block.0)
                .cloned()
                .unwrap_or_else(|| vec![0; 1024]))
        }
    }

    fn directory(levels_max: u8) -> Directory {
        Directory {
            inode: InodeNumber(12),
            block_size: BlockSize::from_log(0).unwrap(),
            checksum: None,
            levels_max,
            sign: HashSignedness::Signed,
            seed: HashSeed::new([0; 4]),
        }
    }

    fn root(levels: u8, entries: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes = dx_root::tests::root(SIZE, 1, levels);
        bytes.extend(table((SIZE - 32) / 8, entries));
        bytes
    }

    fn node(entries: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes = dx_node::tests::node(SIZE);
        bytes.extend(table((SIZE - 8) / 8, entries));
        bytes
    }

    /// The hash of "hello" with half MD4 and the default seed.
    const HELLO: u32 = 0x1746_da32;

    fn find(fake: &Fake) -> Result<LookupOutcome<u32>> {
        lookup(&directory(2), fake, b"hello", |leaf| {
            Ok((Some(leaf.0) == fake.leaf_of_name).then_some(leaf.0))
        })
    }

    #[test]
    fn goes_to_the_leaf_of_the_hash() {
        let blocks = HashMap::from([(0, root(0, &[(0, 1), (HELLO, 2), (HELLO + 2, 3)]))]);
        let fake = |leaf| Fake {
            blocks: blocks.clone(),
            leaf_of_name: Some(leaf),
        };
        assert_eq!(find(&fake(2)).unwrap(), LookupOutcome::Found(2));
        assert_eq!(find(&fake(1)).unwrap(), LookupOutcome::Absent);
        assert_eq!(find(&fake(3)).unwrap(), LookupOutcome::Absent);
    }

    #[test]
    fn follows_collisions_across_index_blocks() {
        let blocks = HashMap::from([
            (0, root(2, &[(0, 10), (HELLO | 1, 11)])),
            (10, node(&[(0, 20)])),
            (11, node(&[(0, 21), (HELLO | 1, 22)])),
            (20, node(&[(0, 1), (HELLO, 2), (HELLO | 1, 3)])),
            (21, node(&[(0, 4), (HELLO | 1, 5)])),
            (22, node(&[(0, 6), (HELLO + 2, 7)])),
        ]);
        for leaf in [3, 4, 5, 6] {
            // The low bit belongs to the entry, so the descent for the even hash ends before it.
            let fake = Fake {
                blocks: blocks.clone(),
                leaf_of_name: Some(leaf),
            };
            assert_eq!(find(&fake).unwrap(), LookupOutcome::Found(leaf));
        }
        for leaf in [1, 7] {
            let fake = Fake {
                blocks: blocks.clone(),
                leaf_of_name: Some(leaf),
            };
            assert_eq!(find(&fake).unwrap(), LookupOutcome::Absent);
        }
    }

    #[test]
    fn a_circle_of_collisions_ends() {
        let nodes: Vec<_> = (0..126)
            .map(|n| if n == 0 { (0, 1) } else { (HELLO | 1, 1) })
            .collect();
        let roots = &nodes[..124];
        let blocks = HashMap::from([(0, root(2, roots)), (1, node(&nodes))]);
        let fake = Fake {
            blocks,
            leaf_of_name: None,
        };
        assert_eq!(find(&fake).unwrap(), LookupOutcome::NotIndexed);
    }

    #[test]
    fn corrupt_index_names_inode_and_block() {
        let mut bytes = root(0, &[(0, 1)]);
        bytes[32] = 0;
        let fake = Fake {
            blocks: HashMap::from([(0, bytes)]),
            leaf_of_name: None,
        };
        let error = find(&fake).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.inode(), Some(InodeNumber(12)));
        assert!(error.to_string().contains("htree block 0:"), "{error}");

        let blocks = HashMap::from([(0, root(1, &[(0, 9)]))]);
        let fake = Fake {
            blocks,
            leaf_of_name: None,
        };
        let error = find(&fake).unwrap_err();
        assert!(error.to_string().contains("htree block 9:"), "{error}");
    }

    #[test]
    fn siphash_is_left_to_a_search_of_all_blocks() {
        let mut bytes = root(0, &[(0, 1)]);
        bytes[28] = 6;
        let fake = Fake {
            blocks: HashMap::from([(0, bytes)]),
            leaf_of_name: Some(1),
        };
        assert_eq!(find(&fake).unwrap(), LookupOutcome::NotIndexed);
    }

    #[test]
    fn a_wrong_checksum_is_corrupt() {
        let seed = ChecksumSeed(7);
        let directory = Directory {
            checksum: Some(seed),
            ..directory(1)
        };
        let mut bytes = dx_root::tests::root(SIZE, 1, 0);
        bytes.extend(table((SIZE - 40) / 8, &[(0, 1), (8, 2)]));
        let checksum = seed.of(&[&bytes[..48], &[0; 8]]);
        bytes.extend([0; 4]);
        bytes.extend(checksum.to_le_bytes());
        assert_eq!(bytes.len(), 1024);
        verify(&directory, FileBlock(0), &bytes).unwrap();
        // Bytes after the entries in use are not covered by the checksum.
        bytes[48] = 1;
        verify(&directory, FileBlock(0), &bytes).unwrap();
        bytes[40] = 1;
        let error = verify(&directory, FileBlock(0), &bytes).unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
    }
}
