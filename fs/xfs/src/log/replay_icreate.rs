//! Replaying the creation of inodes, `struct xfs_icreate_log`: new clusters of free inodes are
//! logged as one number of blocks instead of their bytes.

use zerocopy::big_endian::U32;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::{index, len_u64};
use crate::error::Result;
use crate::superblock::{BASIC_BLOCK_BYTES, INODES_PER_CHUNK};
use diskfs_block::bytes::put;

use super::buffer_format::BufferPlace;
use super::item::Item;
use super::log_dinode;
use super::replay::Replay;
use super::self_describing::put_checksum;

/// The bytes of `struct xfs_icreate_log`.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawIcreate {
    icl_type: U16,
    icl_size: U16,
    icl_ag: U32,
    icl_agbno: U32,
    icl_count: U32,
    icl_isize: U32,
    icl_length: U32,
    icl_gen: U32,
}

const _: () = assert!(size_of::<RawIcreate>() == 28);

/// The size of a cluster of inodes of 256 bytes, `XFS_INODE_BIG_CLUSTER_SIZE`.
const CLUSTER_BYTES: u32 = 8192;
/// The size of an inode for which [`CLUSTER_BYTES`] is meant.
const INODE_BYTES_MIN: u32 = 256;

impl Replay<'_> {
    /// Writes the free inodes of an icreate item, unless their clusters are freed later.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported`, `Io`.
    pub(super) fn icreate(&mut self, item: &Item) -> Result<()> {
        let raw = RawIcreate::read_from_prefix(item.format())
            .ok()
            .map(|(raw, _)| raw);
        let raw = raw.filter(|raw| self.is_valid(raw));
        let raw = raw.ok_or_else(|| self.invalid("an icreate item is invalid"))?;
        let ag_start = self.superblock.ag_start(raw.icl_ag.get());
        let first_block = u64::from(raw.icl_agbno.get());
        let byte = ag_start.saturating_add(self.superblock.bytes_of(first_block));
        let len = self.superblock.bytes_of(u64::from(raw.icl_length.get()));
        if self.has_cancelled_cluster(byte, len) {
            return Ok(());
        }
        let first = self
            .superblock
            .fs_block(raw.icl_ag.get(), raw.icl_agbno.get());
        let first = first.0.wrapping_shl(self.superblock.inodes_per_block_bits);
        let size = usize::from(self.superblock.inode_bytes);
        let mut bytes = vec![0; index(len)];
        for (number, inode) in (first..).zip(bytes.chunks_exact_mut(size)) {
            self.free_inode(inode, number, raw.icl_gen);
        }
        self.write(byte, &bytes)
    }

    fn is_valid(&self, raw: &RawIcreate) -> bool {
        let per_block = 1_u32.wrapping_shl(self.superblock.inodes_per_block_bits);
        let chunk = INODES_PER_CHUNK.max(per_block);
        let (block, blocks) = (raw.icl_agbno.get(), raw.icl_length.get());
        let end = block.checked_add(blocks);
        raw.icl_ag.get() < self.superblock.ag_count
            && block != 0
            && end.is_some_and(|end| end <= self.superblock.ag_len_blocks(raw.icl_ag.get()))
            && (1..=chunk).contains(&raw.icl_count.get())
            && Some(raw.icl_count.get()) == blocks.checked_mul(per_block)
            && raw.icl_isize.get() == u32::from(self.superblock.inode_bytes)
    }

    fn has_cancelled_cluster(&self, byte: u64, len: u64) -> bool {
        let cluster = self.cluster_bytes();
        let first = byte.wrapping_div(BASIC_BLOCK_BYTES);
        let len_basic_blocks = cluster.wrapping_div(512).max(1);
        let count = len.checked_div(u64::from(cluster)).unwrap_or(0);
        (0..count).any(|nth| {
            let offset = nth.saturating_mul(u64::from(len_basic_blocks));
            self.cancelled.contains(BufferPlace {
                basic_block: first.saturating_add(offset),
                len_basic_blocks,
            })
        })
    }

    /// Returns the size of the buffers in which the kernel reads inodes.
    fn cluster_bytes(&self) -> u32 {
        let block = self.superblock.block_bytes;
        let factor = u32::from(self.superblock.inode_bytes).wrapping_div(INODE_BYTES_MIN);
        let scaled = CLUSTER_BYTES.saturating_mul(factor);
        let alignment = self.superblock.inode_alignment_blocks;
        let is_aligned = alignment >= scaled.checked_div(block).unwrap_or(0);
        if self.superblock.has_checksums() && is_aligned {
            scaled.max(block)
        } else {
            CLUSTER_BYTES.max(block)
        }
    }

    /// Writes a free inode.
    fn free_inode(&self, inode: &mut [u8], number: u64, generation: U32) {
        let is_version_3 = self.superblock.has_checksums();
        put(inode, 0, &log_dinode::MAGIC.to_be_bytes());
        put(inode, 4, &[if is_version_3 { 3 } else { 2 }]);
        put(inode, 92, &generation.get().to_be_bytes());
        put(inode, 96, &u32::MAX.to_be_bytes());
        if is_version_3 {
            put(inode, 152, &number.to_be_bytes());
            put(inode, 160, &self.superblock.meta_uuid);
            put_checksum(inode, log_dinode::CRC);
        }
        debug_assert_eq!(len_u64(inode.len()), u64::from(self.superblock.inode_bytes));
    }
}
