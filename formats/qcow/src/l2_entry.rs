//! Entries of L2 tables.

use diskfs_block::{CompressedUnit, RunStorage};

/// The mark of a compressed cluster.
const COMPRESSED: u64 = 1 << 63;

/// Returns the place of the cluster with this L2 entry.
///
/// The entry of a compressed cluster has the offset in its lower `63 - cluster_bits` bits, and
/// above that the length in bytes.
pub(crate) const fn decode(entry: u64, cluster_bits: u32) -> RunStorage {
    let cluster_bytes = 1_u64.wrapping_shl(cluster_bits);
    let length_at = 63_u32.saturating_sub(cluster_bits);
    if entry == 0 {
        return RunStorage::Absent;
    }
    if entry & COMPRESSED == 0 {
        return RunStorage::Stored {
            file: 0,
            offset: entry,
        };
    }
    let low = 1_u64.wrapping_shl(length_at).wrapping_sub(1);
    RunStorage::Compressed {
        unit: CompressedUnit {
            file: 0,
            offset: entry & low,
            stored_bytes: entry.wrapping_shr(length_at) & cluster_bytes.wrapping_sub(1),
            unpacked_bytes: cluster_bytes,
        },
        skip_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_clusters_have_a_length() {
        assert_eq!(decode(0, 12), RunStorage::Absent);
        let stored = |offset| RunStorage::Stored { file: 0, offset };
        assert_eq!(decode(0x1000, 12), stored(0x1000));
        let entry = COMPRESSED | 0x123 << 51 | 0x4567;
        let unit = CompressedUnit {
            file: 0,
            offset: 0x4567,
            stored_bytes: 0x123,
            unpacked_bytes: 4096,
        };
        let skip_bytes = 0;
        assert_eq!(
            decode(entry, 12),
            RunStorage::Compressed { unit, skip_bytes }
        );
    }
}
