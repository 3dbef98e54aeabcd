//! The files of a new filesystem: the root directory, `lost+found`, and those that only the
//! filesystem itself uses.

use std::ops::Range;

use diskfs_vfs::{FileType, Timestamp};

use super::journal_size::JournalSize;
use super::options::FormatOptions;
use super::superblock::{EXTRA_INODE_BYTES, FIRST_INODE};
use super::used_blocks::UsedBlocks;
use crate::block::{FileBlock, FsBlock};
use crate::bytes::{len_u64, put};
use crate::directory::new_block;
use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Incompatible};
use crate::file_blocks::{NewMap, NewTree, map_blocks_for, tree_blocks_for};
use crate::inode::{Inode, InodeFlags, ROOT};
use crate::journal::new_superblock;
use crate::run::Run;
use crate::superblock::Superblock;
use crate::writer::empty_orphan_block;

mod resize;

/// The inode of bad blocks, `EXT2_BAD_INO`.
const BAD_BLOCKS: u32 = 1;
/// The resize inode, `EXT2_RESIZE_INO`.
const RESIZE: u32 = 7;
/// The inode of the journal, `EXT2_JOURNAL_INO`.
pub(super) const JOURNAL: u32 = 8;
/// The inode of `lost+found`, the first that is not reserved.
const LOST_AND_FOUND: u32 = FIRST_INODE;
/// The inode of the orphan file.
pub(super) const ORPHAN_FILE: u32 = FIRST_INODE + 1;
/// The maximum length of an extent.
const EXTENT_BLOCKS_MAX: u64 = 1 << 15;
/// The number of extents in `i_block`.
const ROOT_EXTENTS: usize = 4;

/// A block with its new contents.
pub(super) type NewBlock = (FsBlock, Vec<u8>);

/// The files of a new filesystem.
#[derive(Debug, Default)]
pub(super) struct NewFiles {
    pub(super) inodes: Vec<Inode>,
    pub(super) blocks: Vec<NewBlock>,
    /// The blocks that must read as zeroes: the log.
    pub(super) zeroes: Vec<Range<u64>>,
}

impl NewFiles {
    /// Adds the files of another list.
    pub(super) fn append(&mut self, mut other: Self) {
        self.inodes.append(&mut other.inodes);
        self.blocks.append(&mut other.blocks);
        self.zeroes.append(&mut other.zeroes);
    }
}

/// The mapping of a new file.
struct Mapping {
    i_block: [u8; 60],
    runs: Vec<Run>,
    nodes: Vec<NewBlock>,
    /// The number of clusters in use, including those of the nodes.
    clusters: u64,
}

/// Allocates blocks for the files of a new filesystem.
pub(super) struct FilePlanner<'a> {
    superblock: &'a Superblock,
    options: &'a FormatOptions,
    used: &'a mut UsedBlocks,
    files: NewFiles,
}

impl<'a> FilePlanner<'a> {
    pub(super) fn new(
        superblock: &'a Superblock,
        options: &'a FormatOptions,
        used: &'a mut UsedBlocks,
    ) -> Self {
        Self {
            superblock,
            options,
            used,
            files: NewFiles::default(),
        }
    }

    pub(super) fn finish(self) -> NewFiles {
        self.files
    }

    fn block_bytes(&self) -> usize {
        self.superblock.block_size.len()
    }

    fn group_start(&self) -> u64 {
        self.superblock.first_block_of_group(0).0
    }

    /// Allocates the first free blocks at or after `goal`: at most `len_blocks`, in whole clusters.
    fn take(&mut self, goal: u64, len_blocks: u64) -> Result<(u64, u64)> {
        let mask = self.cluster_blocks().wrapping_sub(1);
        let found = self.used.first_free(goal & !mask, len_blocks);
        let (start, len) = found.ok_or_else(no_space)?;
        self.used.mark(start, len.saturating_add(mask) & !mask);
        Ok((start, len))
    }

    fn cluster_blocks(&self) -> u64 {
        1u64.wrapping_shl(self.superblock.cluster_ratio_bits)
    }

    fn clusters(&self, blocks: u64) -> u64 {
        blocks.div_ceil(self.cluster_blocks())
    }

    /// Allocates and maps the blocks of a file.
    fn map(&mut self, number: u32, goal: u64, len_blocks: u64) -> Result<Mapping> {
        if self.superblock.features.has(Incompatible::EXTENTS) {
            self.map_extents(number, goal, len_blocks)
        } else {
            self.map_blocks(goal, len_blocks)
        }
    }

    fn map_extents(&mut self, number: u32, goal: u64, len_blocks: u64) -> Result<Mapping> {
        let mut runs: Vec<Run> = Vec::new();
        let mut nodes = Vec::new();
        let (mut goal, mut done, mut clusters) = (goal, 0u64, 0u64);
        while done < len_blocks {
            let wanted = len_blocks.saturating_sub(done).min(EXTENT_BLOCKS_MAX);
            let (start, len) = self.take(goal, wanted)?;
            clusters = clusters.saturating_add(self.clusters(len));
            runs.push(run(done, start, len)?);
            done = done.saturating_add(len);
            goal = start.saturating_add(len);
            let needed = tree_blocks_for(len_u64(runs.len()), self.block_bytes());
            if runs.len() > ROOT_EXTENTS && len_u64(nodes.len()) < needed {
                // Like mke2fs, which prefers the place before the first extent.
                let before = runs.first().map_or(0, |run| run.fs_block.0);
                let near = before.saturating_sub(self.cluster_blocks());
                nodes.push(FsBlock(self.take(near, 1)?.0));
                clusters = clusters.saturating_add(1);
            }
        }
        let needed = tree_blocks_for(len_u64(runs.len()), self.block_bytes());
        while len_u64(nodes.len()) < needed {
            nodes.push(FsBlock(self.take(goal, 1)?.0));
            clusters = clusters.saturating_add(1);
        }
        let seed = self.superblock.inode_checksum_seed(number, 0);
        let tree = NewTree::new(seed, self.block_bytes(), &runs, &nodes).ok_or_else(no_space)?;
        Ok(Mapping {
            i_block: tree.root,
            runs,
            nodes: tree.nodes,
            clusters,
        })
    }

    fn map_blocks(&mut self, goal: u64, len_blocks: u64) -> Result<Mapping> {
        let per_block = len_u64(self.block_bytes()).wrapping_div(4);
        let all = len_blocks.saturating_add(map_blocks_for(len_blocks, per_block));
        let mut taken = Vec::new();
        let (mut goal, mut done) = (goal, 0);
        while done < all {
            let (start, len) = self.take(goal, all.saturating_sub(done))?;
            goal = start.saturating_add(len);
            done = done.saturating_add(len);
            taken.push(start..goal);
        }
        let blocks = taken.into_iter().flatten().map(FsBlock);
        let map = NewMap::new(self.block_bytes(), len_blocks, blocks).ok_or_else(no_space)?;
        let mut runs: Vec<Run> = Vec::new();
        for (nth, block) in map.data.iter().enumerate() {
            let next = run(len_u64(nth), block.0, 1)?;
            if !runs.last_mut().is_some_and(|last| last.absorb(&next)) {
                runs.push(next);
            }
        }
        Ok(Mapping {
            i_block: map.root(),
            runs,
            nodes: map.nodes,
            clusters: all,
        })
    }

    /// Returns an inode with the times of the filesystem's creation, and nothing else.
    fn inode(&self, number: u32) -> Inode {
        let time = Timestamp {
            nanoseconds: 0,
            ..self.options.time
        };
        let large = self.superblock.inode_size > 128;
        Inode {
            number,
            generation: 0,
            file_type: None,
            permissions: 0,
            uid: 0,
            gid: 0,
            links: 0,
            size_bytes: 0,
            allocated_bytes: 0,
            flags: InodeFlags::empty(),
            accessed: time,
            modified: time,
            changed: time,
            created: Some(time),
            raw_atime: 0,
            version: 0,
            deleted: 0,
            project: 0,
            extra_isize: if large { EXTRA_INODE_BYTES } else { 0 },
            block: [0; 60],
            xattr_block: 0,
            xattr_bytes: Box::default(),
            checksum_seed: self.superblock.inode_checksum_seed(number, 0),
        }
    }

    /// Adds a file with this mapping; `change` sets the rest of its inode. Returns its `i_block`.
    fn add(
        &mut self,
        number: u32,
        len_blocks: u64,
        mapping: Mapping,
        change: impl FnOnce(&mut Inode),
    ) -> [u8; 60] {
        let mut inode = self.inode(number);
        if self.superblock.features.has(Incompatible::EXTENTS) {
            inode.flags.insert(InodeFlags::EXTENTS);
        }
        inode.size_bytes = self.superblock.block_size.bytes_of(len_blocks);
        inode.allocated_bytes = self.allocated_bytes(mapping.clusters);
        inode.block = mapping.i_block;
        change(&mut inode);
        self.files.inodes.push(inode);
        self.files.blocks.extend(mapping.nodes);
        mapping.i_block
    }

    fn allocated_bytes(&self, clusters: u64) -> u64 {
        let blocks = clusters.saturating_mul(self.cluster_blocks());
        self.superblock.block_size.bytes_of(blocks)
    }

    /// Adds a directory whose first block has these entries; the other blocks have none.
    fn directory(
        &mut self,
        number: u32,
        entries: &[(&[u8], u32)],
        len_blocks: u64,
        change: impl FnOnce(&mut Inode),
    ) -> Result<()> {
        let mapping = self.map(number, self.group_start(), len_blocks)?;
        let seed = self.superblock.inode_checksum_seed(number, 0);
        let mut entries = Some(entries);
        for block in blocks_of(&mapping.runs) {
            let names = entries.take().unwrap_or_default();
            let bytes = new_block(self.superblock, seed, names);
            self.files.blocks.push((block, bytes));
        }
        self.add(number, len_blocks, mapping, |inode| {
            inode.file_type = Some(FileType::Directory);
            change(inode);
        });
        Ok(())
    }

    /// Adds the root directory and `lost+found`.
    pub(super) fn directories(&mut self) -> Result<()> {
        const LINKS: u16 = 2;
        let options = &self.options.extended;
        let (uid, gid) = options.root_owner;
        let permissions = options.root_permissions.unwrap_or(0o755);
        let entries: [(&[u8], u32); 3] =
            [(b".", ROOT), (b"..", ROOT), (b"lost+found", LOST_AND_FOUND)];
        self.directory(ROOT, &entries, 1, |inode| {
            inode.permissions = permissions;
            inode.links = LINKS.saturating_add(1);
            (inode.uid, inode.gid) = (uid, gid);
        })?;
        let entries: [(&[u8], u32); 2] = [(b".", LOST_AND_FOUND), (b"..", ROOT)];
        let len_blocks = self.lost_and_found_blocks();
        self.directory(LOST_AND_FOUND, &entries, len_blocks, |inode| {
            inode.permissions = 0o700;
            inode.links = LINKS;
        })
    }

    /// Returns the size of `lost+found`: 16 KiB, from 2 to 12 blocks. e2fsck puts files there
    /// without allocating blocks.
    fn lost_and_found_blocks(&self) -> u64 {
        const BYTES: u64 = 16 << 10;
        let blocks = self.superblock.block_size.blocks_for(BYTES).clamp(2, 12);
        // With inline data, mke2fs uses the first of its steps for moving the entries to a block.
        let inline = self.superblock.features.has(Incompatible::INLINE_DATA);
        blocks.saturating_sub(u64::from(inline))
    }

    /// Adds the inode of bad blocks, which has none.
    pub(super) fn bad_blocks(&mut self) {
        let mut inode = self.inode(BAD_BLOCKS);
        inode.extra_isize = 0;
        self.files.inodes.push(inode);
    }

    /// Adds the journal. Returns its `i_block`.
    pub(super) fn journal(&mut self, size: JournalSize, goal: u64) -> Result<[u8; 60]> {
        // Block maps begin at the start of the inode's group, as in mke2fs.
        let goal = if self.superblock.features.has(Incompatible::EXTENTS) {
            goal
        } else {
            self.group_start()
        };
        let mapping = self.map(JOURNAL, goal, size.blocks)?;
        let count = |blocks: u64| u32::try_from(blocks).unwrap_or(u32::MAX);
        let superblock = new_superblock(
            self.superblock.uuid,
            self.superblock.block_size,
            count(size.blocks),
            count(size.fast_commit_blocks),
        );
        let mut first = vec![0; self.block_bytes()];
        put(&mut first, 0, &superblock);
        let mut log = mapping.runs.iter().map(|run| {
            let start = run.fs_block.0;
            start..start.saturating_add(u64::from(run.len_blocks))
        });
        let mut start = log.next().unwrap_or_default();
        self.files.blocks.push((FsBlock(start.start), first));
        start.start = start.start.saturating_add(1);
        self.files.zeroes.push(start);
        self.files.zeroes.extend(log);
        Ok(self.add(JOURNAL, size.blocks, mapping, private_file))
    }

    /// Adds the orphan file.
    pub(super) fn orphan_file(&mut self, len_blocks: u64) -> Result<()> {
        let first = u64::from(self.superblock.first_data_block);
        let mapping = self.map(ORPHAN_FILE, first, len_blocks)?;
        let seed = self.superblock.inode_checksum_seed(ORPHAN_FILE, 0);
        let block_bytes = self.block_bytes();
        let blocks = blocks_of(&mapping.runs);
        let blocks = blocks.map(|block| (block, empty_orphan_block(block_bytes, seed, block)));
        self.files.blocks.extend(blocks);
        self.add(ORPHAN_FILE, len_blocks, mapping, private_file);
        Ok(())
    }

    /// Adds the inode that owns the blocks for the growth of the descriptor table, if there is one.
    pub(super) fn resize_inode(&mut self) -> Result<()> {
        if !self.superblock.features.has(Compatible::RESIZE_INODE) {
            return Ok(());
        }
        let table_blocks = u64::from(self.superblock.inode_table_blocks());
        let goal = resize::first_reserved(self.superblock)
            .saturating_add(u64::from(self.superblock.reserved_gdt_blocks))
            .saturating_add(table_blocks)
            .saturating_add(1);
        let (root, _) = self.take(goal, 1)?;
        let owned = resize::blocks(self.superblock, FsBlock(root));
        let mut inode = self.inode(RESIZE);
        private_file(&mut inode);
        inode.size_bytes = resize::size_bytes(self.superblock.block_size);
        inode.allocated_bytes = self.allocated_bytes(owned.count);
        inode.block = resize::i_block(FsBlock(root));
        self.files.inodes.push(inode);
        self.files.blocks.extend(owned.blocks);
        Ok(())
    }
}

/// Sets the mode and the links of a file that no directory contains.
fn private_file(inode: &mut Inode) {
    inode.file_type = Some(FileType::Regular);
    inode.permissions = 0o600;
    inode.links = 1;
}

fn blocks_of(runs: &[Run]) -> impl Iterator<Item = FsBlock> + '_ {
    runs.iter().flat_map(|run| {
        let start = run.fs_block.0;
        (start..start.saturating_add(u64::from(run.len_blocks))).map(FsBlock)
    })
}

fn run(file_block: u64, fs_block: u64, len_blocks: u64) -> Result<Run> {
    let number = |value: u64| u32::try_from(value).map_err(|_| no_space());
    Ok(Run {
        file_block: FileBlock(number(file_block)?),
        fs_block: FsBlock(fs_block),
        len_blocks: number(len_blocks)?,
        written: true,
    })
}

fn no_space() -> Error {
    let reason = "the device is too small: its first files do not fit into the free blocks";
    let hint = "use a larger device, or a smaller journal";
    Error::new(ErrorKind::Invalid, reason).with_hint(hint)
}
