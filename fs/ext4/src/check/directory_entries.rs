//! The entries and names of a directory, and the blocks that contain them.

use std::sync::atomic::Ordering;

use diskfs_vfs::FileType;

use super::context::Context;
use super::directories::DirectoryPass;
use super::finding::{FindingKind, FindingPlace};
use super::htree::Index;
use super::inode_states::encode;
use super::scan::Directory;
use crate::block::{FileBlock, FsBlock};
use crate::bytes::le32;
use crate::checksum::ChecksumSeed;
use crate::directory::{Entry, hashed, problem_of_name, tail};
use crate::error::Result;
use crate::features::{Compatible, Incompatible};
use crate::inline_data;
use crate::inode::{Inode, InodeFlags, ROOT};
use crate::run::Run;

/// The number of bytes that are read at once.
const READ_BYTES: u32 = 256 << 10;
/// `.` may have up to 12 bytes more than it needs, which are too few for another entry.
const DOT_BYTES_MAX: usize = 24;

/// The minimum length of an encrypted name, `FSCRYPT_FNAME_MIN_MSG_LEN`.
const CIPHERTEXT_BYTES_MIN: usize = 16;

/// Checks the directory at a position of a pass.
pub(super) fn check(pass: &DirectoryPass<'_>, position: usize) -> Result<()> {
    pass.context.progress.advance()?;
    let Some(directory) = pass.directories.get(position) else {
        return Ok(());
    };
    let mut checked = CheckedDirectory::new(pass, directory, position);
    if let Some(inode) = &directory.inline {
        return checked.inline(inode);
    }
    checked.blocks()
}

/// A directory that is being checked.
struct CheckedDirectory<'a> {
    pass: &'a DirectoryPass<'a>,
    context: &'a Context<'a>,
    directory: &'a Directory,
    position: usize,
    seed: Option<ChecksumSeed>,
    index: Option<Index>,
    /// The encryption policy that the entries must have.
    policy: Option<u32>,
    /// The number of entries so far, up to 2: the first ones must be `.` and `..`.
    entries: usize,
}

/// Returns true if files of this type are encrypted in an encrypted directory.
const fn is_encryptable(file_type: Option<FileType>) -> bool {
    matches!(
        file_type,
        Some(FileType::Regular | FileType::Directory | FileType::Symlink)
    )
}

/// A region of entries.
#[derive(Clone, Copy)]
struct Region<'a> {
    bytes: &'a [u8],
    /// The block that contains the region, unless it is in the inode.
    block: Option<FsBlock>,
    /// The file block, for the index.
    file_block: u32,
    is_leaf: bool,
}

impl<'a> CheckedDirectory<'a> {
    fn new(pass: &'a DirectoryPass<'a>, directory: &'a Directory, position: usize) -> Self {
        let context = pass.context;
        let superblock = context.superblock();
        let seed = superblock.inode_checksum_seed(directory.inode, directory.generation);
        let is_indexed = directory.flags.contains(InodeFlags::INDEX)
            && superblock.features.has(Compatible::DIR_INDEX)
            && directory.inline.is_none();
        Self {
            pass,
            context,
            directory,
            position,
            seed,
            index: is_indexed.then(|| Index::new(superblock, directory, seed)),
            policy: if directory.flags.contains(InodeFlags::ENCRYPT) {
                context.policies.of(directory.inode)
            } else {
                None
            },
            entries: 0,
        }
    }

    fn inline(&mut self, inode: &Inode) -> Result<()> {
        const PARENT_BYTES: usize = 4;
        let parent = le32(&inode.block, 0).unwrap_or(0);
        self.context
            .inodes
            .found_link(self.directory.inode, self.context.budget)?;
        self.dot_dot(parent)?;
        self.entries = 2;
        let first = inode.block.get(PARENT_BYTES..).unwrap_or_default();
        let rest = inline_data::after_block(inode).unwrap_or_default();
        for bytes in [first, rest] {
            let region = Region {
                bytes,
                block: None,
                file_block: 0,
                is_leaf: true,
            };
            self.region(region)?;
        }
        Ok(())
    }

    fn blocks(&mut self) -> Result<()> {
        let context = self.context;
        let size = context.superblock().block_size;
        let directory = self.directory;
        let mut next = 0u64;
        for run in &directory.runs {
            self.check_hole(next, u64::from(run.file_block.0));
            next = next.max(run.end());
            self.run(*run)?;
        }
        self.check_hole(next, size.blocks_for(directory.size_bytes));
        if self.entries < 2 && !directory.runs.is_empty() {
            self.found(FindingKind::DirectoryDot, "`.` and `..` are missing".into());
        }
        if let Some(index) = self.index.take() {
            index.check(context, directory);
        }
        Ok(())
    }

    fn check_hole(&self, from: u64, until: u64) {
        if from < until {
            let detail = format!("the directory has no blocks for file blocks {from} to {until}");
            self.found(FindingKind::DirectoryHole, detail);
        }
    }

    /// Checks the blocks of a run that no other directory has.
    fn run(&mut self, run: Run) -> Result<()> {
        let context = self.context;
        let len_blocks = u64::from(run.len_blocks);
        let overlap = self
            .pass
            .read
            .insert(run.fs_block, len_blocks, context.budget, None)?;
        if overlap.clusters > 0 {
            // The blocks are reported as multiply claimed.
            self.index = None;
            self.entries = 2;
            return Ok(());
        }
        let size = context.superblock().block_size;
        let per_read = READ_BYTES.wrapping_shr(size.bits()).max(1);
        let mut nth = 0u32;
        while nth < run.len_blocks {
            let count = per_read.min(run.len_blocks.saturating_sub(nth));
            let first = run.fs_block.after(u64::from(nth));
            let bytes = context.volume.read_blocks(first, count)?;
            for (block, bytes) in (0u32..).zip(bytes.chunks(size.len())) {
                let file_block = run.file_block.0.saturating_add(nth).saturating_add(block);
                self.block(file_block, first.after(u64::from(block)), bytes)?;
            }
            nth = nth.saturating_add(count);
        }
        Ok(())
    }

    fn block(&mut self, file_block: u32, block: FsBlock, bytes: &[u8]) -> Result<()> {
        let mut region = Region {
            bytes,
            block: Some(block),
            file_block,
            is_leaf: true,
        };
        if let Some(index) = &mut self.index {
            self.context.budget.take::<[u64; 6]>(1)?;
            if index.add_block(self.context, self.directory, file_block, block, bytes) {
                if file_block != 0 {
                    return Ok(());
                }
                region.is_leaf = false;
                return self.region(region);
            }
            if file_block == 0 {
                // The root is invalid, so the rest of the index cannot be checked.
                self.index = None;
            }
        }
        if let Some(seed) = self.seed {
            match tail::verify(seed, FileBlock(file_block), bytes) {
                Ok(()) => region.bytes = tail::entries(Some(seed), bytes),
                Err(e) => {
                    if tail::exists(bytes) {
                        region.bytes = tail::entries(Some(seed), bytes);
                    }
                    let place = FindingPlace::inode(self.directory.inode).with_block(block.0);
                    let kind = FindingKind::DirectoryChecksum;
                    self.context.found(kind, place, e.to_string());
                }
            }
        }
        self.region(region)
    }

    fn region(&mut self, region: Region<'_>) -> Result<()> {
        let mut offset = 0usize;
        let mut names: Vec<&[u8]> = Vec::new();
        while offset < region.bytes.len() {
            let superblock = self.context.superblock();
            let entry = match Entry::parse_any_inode(superblock, region.bytes, offset) {
                Ok(entry) => entry,
                Err(problem) => {
                    let detail = format!("the entry at byte {offset} of the block: {problem}");
                    self.found_at(FindingKind::DirectoryEntry, region, b"", detail);
                    break;
                }
            };
            let type_at = offset.saturating_add(7);
            let stored_type = region.bytes.get(type_at).copied().unwrap_or(0);
            let len = entry.end.saturating_sub(offset);
            offset = entry.end;
            if self.entries < 2 && region.file_block == 0 {
                self.dot_entry(region, &entry, len, stored_type)?;
            } else if entry.inode != 0 {
                names.push(entry.name);
                self.entry(region, &entry, stored_type)?;
            }
        }
        self.check_duplicates(region, names);
        Ok(())
    }

    /// Checks one of the first two entries, which must be `.` and `..`.
    fn dot_entry(
        &mut self,
        region: Region<'_>,
        entry: &Entry<'_>,
        len: usize,
        stored_type: u8,
    ) -> Result<()> {
        let expected: &[u8] = if self.entries == 0 { b"." } else { b".." };
        self.entries = self.entries.saturating_add(1);
        if entry.name != expected || entry.inode == 0 {
            let detail = format!(
                "the entry is `{}` of inode {}, expected `{}`",
                entry.name.escape_ascii(),
                entry.inode,
                expected.escape_ascii()
            );
            self.found_at(FindingKind::DirectoryDot, region, entry.name, detail);
            if entry.inode != 0 {
                self.entry(region, entry, stored_type)?;
            }
            return Ok(());
        }
        if expected == b".." {
            self.check_type(region, entry, stored_type);
            return self.dot_dot(entry.inode);
        }
        if entry.inode != self.directory.inode || len > DOT_BYTES_MAX {
            let detail = format!(
                "`.` refers to inode {} and has {len} bytes, expected inode {} and 12 bytes",
                entry.inode, self.directory.inode
            );
            self.found_at(FindingKind::DirectoryDot, region, entry.name, detail);
        }
        self.check_type(region, entry, stored_type);
        self.context
            .inodes
            .found_link(entry.inode, self.context.budget)
    }

    /// Notes what `..` refers to.
    fn dot_dot(&self, inode: u32) -> Result<()> {
        if let Some(parents) = self.pass.parents.get(self.position) {
            parents.dot_dot.store(inode, Ordering::Relaxed);
        }
        self.context.inodes.found_link(inode, self.context.budget)
    }

    /// Checks an entry in use that is not one of the first two.
    fn entry(&mut self, region: Region<'_>, entry: &Entry<'_>, stored_type: u8) -> Result<()> {
        let context = self.context;
        self.check_name(region, entry.name);
        if region.is_leaf
            && let Some(index) = &mut self.index
        {
            index.add_name(region.file_block, entry.name);
        }
        let superblock = context.superblock();
        let inode = entry.inode;
        if inode < superblock.first_inode || inode > superblock.inodes_count {
            let detail = format!(
                "the entry refers to inode {inode}, expected {} to {}",
                superblock.first_inode, superblock.inodes_count
            );
            self.found_at(FindingKind::EntryInode, region, entry.name, detail);
            return Ok(());
        }
        let Some(state) = context.inodes.get(inode) else {
            let detail = format!("the entry refers to inode {inode}, which is not in use");
            self.found_at(FindingKind::UnusedInode, region, entry.name, detail);
            return Ok(());
        };
        self.check_reference(region, entry);
        self.check_policy(region, entry, state.file_type);
        self.check_type(region, entry, stored_type);
        if state.file_type == Some(FileType::Directory) {
            self.subdirectory(region, entry);
        }
        context.inodes.found_link(inode, context.budget)
    }

    /// Reports an entry of an inode that must have no name.
    fn check_reference(&self, region: Region<'_>, entry: &Entry<'_>) {
        let inode = entry.inode;
        let problem = if self.pass.values.binary_search(&inode).is_ok() {
            "contains the value of an attribute"
        } else if self.context.is_in_defective_block(inode) {
            "is in a defective block"
        } else {
            return;
        };
        let detail = format!("the entry refers to inode {inode}, which {problem}");
        self.found_at(FindingKind::EntryInode, region, entry.name, detail);
    }

    /// Checks that an encrypted directory and its entry have the same policy.
    fn check_policy(&self, region: Region<'_>, entry: &Entry<'_>, file_type: Option<FileType>) {
        let Some(policy) = self.policy else { return };
        let problem = match self.context.policies.of(entry.inode) {
            Some(other) if other == policy => return,
            Some(_) => "has another encryption policy than its directory",
            None if is_encryptable(file_type) => "is not encrypted, but its directory is",
            None => return,
        };
        let detail = format!("the entry refers to inode {}, which {problem}", entry.inode);
        self.found_at(FindingKind::EncryptionPolicy, region, entry.name, detail);
    }

    fn check_name(&self, region: Region<'_>, name: &[u8]) {
        let is_dot = name == b"." || name == b"..";
        if is_dot {
            let detail = "the name occurs after the first two entries".to_owned();
            self.found_at(FindingKind::DirectoryDot, region, name, detail);
            return;
        }
        let is_encrypted = self.directory.flags.contains(InodeFlags::ENCRYPT);
        let problem = if is_encrypted {
            (name.len() < CIPHERTEXT_BYTES_MIN).then_some("its name is too short to be encrypted")
        } else {
            problem_of_name(name)
        };
        if let Some(problem) = problem {
            let detail = format!("the entry is invalid: {problem}");
            self.found_at(FindingKind::DirectoryName, region, name, detail);
        }
    }

    fn check_type(&self, region: Region<'_>, entry: &Entry<'_>, stored: u8) {
        let context = self.context;
        let Some(state) = context.inodes.get(entry.inode) else {
            return;
        };
        let has_types = context.superblock().features.has(Incompatible::FILETYPE);
        let expected = if has_types {
            encode(state.file_type)
        } else {
            0
        };
        // Type 0 is valid: readers look at the inode.
        if stored != expected && stored != 0 && state.file_type.is_some() {
            let detail = format!("the file type is {stored}, expected {expected}");
            self.found_at(FindingKind::EntryType, region, entry.name, detail);
        }
    }

    fn subdirectory(&self, region: Region<'_>, entry: &Entry<'_>) {
        let Some(position) = self.pass.position(entry.inode) else {
            return;
        };
        let Some(parents) = self.pass.parents.get(position) else {
            return;
        };
        let (order, this) = (Ordering::Relaxed, self.directory.inode);
        let other = parents.by_name.compare_exchange(0, this, order, order);
        if other.is_err() || entry.inode == ROOT {
            let detail = format!(
                "the entry refers to directory {}, which has another name, too",
                entry.inode
            );
            self.found_at(FindingKind::DirectoryLinked, region, entry.name, detail);
        }
    }

    fn check_duplicates(&self, region: Region<'_>, mut names: Vec<&[u8]>) {
        names.sort_unstable();
        for pair in names.windows(2) {
            if let [first, second] = pair
                && first == second
            {
                let detail = "the name occurs twice in its block".to_owned();
                self.found_at(FindingKind::DuplicateName, region, first, detail);
            }
        }
        names.dedup();
        if self.directory.flags.contains(InodeFlags::CASEFOLD) && self.policy.is_none() {
            self.check_folded(region, &names);
        }
    }

    /// Reports names that are equal when case is ignored, and names that are not valid UTF-8 if the
    /// encoding is strict.
    fn check_folded(&self, region: Region<'_>, names: &[&[u8]]) {
        let is_strict = self.context.superblock().strict_encoding;
        for name in names {
            if is_strict && std::str::from_utf8(name).is_err() {
                let detail = "the name is not valid UTF-8".to_owned();
                self.found_at(FindingKind::DirectoryName, region, name, detail);
            }
        }
        let mut folded: Vec<_> = names.iter().map(|name| (hashed(name), *name)).collect();
        folded.sort_unstable();
        for pair in folded.windows(2) {
            if let [(first, _), (second, name)] = pair
                && first == second
            {
                let detail = "the name is equal to another one of its block, without case";
                self.found_at(FindingKind::DuplicateName, region, name, detail.into());
            }
        }
    }

    fn found(&self, kind: FindingKind, detail: String) {
        self.context.found_in(kind, self.directory.inode, detail);
    }

    fn found_at(&self, kind: FindingKind, region: Region<'_>, name: &[u8], detail: String) {
        let place = FindingPlace {
            block: region.block.map(|block| block.0),
            ..FindingPlace::inode(self.directory.inode)
        };
        let place = if name.is_empty() {
            place
        } else {
            place.with_name(name)
        };
        self.context.found(kind, place, detail);
    }
}
