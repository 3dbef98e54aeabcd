//! The orphan file: blocks of inode numbers, each with a tail for the checksum.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Orphan file".

use crate::block::{FileBlock, FsBlock};
use crate::bytes::{index, le32, put};
use crate::checksum::ChecksumSeed;
use crate::error::{Corrupt, InInode, Result, Structure, malformed};
use crate::file_blocks::runs;
use crate::handle::Handle;
use crate::inode::Inode;
use crate::inode_table;
use crate::metadata_cache::Key;
use crate::volume::Volume;

/// The magic of a block, `EXT4_ORPHAN_BLOCK_MAGIC`.
const MAGIC: u32 = 0x0b10_ca04;
/// The size of magic and checksum at a block's end.
const TAIL_BYTES: usize = 8;
const NUMBER_BYTES: usize = 4;
/// The maximum size of the file (`EXT4_MAX_ORPHAN_FILE_SIZE`, 8 MiB in Linux).
const SIZE_MAX_BYTES: u64 = 8 << 20;

/// Returns a block without orphans, with its checksum if there is a seed.
pub(crate) fn empty_block(
    block_bytes: usize,
    seed: Option<ChecksumSeed>,
    place: FsBlock,
) -> Vec<u8> {
    let numbers_bytes = block_bytes.saturating_sub(TAIL_BYTES);
    let mut bytes = vec![0; block_bytes];
    put(&mut bytes, numbers_bytes, &MAGIC.to_le_bytes());
    if let Some(checksum) = checksum(seed, place, numbers_bytes, &bytes) {
        let at = block_bytes.saturating_sub(NUMBER_BYTES);
        put(&mut bytes, at, &checksum.to_le_bytes());
    }
    bytes
}

/// Computes the checksum of a block's number and its slots.
fn checksum(
    seed: Option<ChecksumSeed>,
    place: FsBlock,
    numbers_bytes: usize,
    bytes: &[u8],
) -> Option<u32> {
    let slots = bytes.get(..numbers_bytes).unwrap_or_default();
    Some(seed?.of(&[&place.0.to_le_bytes(), slots]))
}

/// The place of one inode number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// The index of the block in the file.
    block: usize,
    /// The byte offset in the block.
    offset: usize,
}

/// A block of the orphan file.
#[derive(Debug)]
struct OrphanBlock {
    place: FsBlock,
    free: usize,
}

/// The orphan file, and what is known of its blocks.
#[derive(Debug)]
pub(super) struct OrphanFile {
    inode: u32,
    /// The seed of the blocks' checksums; `None` without `metadata_csum`.
    seed: Option<ChecksumSeed>,
    numbers_bytes: usize,
    blocks: Vec<OrphanBlock>,
}

impl OrphanFile {
    /// Reads the file, and counts its free slots. Returns `None` for a filesystem without one.
    pub(super) fn open(volume: &Volume) -> Result<Option<Self>> {
        let number = volume.superblock.orphan_file_inode;
        if number == 0 {
            return Ok(None);
        }
        let structure = Structure::Inode(number);
        let inode = inode_table::read(volume, number)?
            .ok_or_else(|| malformed(structure, "not in use, although it is the orphan file"))?;
        if inode.size_bytes > SIZE_MAX_BYTES {
            return Err(malformed(structure, "the orphan file is too large"));
        }
        let size = volume.superblock.block_size;
        let mut file = Self {
            inode: number,
            seed: inode.checksum_seed,
            numbers_bytes: size.len().saturating_sub(TAIL_BYTES),
            blocks: Vec::new(),
        };
        for place in places(volume, &inode)? {
            let bytes = file.read(volume, place)?;
            let free = numbers(&bytes).filter(|(_, number)| *number == 0).count();
            file.blocks.push(OrphanBlock { place, free });
        }
        Ok(Some(file))
    }

    /// Returns all orphans in the file.
    pub(super) fn orphans(&self, volume: &Volume) -> Result<Vec<(u32, Slot)>> {
        let mut all = Vec::new();
        for (nth, block) in self.blocks.iter().enumerate() {
            let bytes = self.read(volume, block.place)?;
            let used = numbers(&bytes).filter(|(_, number)| *number != 0);
            all.extend(used.map(|(offset, number)| (number, Slot { block: nth, offset })));
        }
        Ok(all)
    }

    /// Adds an orphan. Returns `None` if the file is full.
    pub(super) fn add(&mut self, handle: &Handle<'_>, number: u32) -> Result<Option<Slot>> {
        let Some(nth) = self.blocks.iter().position(|block| block.free > 0) else {
            return Ok(None);
        };
        let Some(place) = self.blocks.get(nth).map(|block| block.place) else {
            return Ok(None);
        };
        let bytes = self.read(handle.volume(), place)?;
        let free = numbers(&bytes).find(|(_, number)| *number == 0);
        let Some((offset, _)) = free else {
            return Ok(None);
        };
        let slot = Slot { block: nth, offset };
        self.set(handle, slot, number)?;
        if let Some(block) = self.blocks.get_mut(nth) {
            block.free = block.free.saturating_sub(1);
        }
        Ok(Some(slot))
    }

    /// Removes an orphan.
    pub(super) fn remove(&mut self, handle: &Handle<'_>, slot: Slot) -> Result<()> {
        self.set(handle, slot, 0)?;
        if let Some(block) = self.blocks.get_mut(slot.block) {
            block.free = block.free.saturating_add(1);
        }
        Ok(())
    }

    fn set(&self, handle: &Handle<'_>, slot: Slot, number: u32) -> Result<()> {
        let Some(block) = self.blocks.get(slot.block) else {
            return Ok(());
        };
        // The block was read before, so this does nothing.
        self.read(handle.volume(), block.place)?;
        handle.change(Key::orphan_block(self.inode, block.place), |bytes| {
            put(bytes, slot.offset, &number.to_le_bytes());
            if let Some(checksum) = self.checksum(block.place, bytes) {
                let at = bytes.len().saturating_sub(NUMBER_BYTES);
                put(bytes, at, &checksum.to_le_bytes());
            }
        })
    }

    fn read(&self, volume: &Volume, place: FsBlock) -> Result<std::sync::Arc<[u8]>> {
        let key = Key::orphan_block(self.inode, place);
        volume
            .checked_block(key, |bytes| self.verify(place, bytes))
            .in_inode(self.inode)
    }

    fn verify(&self, place: FsBlock, bytes: &[u8]) -> Result<()> {
        let structure = Structure::OrphanBlock(place);
        let actual = le32(bytes, self.numbers_bytes).unwrap_or(0);
        if actual != MAGIC {
            return Err(Corrupt::Magic {
                structure,
                expected: MAGIC,
                actual,
            }
            .into());
        }
        let actual = le32(bytes, bytes.len().saturating_sub(NUMBER_BYTES)).unwrap_or(0);
        match self.checksum(place, bytes) {
            Some(expected) if expected != actual => Err(Corrupt::Checksum {
                structure,
                expected,
                actual,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// Computes the checksum of the block's number and its slots.
    fn checksum(&self, place: FsBlock, bytes: &[u8]) -> Option<u32> {
        checksum(self.seed, place, self.numbers_bytes, bytes)
    }
}

/// Returns the slots of a block: byte offset and inode number.
fn numbers(block: &[u8]) -> impl Iterator<Item = (usize, u32)> {
    let slots = block.len().saturating_sub(TAIL_BYTES);
    let bytes = block.get(..slots).unwrap_or_default();
    let numbers = bytes.as_chunks::<NUMBER_BYTES>().0.iter();
    numbers
        .enumerate()
        .map(|(nth, bytes)| (nth.saturating_mul(NUMBER_BYTES), u32::from_le_bytes(*bytes)))
}

fn places(volume: &Volume, inode: &Inode) -> Result<Vec<FsBlock>> {
    let size = volume.superblock.block_size;
    let len = index(size.blocks_for(inode.size_bytes));
    let mut places = Vec::new();
    for run in runs(volume, inode, FileBlock(0)) {
        let run = run?;
        let blocks = (0..u64::from(run.len_blocks)).map(|nth| run.fs_block.after(nth));
        places.extend(blocks.take(len.saturating_sub(places.len())));
    }
    if places.len() == len {
        return Ok(places);
    }
    let problem = "the orphan file has a hole";
    Err(malformed(Structure::Inode(inode.number), problem))
}
