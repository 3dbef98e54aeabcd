//! The usage in quota files, compared with the usage that the scan found.
//!
//! A file has a header, and then a tree of blocks of 1 KiB by the four bytes of an id. The leaves
//! are blocks with entries. Source: Linux, `fs/quota/quota_v2.c` and `fs/quota/quota_tree.c`.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{Immutable, KnownLayout, Unaligned};

use super::budget::Budget;
use super::context::Context;
use super::finding::FindingKind;
use crate::bytes::le32;
use crate::contents;
use crate::error::{ErrorKind, Result};
use crate::features::ReadOnlyCompatible;
use crate::inode::Inode;
use crate::inode_table;
use crate::superblock::{RawSuperblock, Superblock};

/// The number of kinds of quota.
const KINDS: usize = 3;
/// The names of the ids, and the magic numbers of their files.
const FILES: [(&str, u32); KINDS] = [
    ("user", 0xd9c0_1f11),
    ("group", 0xd9c0_1927),
    ("project", 0xd9c0_3f14),
];
/// The only version that ext4 uses: entries with 64 bits (`v2r1`).
const VERSION: u32 = 1;
const BLOCK_BYTES: usize = 1024;
/// The number of levels of the tree: one for each byte of an id.
const DEPTH: u32 = 4;
/// The size of `struct qt_disk_dqdbheader` at the start of a block with entries.
const LEAF_HEADER_BYTES: usize = 16;
/// The offset of `dqi_blocks` in the header of a file.
const BLOCKS: usize = 20;

/// An entry, `struct v2r1_disk_dqblk`.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawEntry {
    dqb_id: U32,
    dqb_pad: U32,
    dqb_ihardlimit: U64,
    dqb_isoftlimit: U64,
    dqb_curinodes: U64,
    dqb_bhardlimit: U64,
    dqb_bsoftlimit: U64,
    dqb_curspace: U64,
    dqb_btime: U64,
    dqb_itime: U64,
}

/// The usage of one id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

/// The usage of the ids of each kind.
pub(super) type Usage = [BTreeMap<u32, Used>; KINDS];

/// The usage that the scan found, and the inodes of the quota files.
#[derive(Debug, Default)]
pub(super) struct Quota {
    /// The inodes of the files; 0 for a kind that is not counted.
    files: [u32; KINDS],
    usage: Mutex<Usage>,
}

impl Quota {
    pub(super) fn new(superblock: &Superblock, raw: &RawSuperblock) -> Self {
        let numbers = [
            &raw.s_usr_quota_inum,
            &raw.s_grp_quota_inum,
            &raw.s_prj_quota_inum,
        ];
        let has_quota = superblock.features.has(ReadOnlyCompatible::QUOTA);
        let file = |number: u32| if has_quota { number } else { 0 };
        Self {
            files: numbers.map(|number| file(number.get())),
            usage: Mutex::default(),
        }
    }

    /// Adds what an inode uses to a part of the usage.
    pub(super) fn count(&self, part: &mut Usage, inode: &Inode, used: Used) {
        let ids = [inode.uid, inode.gid, inode.project];
        for ((file, id), usage) in self.files.iter().zip(ids).zip(part) {
            if *file != 0 {
                add(usage, id, used);
            }
        }
    }

    /// Adds a part of the usage.
    pub(super) fn add(&self, part: Usage, budget: &Budget) -> Result<()> {
        let mut usage = self.usage();
        for (sum, part) in usage.iter_mut().zip(part) {
            let before = sum.len();
            for (id, used) in part {
                add(sum, id, used);
            }
            budget.take::<(u32, Used)>(sum.len().saturating_sub(before))?;
        }
        Ok(())
    }

    /// Compares the files with the usage.
    pub(super) fn compare(&self, context: &Context<'_>) -> Result<()> {
        let usage = std::mem::take(&mut *self.usage());
        for (nth, (&file, usage)) in self.files.iter().zip(usage).enumerate() {
            let (name, magic) = FILES.get(nth).copied().unwrap_or_default();
            if file == 0 {
                continue;
            }
            let mut comparison = Comparison {
                context,
                name,
                file,
                usage,
                visited: HashSet::new(),
                blocks: 0,
            };
            comparison.file(magic)?;
        }
        Ok(())
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(usage: &mut BTreeMap<u32, Used>, id: u32, used: Used) {
    let sum = usage.entry(id).or_default();
    sum.bytes = sum.bytes.saturating_add(used.bytes);
    sum.inodes = sum.inodes.saturating_add(used.inodes);
}

/// The comparison of one file.
struct Comparison<'a> {
    context: &'a Context<'a>,
    /// The name of the ids.
    name: &'static str,
    file: u32,
    /// The usage of the ids that the file did not have yet.
    usage: BTreeMap<u32, Used>,
    /// The blocks that were read: each is read once.
    visited: HashSet<u32>,
    /// The number of blocks of the file.
    blocks: u32,
}

impl Comparison<'_> {
    fn file(&mut self, magic: u32) -> Result<()> {
        let inode = match inode_table::read(self.context.volume, self.file) {
            Ok(Some(inode)) => inode,
            Ok(None) => {
                self.found("the inode of the quota file is not in use".into());
                return Ok(());
            }
            Err(e) => return self.unreadable(e),
        };
        let Some(header) = self.block(&inode, 0)? else {
            return Ok(());
        };
        let field = |offset: usize| le32(&header, offset).unwrap_or(0);
        let (found_magic, version) = (field(0), field(4));
        if found_magic != magic || version != VERSION {
            self.found(format!(
                "the quota file has magic {found_magic:#x} and version {version}, expected \
                 {magic:#x} and {VERSION}"
            ));
            return Ok(());
        }
        self.blocks = field(BLOCKS);
        if self.node(&inode, 1, DEPTH)? {
            for (id, used) in std::mem::take(&mut self.usage) {
                self.compare(id, used, Used::default());
            }
        }
        Ok(())
    }

    /// Reads a node of the tree. Returns false if it cannot be read. The depth decreases, so the
    /// recursion is at most `DEPTH` deep.
    fn node(&mut self, inode: &Inode, block: u32, levels: u32) -> Result<bool> {
        if block >= self.blocks {
            let blocks = self.blocks;
            self.found(format!(
                "the tree refers to block {block} of the quota file, which has {blocks} blocks"
            ));
            return Ok(false);
        }
        if !self.visited.insert(block) {
            return Ok(true);
        }
        self.context.budget.take::<[u32; 2]>(1)?;
        let Some(bytes) = self.block(inode, block)? else {
            return Ok(false);
        };
        if levels == 0 {
            self.entries(&bytes);
            return Ok(true);
        }
        let children = bytes.as_chunks::<4>().0.iter();
        for child in children.map(|&bytes| u32::from_le_bytes(bytes)) {
            if child != 0 && !self.node(inode, child, levels.saturating_sub(1))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn entries(&mut self, bytes: &[u8]) {
        let entries = bytes.get(LEAF_HEADER_BYTES..).unwrap_or_default();
        for bytes in entries.chunks_exact(size_of::<RawEntry>()) {
            let Ok(entry) = RawEntry::ref_from_bytes(bytes) else {
                continue;
            };
            // An entry of zeroes is not in use.
            if bytes.iter().all(|&byte| byte == 0) {
                continue;
            }
            let id = entry.dqb_id.get();
            let stored = Used {
                bytes: entry.dqb_curspace.get(),
                inodes: entry.dqb_curinodes.get(),
            };
            let used = self.usage.remove(&id).unwrap_or_default();
            self.compare(id, used, stored);
        }
    }

    fn compare(&self, id: u32, used: Used, stored: Used) {
        if used != stored {
            self.found(format!(
                "{} {id} uses {} bytes and {} inodes, but the quota file says {} and {}",
                self.name, used.bytes, used.inodes, stored.bytes, stored.inodes
            ));
        }
    }

    /// Reads a block of the file. Returns `None` if it is missing.
    fn block(&self, inode: &Inode, block: u32) -> Result<Option<[u8; BLOCK_BYTES]>> {
        let mut bytes = [0; BLOCK_BYTES];
        let offset = u64::from(block).saturating_mul(1 << 10);
        match contents::read(self.context.volume, inode, offset, &mut bytes) {
            Ok(BLOCK_BYTES) => Ok(Some(bytes)),
            Ok(_) => {
                self.found(format!("the quota file ends before its block {block}"));
                Ok(None)
            }
            Err(e) => self.unreadable(e).map(|()| None),
        }
    }

    fn unreadable(&self, e: crate::error::Error) -> Result<()> {
        if e.kind() != ErrorKind::Corrupt {
            return Err(e);
        }
        self.found(e.to_string());
        Ok(())
    }

    fn found(&self, detail: String) {
        self.context.found_in(FindingKind::Quota, self.file, detail);
    }
}
