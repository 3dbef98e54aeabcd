//! The entries of a directory that may change while it is listed: in the order of their names' hashes,
//! a batch at a time.
//!
//! An entry's byte says nothing there: whoever cuts a leaf in two or packs it moves entries. Their
//! hashes stay, so a cookie is made of them (the kernel does the same), and an entry that is there
//! all the time is seen once, whatever happens to others between two batches.

use std::sync::Arc;

use diskfs_vfs::{DirEntry, InodeNumber};

use super::entries::{Regions, dir_entry};
use super::entry::Entry;
use super::lookup::{Blocks, Place};
use super::{block, casefold, inline, region};
use crate::block::FileBlock;
use crate::bytes::len_u64;
use crate::checksum::crc32c;
use crate::error::{Error, Result, Structure, malformed};
use crate::htree::{Algorithm, HashSeed, Hasher, Leaves, NameHash};
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;

/// How many entries a batch has, if there are so many, and at the most some leaves' more: enough that
/// the search for where to go on costs little for each.
const BATCH_LEN: usize = 1024;
/// How many keys are gathered before those that come too late for the batch are left out.
const KEYS_MAX: usize = 8 * BATCH_LEN;

/// A part of a listing.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<DirEntry>,
    /// The cookie to go on with, unless this was all.
    pub(crate) next: Option<u64>,
}

/// The entries from `cookie` on: 0, or that of the last one seen.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn batch(volume: &Volume, directory: &Inode, cookie: u64) -> Result<Batch> {
    let mut keys = Gathering {
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

/// What hashes names where no index says it. Any that stays the same will do; a directory that gets
/// an index later has this one.
fn hasher(volume: &Volume) -> Hasher {
    let superblock = &volume.superblock;
    Hasher {
        algorithm: superblock.default_hash.unwrap_or(Algorithm::HalfMd4),
        sign: superblock.hash_signedness,
        seed: HashSeed::new(superblock.hash_seed),
    }
}

/// Where an entry stands in the order of a listing: 0 and 1 are `.` and `..`, then come the names by
/// hash, and by checksum. The low byte counts those that have the same of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position(u64);

impl Position {
    const DOT: Self = Self(0);
    const DOT_DOT: Self = Self(1);
    /// How many positions there are for the same hash and checksum.
    const STEP: u64 = 1 << 8;
    const HASH_SHIFT: u32 = 32;

    /// Where names of this hash begin; its low bit does not count.
    fn of_hash(hash: u32) -> Self {
        let hash = u64::from(hash.wrapping_shr(1));
        // Behind the two dots. The highest hash has 31 bits, so this has 63, as an `off_t`.
        Self(
            hash.wrapping_shl(Self::HASH_SHIFT)
                .saturating_add(Self::STEP),
        )
    }

    fn of_name(hash: NameHash, name: &[u8]) -> Self {
        let low = u64::from(crc32c(u32::MAX, name)) & !Self::STEP.wrapping_sub(1);
        Self(Self::of_hash(hash.0).0.saturating_add(low))
    }

    /// Where the names that have the same of all begin.
    fn of_cookie(cookie: u64) -> Self {
        if cookie < Self::STEP {
            Self(cookie)
        } else {
            Self(cookie & !Self::STEP.wrapping_sub(1))
        }
    }

    /// A hash whose names stand here or before it.
    fn hash(self) -> NameHash {
        let hash = self.0.saturating_sub(Self::STEP);
        let hash = hash.wrapping_shr(Self::HASH_SHIFT);
        NameHash(u32::try_from(hash).unwrap_or(u32::MAX).wrapping_shl(1))
    }

    /// The next one that is not of the same names.
    const fn behind(self) -> Self {
        Self(self.0.saturating_add(Self::STEP))
    }
}

/// An entry's position, and where it is.
#[derive(Debug, Clone, Copy)]
struct Key {
    position: Position,
    place: Place,
    /// Within the entries there.
    offset: usize,
}

/// The keys of a batch.
struct Gathering<'a> {
    volume: &'a Volume,
    directory: &'a Inode,
    from: Position,
    /// What is from here on is for another batch.
    until: Option<Position>,
    found: Vec<Key>,
    hasher: Hasher,
}

impl Gathering<'_> {
    /// Finds the entries that come first.
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
        self.leave_first();
        Ok(())
    }

    fn inline(&mut self) -> Result<()> {
        self.add_implied(Position::DOT);
        self.add_implied(Position::DOT_DOT);
        for part in inline::PARTS {
            let bytes = part.of(self.directory)?;
            self.add(Place::Inline(part), part.start(), bytes)?;
        }
        Ok(())
    }

    fn add_implied(&mut self, position: Position) {
        self.add_key(Key {
            position,
            place: Place::Implied,
            offset: 0,
        });
    }

    fn add_key(&mut self, key: Key) {
        if key.position >= self.from && self.until.is_none_or(|until| key.position < until) {
            self.found.push(key);
        }
    }

    /// Takes leaf by leaf until there is enough. Names of one hash stay together.
    fn indexed(&mut self, mut leaves: Leaves<'_, Blocks<'_>>) -> Result<()> {
        if self.from <= Position::DOT_DOT {
            let root = block::read(self.volume, self.directory, FileBlock(0))?;
            // The entry of `..` covers all of the index.
            self.add_block(FileBlock(0), &root)?;
        }
        // None is met twice in a sound index.
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
        Err(self.malformed("its index leads to more leaves than it has blocks"))
    }

    /// Leaves out what has no business in the leaves before `next`.
    fn end_at(&mut self, next: Position) -> Result<()> {
        if next <= self.from {
            return Err(self.malformed("its index is not in order"));
        }
        let until = self.until.map_or(next, |until| until.min(next));
        self.found.retain(|key| key.position < until);
        self.until = Some(until);
        Ok(())
    }

    /// Leaves out all that does not come first.
    fn leave_first(&mut self) {
        if self.found.len() <= BATCH_LEN {
            return;
        }
        let (before, other, _) = self
            .found
            .select_nth_unstable_by_key(BATCH_LEN, |key| key.position);
        let first = before.iter().map(|key| key.position).min();
        // Names that have the same of all stay together, however many there are.
        let until = if first == Some(other.position) {
            other.position.behind()
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
        // With the tail, which is an entry that is not in use; the root of an index has none.
        self.add(Place::Block(block), start, bytes)
    }

    fn add(&mut self, place: Place, start: u64, bytes: &[u8]) -> Result<()> {
        for placed in region::in_use(&self.volume.superblock, bytes) {
            let placed = placed.map_err(|broken| broken.in_directory(self.directory, start))?;
            self.add_key(Key {
                position: self.position(placed.entry.name),
                place,
                offset: placed.offset,
            });
        }
        if self.found.len() > KEYS_MAX {
            self.leave_first();
        }
        // Nobody has so many names whose hashes and checksums are the same.
        if self.found.len() > KEYS_MAX {
            return Err(self.malformed("it has thousands of names of the same hash"));
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
            Place::Implied if key.position == Position::DOT => {
                Ok(Some(inline::dot(self.directory, cookie)))
            }
            Place::Implied => Ok(Some(inline::dot_dot(self.directory, cookie))),
            Place::Inline(part) => {
                self.entry_in(part.start(), part.of(self.directory)?, key, cookie)
            }
            Place::Block(block) => {
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
        // It was parsed before, and nobody changed it meanwhile.
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
