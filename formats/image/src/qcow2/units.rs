//! The address spaces of a qcow2 image, and the geometry that converts between them.

use std::fmt;

use crate::numbers::{low_bits, power_of_two, shift_left, shift_right, to_usize};

/// An offset in the guest's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GuestOffset(pub(crate) u64);

/// An offset in the image file or in its external data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostOffset(pub(crate) u64);

impl HostOffset {
    /// Returns the offset `len_bytes` further on. Offsets come from 56-bit fields and lengths are
    /// below 2^62, so this never saturates for a range that was checked against its file.
    pub(crate) const fn plus(self, len_bytes: u64) -> Self {
        Self(self.0.saturating_add(len_bytes))
    }
}

impl GuestOffset {
    /// Returns the offset `len_bytes` further on. Callers stay within the virtual size.
    pub(crate) const fn plus(self, len_bytes: u64) -> Self {
        Self(self.0.saturating_add(len_bytes))
    }
}

impl fmt::Display for GuestOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for HostOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The format of L2 entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum L2Layout {
    /// Entries of 64 bits: a cluster descriptor.
    Standard,
    /// Entries of 128 bits: a cluster descriptor and a bitmap of 32 subclusters.
    Extended,
}

impl L2Layout {
    /// Returns log2 of an entry's size in bytes.
    const fn entry_bits(self) -> u32 {
        match self {
            Self::Standard => 3,
            Self::Extended => 4,
        }
    }

    /// Returns the number of 64-bit words per entry.
    pub(crate) const fn words(self) -> usize {
        match self {
            Self::Standard => 1,
            Self::Extended => 2,
        }
    }
}

/// The largest slice of an L2 table: 8192 standard entries, which map 512 MiB at QEMU's default
/// cluster size. Larger slices would cost memory and time on tables of 2 MiB if only one entry is
/// needed; smaller ones would cost more reads when a scattered filesystem is walked.
const SLICE_BITS_MAX: u32 = 16;

/// The binary logarithm of the number of subclusters in a cluster (specification, "Extended L2
/// Entries").
pub(crate) const SUBCLUSTERS_BITS: u32 = 5;

/// The geometry: how offsets are divided into cluster, L1 index and L2 index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    cluster_bits: u32,
    layout: L2Layout,
}

impl Geometry {
    /// Creates a geometry. The header has checked `cluster_bits`: 9 to 21, and at least 14 for
    /// extended entries.
    pub(crate) const fn new(cluster_bits: u32, layout: L2Layout) -> Self {
        Self {
            cluster_bits,
            layout,
        }
    }

    pub(crate) const fn layout(self) -> L2Layout {
        self.layout
    }

    pub(crate) const fn cluster_bits(self) -> u32 {
        self.cluster_bits
    }

    pub(crate) const fn cluster_size(self) -> u64 {
        power_of_two(self.cluster_bits)
    }

    pub(crate) const fn offset_in_cluster(self, offset: u64) -> u64 {
        low_bits(offset, self.cluster_bits)
    }

    pub(crate) const fn is_cluster_aligned(self, offset: u64) -> bool {
        self.offset_in_cluster(offset) == 0
    }

    /// Returns log2 of the unit of allocation: a cluster, or a subcluster.
    pub(crate) const fn subcluster_bits(self) -> u32 {
        match self.layout {
            L2Layout::Standard => self.cluster_bits,
            L2Layout::Extended => self.cluster_bits.saturating_sub(SUBCLUSTERS_BITS),
        }
    }

    /// Returns log2 of [`l1_coverage`](Self::l1_coverage).
    const fn l1_coverage_bits(self) -> u32 {
        // A table is one cluster, so this is at most 21 + (21 - 3).
        self.cluster_bits
            .saturating_add(self.cluster_bits.saturating_sub(self.layout.entry_bits()))
    }

    /// Returns the number of guest bytes that one L1 entry maps.
    pub(crate) const fn l1_coverage(self) -> u64 {
        power_of_two(self.l1_coverage_bits())
    }

    pub(crate) const fn l1_index(self, guest: GuestOffset) -> u64 {
        shift_right(guest.0, self.l1_coverage_bits())
    }

    /// Returns the number of L1 entries that a disk of `size_bytes` needs.
    pub(crate) const fn l1_entries_for(self, size_bytes: u64) -> u64 {
        size_bytes.div_ceil(power_of_two(self.l1_coverage_bits()))
    }

    const fn slice_bits(self) -> u32 {
        if self.cluster_bits < SLICE_BITS_MAX {
            self.cluster_bits
        } else {
            SLICE_BITS_MAX
        }
    }

    /// Returns the number of bytes of an L2 table to read at once.
    pub(crate) const fn slice_size(self) -> u64 {
        power_of_two(self.slice_bits())
    }

    /// Returns log2 of the guest bytes that one slice maps.
    const fn slice_coverage_bits(self) -> u32 {
        self.cluster_bits
            .saturating_add(self.slice_bits().saturating_sub(self.layout.entry_bits()))
    }

    /// Returns the number of the slice that maps `guest`, counted over the whole disk.
    pub(crate) const fn slice_index(self, guest: GuestOffset) -> u64 {
        shift_right(guest.0, self.slice_coverage_bits())
    }

    /// Returns the offset in its L2 table of the slice that maps `guest`, in bytes.
    pub(crate) const fn slice_offset_in_table(self, guest: GuestOffset) -> u64 {
        let slices_bits = self.cluster_bits.saturating_sub(self.slice_bits());
        let index = low_bits(self.slice_index(guest), slices_bits);
        match shift_left(index, self.slice_bits()) {
            Some(offset) => offset,
            None => 0,
        }
    }

    /// Returns the index of the entry for `guest` in its slice.
    pub(crate) fn index_in_slice(self, guest: GuestOffset) -> usize {
        let entries_bits = self.slice_bits().saturating_sub(self.layout.entry_bits());
        to_usize(low_bits(
            shift_right(guest.0, self.cluster_bits),
            entries_bits,
        ))
    }

    /// Returns the number of guest bytes from `guest` to the end of its slice's range.
    pub(crate) const fn left_in_slice(self, guest: GuestOffset) -> u64 {
        let bits = self.slice_coverage_bits();
        power_of_two(bits).saturating_sub(low_bits(guest.0, bits))
    }

    /// Returns the number of guest bytes from `guest` to the end of its L1 entry's range.
    pub(crate) const fn left_in_l1_entry(self, guest: GuestOffset) -> u64 {
        let bits = self.l1_coverage_bits();
        power_of_two(bits).saturating_sub(low_bits(guest.0, bits))
    }

    /// Returns the number of guest bytes from `guest` to the end of its cluster.
    pub(crate) const fn left_in_cluster(self, guest: GuestOffset) -> u64 {
        self.cluster_size()
            .saturating_sub(self.offset_in_cluster(guest.0))
    }

    /// Returns the first byte of the cluster that contains `guest`.
    pub(crate) const fn cluster_start(self, guest: GuestOffset) -> GuestOffset {
        GuestOffset(guest.0.saturating_sub(self.offset_in_cluster(guest.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_clusters() {
        let g = Geometry::new(16, L2Layout::Standard);
        assert_eq!(g.cluster_size(), 65536);
        assert_eq!(g.l1_coverage_bits(), 29);
        assert_eq!(g.l1_entries_for((1 << 29) + 1), 2);
        assert_eq!(g.slice_size(), 65536);
        let at = GuestOffset((3 << 29) + (5 << 16) + 7);
        assert_eq!((g.l1_index(at), g.index_in_slice(at)), (3, 5));
        assert_eq!(g.slice_offset_in_table(at), 0);
        assert_eq!(g.left_in_cluster(at), 65536 - 7);
        assert_eq!(g.left_in_slice(at), (1 << 29) - (5 << 16) - 7);
        assert_eq!(g.cluster_start(at), GuestOffset((3 << 29) + (5 << 16)));
    }

    #[test]
    fn large_tables_are_cut_into_slices() {
        let g = Geometry::new(21, L2Layout::Extended);
        // 2 MiB / 16 = 2^17 entries in 32 slices of 4096.
        assert_eq!(g.l1_coverage_bits(), 38);
        let at = GuestOffset((1 << 38) + (4097 << 21));
        assert_eq!(g.index_in_slice(at), 1);
        assert_eq!(g.slice_offset_in_table(at), 65536);
        assert_eq!(g.slice_index(at), 32 + 1);
        assert_eq!(g.subcluster_bits(), 16);
    }
}
