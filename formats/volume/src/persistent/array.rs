//! Arrays of 64-bit numbers, `array_block`, whose blocks are in a tree. Linux,
//! `drivers/md/persistent-data/dm-array.c`.

use std::num::NonZeroU64;
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::block::{BlockKind, Blocks};

/// The kind of array blocks; its checksum constant is `CSUM_XOR`.
const KIND: BlockKind = BlockKind {
    name: "array block",
    xor: 595_846_735,
    number_at: 16,
};

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    csum: U32,
    max_entries: U32,
    nr_entries: U32,
    value_size: U32,
    blocknr: U64,
}

const HEADER_BYTES: usize = size_of::<RawHeader>();
const _: () = assert!(HEADER_BYTES == 24);

/// The number of entries in a block of 4096 bytes: 509.
const ENTRIES: NonZeroU64 = NonZeroU64::new(509).unwrap();

/// An array that is read in order.
pub(crate) struct Array<'a, D: ?Sized> {
    blocks: &'a Blocks<D>,
    root: u64,
    /// The last block that was read, and its index in the array.
    last: Option<(u64, Arc<Vec<u8>>)>,
}

impl<'a, D: BlockRead + ?Sized> Array<'a, D> {
    pub(crate) fn new(blocks: &'a Blocks<D>, root: u64) -> Self {
        let last = None;
        Self { blocks, root, last }
    }

    /// Returns the entry at `index`.
    pub(crate) fn get(&mut self, index: u64) -> Result<u64> {
        let block = self.block(index / ENTRIES)?;
        let short = || {
            Error::corrupt(format!(
                "has an array that is too short: missing entry {index}"
            ))
        };
        let (header, entries) = RawHeader::ref_from_prefix(&block).map_err(|_| short())?;
        let within = index % ENTRIES;
        if within >= u64::from(header.nr_entries.get()) || header.value_size.get() != 8 {
            return Err(short());
        }
        let entry = usize::try_from(within).ok();
        let entry = entry.and_then(|entry| entries.chunks_exact(8).nth(entry));
        let bytes = entry.and_then(<[u8]>::first_chunk).ok_or_else(short)?;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn block(&mut self, index: u64) -> Result<Arc<Vec<u8>>> {
        if let Some((at, block)) = &self.last
            && *at == index
        {
            return Ok(Arc::clone(block));
        }
        let number = self.blocks.number(self.root, index)?.ok_or_else(|| {
            let reason = format!("has an array with a missing block: {index}");
            Error::corrupt(reason)
        })?;
        let block = self.blocks.get(number, KIND)?;
        self.last = Some((index, Arc::clone(&block)));
        Ok(block)
    }
}
