//! The device's description for the guest: feature bits and `struct virtio_blk_config` (virtio 1.3,
//! 5.2.3 and 5.2.4).

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ,
    VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX, VIRTIO_BLK_F_WRITE_ZEROES,
};

use super::request::SECTOR_SIZE;

/// The number of memory segments in a request: as many as fit into QEMU's usual ring of 128 beside
/// header and status, even if the guest has no indirect descriptors.
const MOST_SEGMENTS: u32 = 126;

/// The maximum size of a segment in bytes.
const LARGEST_SEGMENT: u32 = 512 * 1024;

/// The maximum number of bytes of a request from a guest that respects the limits above.
pub(super) const LARGEST_REQUEST: u64 = 126 * 512 * 1024;

/// The maximum number of ranges in one discard or zero request.
pub(super) const MOST_RANGES: u32 = 32;

/// The maximum length of such a range in sectors: 2 GiB. Zeroes may have to be written, and no
/// request should take minutes.
pub(super) const LONGEST_RANGE: u32 = 4 * 1024 * 1024;

/// The features of every block device.
const ALWAYS: u64 =
    1 << VIRTIO_BLK_F_SIZE_MAX | 1 << VIRTIO_BLK_F_SEG_MAX | 1 << VIRTIO_BLK_F_BLK_SIZE;

/// The features of a writable device.
const WRITABLE: u64 =
    1 << VIRTIO_BLK_F_FLUSH | 1 << VIRTIO_BLK_F_DISCARD | 1 << VIRTIO_BLK_F_WRITE_ZEROES;

/// The feature of a guest that flushes by itself. For any other guest, a write is durable when it
/// is answered.
pub(super) const FLUSH: u64 = 1 << VIRTIO_BLK_F_FLUSH;

/// The properties of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    pub(super) size_bytes: u64,
    /// The block size of the device, the cheapest unit to discard.
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

    /// Returns the number of sectors. A partial last sector is not visible to the guest.
    fn sectors(self) -> u64 {
        let sectors = self.size_bytes.checked_div(SECTOR_SIZE.into());
        sectors.unwrap_or_default()
    }

    /// Encodes the configuration space. Fields of features that are not offered are zero.
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
        assert_eq!(at(0), 3, "a partial sector is left out");
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
