//! The trees of an allocation group: free space by block (bnobt), chunks of inodes (inobt).
//!
//! A walk ends although an image may contain any tree: each level is one below its parent's, no
//! block but the root is empty, and the records are strictly ascending.
//!
//! Source: "XFS Algorithms & Data Structures", sections "AG Free Space B+trees" and "Inode B+trees".

use std::sync::Arc;

use crate::bytes::{be16, be32, be64, index, part};
use crate::checksum;
use crate::error::{Error, Result, corrupt};
use crate::superblock::basic_block;
use crate::volume::Volume;

const HEADER_BYTES: usize = 16;
const HEADER_V5_BYTES: usize = 56;
const BLOCK_OFFSET: usize = 16;
const UUID_OFFSET: usize = 32;
const OWNER_OFFSET: usize = 48;
const CRC_OFFSET: usize = 52;
/// The length of a pointer to a child.
const POINTER_BYTES: usize = 4;
/// The largest number of levels, `XFS_BTREE_MAXLEVELS`.
const LEVELS_MAX: u32 = 9;

/// A kind of tree. The first 32 bits of its records and keys are what they are sorted by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeKind {
    name: &'static str,
    magic: [u8; 4],
    magic_v5: [u8; 4],
    record_bytes: usize,
    key_bytes: usize,
}

/// Free space by block: first block and length.
pub(crate) const BNOBT: TreeKind = TreeKind {
    name: "block of the free space by block",
    magic: *b"ABTB",
    magic_v5: *b"AB3B",
    record_bytes: 8,
    key_bytes: 8,
};
/// Chunks of inodes: first inode, counts, and a bitmap of free inodes.
pub(crate) const INOBT: TreeKind = TreeKind {
    name: "block of the inode chunks",
    magic: *b"IABT",
    magic_v5: *b"IAB3",
    record_bytes: 16,
    key_bytes: 4,
};

/// A node, with the index of its next record.
#[derive(Debug)]
struct Node {
    bytes: Arc<[u8]>,
    at: u64,
    level: u16,
    count: usize,
    next: usize,
}

/// The records of a tree of an allocation group from a key on.
#[derive(Debug)]
pub(crate) struct Records<'a> {
    volume: &'a Volume,
    kind: TreeKind,
    ag: u32,
    path: Vec<Node>,
    last: Option<u32>,
    error: Option<Error>,
}

impl<'a> Records<'a> {
    /// Returns the records of the tree with this root and number of levels. The first one is the
    /// last one whose key is at most `from`, if there is such.
    pub(crate) fn new(
        volume: &'a Volume,
        kind: TreeKind,
        ag: u32,
        (root, levels): (u32, u32),
        from: u32,
    ) -> Self {
        let mut records = Self {
            volume,
            kind,
            ag,
            path: Vec::new(),
            last: None,
            error: None,
        };
        records.error = records.start(root, levels, from).err();
        records
    }

    fn start(&mut self, root: u32, levels: u32, from: u32) -> Result<()> {
        let level = levels.checked_sub(1).filter(|_| levels <= LEVELS_MAX);
        let level = level
            .and_then(|level| u16::try_from(level).ok())
            .ok_or_else(|| {
                let at = self.volume.superblock.ag_start(self.ag);
                corrupt(
                    format!("a tree of allocation group {} has {levels} levels", self.ag),
                    at,
                )
            })?;
        let mut node = self.read(root, level, true)?;
        node.next = self.search(&node, from);
        self.path.push(node);
        self.descend(Some(from))
    }

    fn descend(&mut self, from: Option<u32>) -> Result<()> {
        while let Some(parent) = self.path.last_mut() {
            let Some(level) = parent.level.checked_sub(1) else {
                return Ok(());
            };
            let (at, next) = (parent.at, parent.next);
            parent.next = next.saturating_add(1);
            let child = self.path.last().and_then(|parent| self.child(parent, next));
            let child = child.ok_or_else(|| self.invalid("too few records", at))?;
            let mut node = self.read(child, level, false)?;
            if let Some(from) = from {
                node.next = self.search(&node, from);
            }
            self.path.push(node);
        }
        Ok(())
    }

    fn invalid(&self, what: &str, at: u64) -> Error {
        corrupt(format!("invalid {}: {what}", self.kind.name), at)
    }

    fn header_bytes(&self) -> usize {
        if self.volume.superblock.has_checksums() {
            HEADER_V5_BYTES
        } else {
            HEADER_BYTES
        }
    }

    fn item_bytes(&self, level: u16) -> usize {
        if level == 0 {
            self.kind.record_bytes
        } else {
            self.kind.key_bytes.saturating_add(POINTER_BYTES)
        }
    }

    fn capacity(&self, level: u16) -> usize {
        let space = self
            .volume
            .superblock
            .block_len()
            .saturating_sub(self.header_bytes());
        space.checked_div(self.item_bytes(level)).unwrap_or(0)
    }

    fn read(&self, block: u32, level: u16, is_root: bool) -> Result<Node> {
        let superblock = &self.volume.superblock;
        let place = superblock.byte_of(superblock.fs_block(self.ag, block));
        let place = place.filter(|_| block < superblock.ag_len_blocks(self.ag));
        let ag_start = superblock.ag_start(self.ag);
        let at = place.ok_or_else(|| self.invalid("it lies outside of its group", ag_start))?;
        let bytes = self.volume.read_bytes(at, superblock.block_len())?;
        self.check(&bytes, at)?;
        let count = usize::from(be16(&bytes, 6).unwrap_or(0));
        let fits = count <= self.capacity(level) && (count > 0 || (is_root && level == 0));
        if be16(&bytes, 4) != Some(level) || !fits {
            return Err(self.invalid("unexpected level or number of records", at));
        }
        Ok(Node {
            bytes,
            at,
            level,
            count,
            next: 0,
        })
    }

    fn check(&self, bytes: &[u8], at: u64) -> Result<()> {
        let superblock = &self.volume.superblock;
        let name = self.kind.name;
        if !superblock.has_checksums() {
            return if bytes.starts_with(&self.kind.magic) {
                Ok(())
            } else {
                Err(self.invalid("wrong magic", at))
            };
        }
        if !bytes.starts_with(&self.kind.magic_v5) {
            return Err(self.invalid("wrong magic", at));
        }
        checksum::verify(bytes, CRC_OFFSET, name, at)?;
        checksum::verify_uuid(bytes, UUID_OFFSET, &superblock.meta_uuid, name, at)?;
        let belongs = be64(bytes, BLOCK_OFFSET) == Some(basic_block(at))
            && be32(bytes, OWNER_OFFSET) == Some(self.ag);
        if belongs {
            return Ok(());
        }
        Err(self.invalid("it belongs to another place", at))
    }

    /// Returns the key of the `nth` record of a node.
    fn key(&self, node: &Node, nth: usize) -> Option<u32> {
        let step = match node.level {
            0 => self.kind.record_bytes,
            _ => self.kind.key_bytes,
        };
        let offset = self.header_bytes().checked_add(nth.checked_mul(step)?)?;
        (nth < node.count)
            .then(|| be32(&node.bytes, offset))
            .flatten()
    }

    fn child(&self, node: &Node, nth: usize) -> Option<u32> {
        let keys = self.capacity(node.level).checked_mul(self.kind.key_bytes)?;
        let offset = keys.checked_add(nth.checked_mul(POINTER_BYTES)?)?;
        let offset = self.header_bytes().checked_add(offset)?;
        (nth < node.count)
            .then(|| be32(&node.bytes, offset))
            .flatten()
    }

    /// Returns the index of the last record whose key is at most `from`, or 0.
    fn search(&self, node: &Node, from: u32) -> usize {
        let (mut low, mut high) = (0, node.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.key(node, middle).is_some_and(|key| key <= from) {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        low.saturating_sub(1)
    }

    fn step(&mut self) -> Option<Result<Vec<u8>>> {
        if let Some(error) = self.error.take() {
            return Some(Err(error));
        }
        loop {
            let node = self.path.last_mut()?;
            if node.next >= node.count {
                self.path.pop();
                continue;
            }
            if node.level > 0 {
                if let Err(e) = self.descend(None) {
                    return Some(Err(e));
                }
                continue;
            }
            let (nth, at) = (node.next, node.at);
            node.next = nth.saturating_add(1);
            let node = self.path.last()?;
            let key = self.key(node, nth);
            if key.is_none() || (self.last.is_some() && key <= self.last) {
                return Some(Err(self.invalid("its records are not in order", at)));
            }
            let start = self
                .header_bytes()
                .checked_add(nth.checked_mul(self.kind.record_bytes)?)?;
            let record = part(&node.bytes, start, index(self.kind.record_bytes))?.to_vec();
            self.last = key;
            return Some(Ok(record));
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if matches!(step, Some(Err(_))) {
            self.path.clear();
        }
        step
    }
}
