//! Listing of directories that may change meanwhile: in the order of the names' hashes, in batches.
//!
//! The byte offset of an entry cannot identify it there: splitting or packing a leaf moves entries.
//! Their hashes stay the same, so a cookie consists of them, as in the kernel. An entry that exists
//! all the time is returned once, whatever happens to others between two batches.

use std::sync::Arc;

use diskfs_vfs::{DirEntry, InodeNumber};

use super::entries::{Regions, dir_entry};
use super::entry::Entry;
use super::lookup::{Blocks, EntryRegion};
use super::{block, casefold, inline, region};
use crate::block::FileBlock;
use crate::bytes::len_u64;
use crate::checksum::crc32c;
use crate::error::{Error, Result, Structure, malformed};
use crate::htree::{Algorithm, HashSeed, Hasher, Leaves, NameHash};
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;

/// The target number of entries of a batch. A batch may be larger by the entries of some leaves. It
/// is large enough that searching where to continue costs little for each entry.
const BATCH_LEN: usize = 1024;
/// The number of keys that are collected before those that come too late for the batch are dropped.
const KEYS_MAX: usize = 8 * BATCH_LEN;

/// A part of a listing.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<DirEntry>,
    /// The cookie to continue with, or `None` if this was the last batch.
    pub(crate) next: Option<u64>,
}

/// Returns the entries from `cookie` on: 0, or the cookie of the last entry seen.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn batch(volume: &Volume, directory: &Inode, cookie: u64) -> Result<Batch> {
    let mut keys = BatchKeys {
        volume,
        directory,
        from: Position::of_cookie(cookie),
        until: None,
        found: Vec::new(),
        hasher: hasher(volume),
    };
    keys.collect()?;
    keys.into_batch(cookie)
}

/// Returns the hash function for directories without an index. Any constant function would do; a
/// directory that gets an index later uses this one.
fn hasher(volume: &Volume) -> Hasher {
    let superblock = &volume.superblock;
    Hasher {
        algorithm: superblock.default_hash.unwrap_or(Algorithm::HalfMd4),
        sign: superblock.hash_signedness,
        seed: HashSeed::new(superblock.hash_seed),
    }
}

/// The position of an entry in the order of a listing: 0 and 1 are `.` and `..`; the names follow
/// by hash, and then by checksum. The low byte distinguishes names that agree in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position(u64);

impl Position {
    const DOT: Self = Self(0);
    const DOT_DOT: Self = Self(1);
    /// The number of positions for the same hash and checksum.
    const STEP: u64 = 1 << 8;
    const HASH_SHIFT: u32 = 32;

    /// Returns the first position of names with this hash; its low bit does not count.
    fn of_hash(hash: u32) -> Self {
        let hash = u64::from(hash.wrapping_shr(1));
        // After the two dots. The highest hash has 31 bits, so this has 63, and fits into an
        // `off_t`.
        Self(
            hash.wrapping_shl(Self::HASH_SHIFT)
                .saturating_add(Self::STEP),
        )
    }

    fn of_name(hash: NameHash, name: &[u8]) -> Self {
        let low = u64::from(crc32c(u32::MAX, name)) & !Self::STEP.wrapping_sub(1);
        Self(Self::of_hash(hash.0).0.saturating_add(low))
    }

    /// Returns the first position of the names that agree with the cookie in hash and checksum.
    fn of_cookie(cookie: u64) -> Self {
        if cookie < Self::STEP {
            Self(cookie)
        } else {
            Self(cookie & !Self::STEP.wrapping_sub(1))
        }
    }

    /// Returns a hash whose names are at this position or before it.
    fn hash(self) -> NameHash {
        let hash = self.0.saturating_sub(Self::STEP);
        let hash = hash.wrapping_shr(Self::HASH_SHIFT);
        NameHash(u32::try_from(hash).unwrap_or(u32::MAX).wrapping_shl(1))
    }

    /// Returns the next position whose hash or checksum differs.
    const fn next_hash(self) -> Self {
        Self(self.0.saturating_add(Self::STEP))
    }
}

/// An entry's position in the listing, and where the entry is stored.
#[derive(Debug, Clone, Copy)]
struct Key {
    position: Position,
    place: EntryRegion,
    /// The offset within that region of entries.
    offset: usize,
}

/// The state while the keys of a batch are collected.
struct BatchKeys<'a> {
    volume: &'a Volume,
    directory: &'a Inode,
    from: Position,
    /// The position from which entries belong to another batch.
    until: Option<Position>,
    found: Vec<Key>,
    hasher: Hasher,
}

impl BatchKeys<'_> {
    /// Collects the entries that come first.
    fn collect(&mut self) -> Result<()> {
        if self.directory.has(InodeFlags::INLINE_DATA) {
            return self.inline();
        }
        if block::is_indexed(self.volume, self.directory) {
            let index = block::htree_directory(self.volume, self.directory);
            let blocks = Blocks {
                volume: self.volume,
                directory: self.directory,
            };
            if let Some(leaves) = Leaves::from(&index, &blocks, self.from.hash())? {
                self.hasher = leaves.hasher;
                return self.indexed(leaves);
            }
        }
        for region in Regions::new(self.volume, self.directory, 0)? {
            let region = region?;
            self.add_block(region.block, &region.bytes)?;
        }
        self.truncate_batch();
        Ok(())
    }

    fn inline(&mut self) -> Result<()> {
        self.add_implied(Position::DOT);
        self.add_implied(Position::DOT_DOT);
        for part in inline::PARTS {
            let bytes = part.of(self.directory)?;
            self.add(EntryRegion::Inline(part), part.start(), bytes)?;
        }
        Ok(())
    }

    fn add_implied(&mut self, position: Position) {
        self.add_key(Key {
            position,
            place: EntryRegion::Implied,
            offset: 0,
        });
    }

    fn add_key(&mut self, key: Key) {
        if key.position >= self.from && self.until.is_none_or(|until| key.position < until) {
            self.found.push(key);
        }
    }

    /// Reads leaf by leaf until there are enough entries. Names with the same hash stay together.
    fn indexed(&mut self, mut leaves: Leaves<'_, Blocks<'_>>) -> Result<()> {
        if self.from <= Position::DOT_DOT {
            let root = block::read(self.volume, self.directory, FileBlock(0))?;
            // In the root of an index the entry of `..` covers the whole index.
            self.add_block(FileBlock(0), &root)?;
        }
        // A valid index leads to each leaf only once.
        for _ in 0..block::len_blocks(self.volume, self.directory)? {
            let leaf = leaves.leaf()?;
            let bytes = block::read(self.volume, self.directory, leaf)?;
            self.add_block(leaf, &bytes)?;
            let Some(next) = leaves.next_hash()? else {
                return Ok(());
            };
            let continued = next & 1 == 1;
            if self.found.len() >= BATCH_LEN && !continued {
                return self.end_at(Position::of_hash(next));
            }
            leaves.step()?;
        }
        Err(self.malformed("its index refers to more leaves than the directory has blocks"))
    }

    /// Removes entries that are in the leaves before `next` although they belong after it.
    fn end_at(&mut self, next: Position) -> Result<()> {
        if next <= self.from {
            return Err(self.malformed("the entries of its index are out of order"));
        }
        let until = self.until.map_or(next, |until| until.min(next));
        self.found.retain(|key| key.position < until);
        self.until = Some(until);
        Ok(())
    }

    /// Keeps only the first entries, as many as a batch has.
    fn truncate_batch(&mut self) {
        if self.found.len() <= BATCH_LEN {
            return;
        }
        let (before, other, _) = self
            .found
            .select_nth_unstable_by_key(BATCH_LEN, |key| key.position);
        let first = before.iter().map(|key| key.position).min();
        // Names that agree in hash and checksum stay together, however many there are.
        let until = if first == Some(other.position) {
            other.position.next_hash()
        } else {
            other.position
        };
        self.found.retain(|key| key.position < until);
        self.until = Some(until);
    }

    fn malformed(&self, problem: &'static str) -> Error {
        let structure = Structure::Inode(self.directory.number);
        malformed(structure, problem).in_inode(InodeNumber(u64::from(self.directory.number)))
    }

    fn add_block(&mut self, block: FileBlock, bytes: &[u8]) -> Result<()> {
        let start = block::start_of(self.volume, block);
        // Includes the tail, which is an unused entry; the root of an index has none.
        self.add(EntryRegion::Block(block), start, bytes)
    }

    fn add(&mut self, place: EntryRegion, start: u64, bytes: &[u8]) -> Result<()> {
        for placed in region::in_use(&self.volume.superblock, bytes) {
            let placed = placed.map_err(|broken| broken.in_directory(self.directory, start))?;
            self.add_key(Key {
                position: self.position(placed.entry.name),
                place,
                offset: placed.offset,
            });
        }
        if self.found.len() > KEYS_MAX {
            self.truncate_batch();
        }
        // So many names with equal hashes and checksums do not occur in practice.
        if self.found.len() > KEYS_MAX {
            return Err(self.malformed("it has thousands of names with the same hash"));
        }
        Ok(())
    }

    fn position(&self, name: &[u8]) -> Position {
        match name {
            b"." => Position::DOT,
            b".." => Position::DOT_DOT,
            _ if self.directory.has(InodeFlags::CASEFOLD) => {
                let hash = self.hasher.hash(&casefold::hashed(name));
                Position::of_name(hash, name)
            }
            _ => Position::of_name(self.hasher.hash(name), name),
        }
    }

    fn into_batch(mut self, cookie: u64) -> Result<Batch> {
        self.found
            .sort_unstable_by_key(|key| (key.position, key.place, key.offset));
        let mut entries = Vec::with_capacity(self.found.len());
        let mut reader = Reader::new(self.volume, self.directory);
        let mut last: Option<(Position, u64)> = None;
        for key in &self.found {
            let same = match last {
                Some((position, same)) if position == key.position => same.saturating_add(1),
                _ => 0,
            };
            last = Some((key.position, same));
            let same = same.min(Position::STEP.wrapping_sub(1));
            let position = key.position.0.saturating_add(same);
            if position >= cookie {
                entries.extend(reader.entry(key, position.saturating_add(1))?);
            }
        }
        let next = self.until.map(|until| until.0);
        Ok(Batch { entries, next })
    }
}

/// Reads the entries of keys.
struct Reader<'a> {
    volume: &'a Volume,
    directory: &'a Inode,
    /// The block that was read last.
    block: Option<(FileBlock, Arc<[u8]>)>,
}

impl<'a> Reader<'a> {
    const fn new(volume: &'a Volume, directory: &'a Inode) -> Self {
        Self {
            volume,
            directory,
            block: None,
        }
    }

    fn entry(&mut self, key: &Key, cookie: u64) -> Result<Option<DirEntry>> {
        match key.place {
            EntryRegion::Implied if key.position == Position::DOT => {
                Ok(Some(inline::dot(self.directory, cookie)))
            }
            EntryRegion::Implied => Ok(Some(inline::dot_dot(self.directory, cookie))),
            EntryRegion::Inline(part) => {
                self.entry_in(part.start(), part.of(self.directory)?, key, cookie)
            }
            EntryRegion::Block(block) => {
                let bytes = self.bytes(block)?;
                let start = block::start_of(self.volume, block);
                self.entry_in(start, &bytes, key, cookie)
            }
        }
    }

    fn bytes(&mut self, block: FileBlock) -> Result<Arc<[u8]>> {
        match &self.block {
            Some((number, bytes)) if *number == block => Ok(Arc::clone(bytes)),
            _ => {
                let bytes = block::read(self.volume, self.directory, block)?;
                self.block = Some((block, Arc::clone(&bytes)));
                Ok(bytes)
            }
        }
    }

    fn entry_in(
        &self,
        start: u64,
        bytes: &[u8],
        key: &Key,
        cookie: u64,
    ) -> Result<Option<DirEntry>> {
        let at = start.saturating_add(len_u64(key.offset));
        // The entry was parsed before, and has not changed meanwhile.
        match Entry::parse(&self.volume.superblock, bytes, key.offset) {
            Ok(entry) => dir_entry(self.volume, self.directory, entry, at, cookie),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_in_the_order_of_hashes() {
        let highest = Position::of_name(NameHash(0xffff_fffc), b"z");
        assert!(highest.0 < (1 << 63) - Position::STEP);
        assert!(Position::DOT_DOT < Position::of_hash(0));
        for hash in [0, 2, 0x1234_5678, 0xffff_fffc] {
            let start = Position::of_hash(hash);
            assert_eq!(start, Position::of_hash(hash | 1));
            let name = Position::of_name(NameHash(hash), b"hello");
            assert!(start <= name && name < Position::of_hash(hash + 2));
            for cookie in [name.0, name.0 + 1, name.0 + 255] {
                assert_eq!(Position::of_cookie(cookie), name);
                assert_eq!(name.hash(), NameHash(hash));
            }
        }
    }
}
