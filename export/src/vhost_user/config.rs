//! What the guest is told of the device: feature bits, and `struct virtio_blk_config`
//! (virtio 1.3, 5.2.3 and 5.2.4).

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ,
    VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX, VIRTIO_BLK_F_WRITE_ZEROES,
};

use super::request::SECTOR_SIZE;

/// How many pieces of memory a request may have: as many as fit into QEMU's usual ring of 128, beside
/// header and status, also where the guest knows no indirect descriptors.
const MOST_SEGMENTS: u32 = 126;

/// How large each of them may be.
const LARGEST_SEGMENT: u32 = 512 * 1024;

/// So much a request moves at most, from a guest that keeps to what it was told.
pub(super) const LARGEST_REQUEST: u64 = 126 * 512 * 1024;

/// How many ranges one request may discard or zero.
pub(super) const MOST_RANGES: u32 = 32;

/// How long each of those may be: 2 GiB. Zeroes may have to be written, and nobody waits for them for
/// minutes.
pub(super) const LONGEST_RANGE: u32 = 4 * 1024 * 1024;

/// What is always offered.
const ALWAYS: u64 =
    1 << VIRTIO_BLK_F_SIZE_MAX | 1 << VIRTIO_BLK_F_SEG_MAX | 1 << VIRTIO_BLK_F_BLK_SIZE;

/// What is offered for a device that can be written.
const WRITABLE: u64 =
    1 << VIRTIO_BLK_F_FLUSH | 1 << VIRTIO_BLK_F_DISCARD | 1 << VIRTIO_BLK_F_WRITE_ZEROES;

/// What a guest that will flush by itself chooses. From any other, a write is durable when answered.
pub(super) const FLUSH: u64 = 1 << VIRTIO_BLK_F_FLUSH;

/// What a device is like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    pub(super) size_bytes: u64,
    /// What it is cheapest to discard in units of.
    pub(super) block_size: u32,
    pub(super) is_read_only: bool,
    pub(super) queues: u16,
}

impl Geometry {
    pub(super) fn features(self) -> u64 {
        let access = if self.is_read_only {
            1 << VIRTIO_BLK_F_RO
        } else {
            WRITABLE
        };
        let several = u64::from(self.queues > 1) << VIRTIO_BLK_F_MQ;
        ALWAYS | access | several
    }

    /// What is behind the last whole sector, the guest does not see.
    fn sectors(self) -> u64 {
        let sectors = self.size_bytes.checked_div(SECTOR_SIZE.into());
        sectors.unwrap_or_default()
    }

    /// The configuration space. Fields that no feature offers are zero.
    pub(super) fn config(self) -> Vec<u8> {
        let sector = u32::from(SECTOR_SIZE);
        let sectors_per_block = self.block_size.checked_div(sector).unwrap_or(1);
        let mut config = Vec::with_capacity(60);
        let mut put = |bytes: &[u8]| config.extend_from_slice(bytes);
        put(&self.sectors().to_le_bytes()); // capacity
        put(&LARGEST_SEGMENT.to_le_bytes()); // size_max
        put(&MOST_SEGMENTS.to_le_bytes()); // seg_max
        put(&[0; 4]); // geometry
        put(&sector.to_le_bytes()); // blk_size
        put(&[0; 8]); // topology
        put(&[0; 2]); // writeback, unused
        put(&self.queues.to_le_bytes()); // num_queues
        put(&LONGEST_RANGE.to_le_bytes()); // max_discard_sectors
        put(&MOST_RANGES.to_le_bytes()); // max_discard_seg
        put(&sectors_per_block.max(1).to_le_bytes()); // discard_sector_alignment
        put(&LONGEST_RANGE.to_le_bytes()); // max_write_zeroes_sectors
        put(&MOST_RANGES.to_le_bytes()); // max_write_zeroes_seg
        put(&[1, 0, 0, 0]); // write_zeroes_may_unmap, unused
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let geometry = Geometry {
            size_bytes: 3 * 512 + 100,
            block_size: 4096,
            is_read_only: false,
            queues: 2,
        };
        let config = geometry.config();
        assert_eq!(config.len(), 60);
        let at = |offset: usize| u32::from_le_bytes(config[offset..offset + 4].try_into().unwrap());
        assert_eq!(at(0), 3, "whole sectors");
        assert_eq!(at(12), MOST_SEGMENTS);
        assert_eq!(at(20), 512);
        assert_eq!(config[34..36], [2, 0]);
        assert_eq!(at(36), LONGEST_RANGE);
        assert_eq!(at(40), MOST_RANGES);
        assert_eq!(at(44), 8);
        assert_eq!(at(48), LONGEST_RANGE);
        assert_eq!(config[56], 1);
        let largest = u64::from(MOST_SEGMENTS) * u64::from(LARGEST_SEGMENT);
        assert_eq!(largest, LARGEST_REQUEST);
    }

    #[test]
    fn what_can_not_be_written_offers_nothing_that_writes() {
        let geometry = Geometry {
            size_bytes: 512,
            block_size: 512,
            is_read_only: true,
            queues: 1,
        };
        assert_eq!(geometry.features() & (WRITABLE | 1 << VIRTIO_BLK_F_MQ), 0);
        assert_ne!(geometry.features() & 1 << VIRTIO_BLK_F_RO, 0);
    }
}
