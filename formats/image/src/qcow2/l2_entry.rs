//! An entry of an L2 table: specification, sections "Cluster mapping" and "Extended L2 Entries".

use diskfs_block::{Error, Result};

use crate::numbers::{has_bit, low_bits, shift_left, shift_right};
use crate::qcow2::units::{Geometry, HostOffset, L2Layout};

/// The bits of the offset in a standard descriptor: 9 to 55.
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
/// The "copied" flag, bit 63: the cluster's refcount is exactly one.
const COPIED: u64 = 1 << 63;
/// The flag of a compressed cluster, bit 62.
const COMPRESSED: u64 = 1 << 62;
/// The zero flag, bit 0 of a standard descriptor: the cluster reads as zeroes.
const ZERO: u64 = 1;

/// Returns the descriptor of a cluster that has no other reference.
pub(crate) const fn descriptor_for(cluster: HostOffset) -> u64 {
    cluster.0 | COPIED
}

/// An entry that may be invalid, for the check of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawL2Entry {
    pub(crate) descriptor: u64,
    /// The second half of an extended entry, or zero.
    pub(crate) bitmap: u64,
}

/// The kind of an entry, as QEMU distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawKind {
    Unallocated,
    Data,
    /// Zeroes, with a preallocated cluster.
    ZeroAllocated,
    Zero,
    Compressed,
}

impl RawL2Entry {
    pub(crate) fn kind(self, rules: L2Rules) -> RawKind {
        let has_cluster = self.offset() != 0;
        let is_zero = self.descriptor & ZERO != 0 && rules.geometry.layout() == L2Layout::Standard;
        if self.descriptor & COMPRESSED != 0 {
            RawKind::Compressed
        } else if is_zero && has_cluster {
            RawKind::ZeroAllocated
        } else if is_zero {
            RawKind::Zero
        } else if has_cluster || rules.data == DataPlace::External && self.is_copied() {
            RawKind::Data
        } else {
            RawKind::Unallocated
        }
    }

    /// Returns the offset in a standard descriptor.
    pub(crate) const fn offset(self) -> u64 {
        self.descriptor & OFFSET_MASK
    }

    pub(crate) const fn is_copied(self) -> bool {
        self.descriptor & COPIED != 0
    }

    /// Returns true if reserved bits of a standard descriptor are set.
    pub(crate) const fn has_reserved_bits(self) -> bool {
        self.descriptor & !(OFFSET_MASK | COPIED | ZERO) != 0
    }

    /// Returns the subclusters that are allocated.
    pub(crate) const fn allocated(self) -> u64 {
        low_bits(self.bitmap, 32)
    }

    /// Returns true if a subcluster is both allocated and zero.
    pub(crate) const fn has_contradiction(self) -> bool {
        shift_right(self.bitmap, 32) & self.bitmap != 0
    }

    /// Returns the range of a compressed cluster, whatever reserved bits are set.
    pub(crate) fn compressed(self, rules: L2Rules) -> CompressedCluster {
        compressed_range(self.descriptor, rules)
    }
}

/// Returns the descriptor with its "copied" flag set or cleared.
pub(crate) const fn with_copied(descriptor: u64, copied: bool) -> u64 {
    if copied {
        descriptor | COPIED
    } else {
        descriptor & !COPIED
    }
}

/// The properties of an image that determine the meaning of its L2 entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct L2Rules {
    pub(crate) geometry: Geometry,
    /// The support for zero clusters, which version 3 introduced.
    pub(crate) zero_clusters: ZeroClusters,
    pub(crate) data: DataPlace,
}

/// The meaning of bit 0 of a standard descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZeroClusters {
    Allowed,
    Reserved,
}

/// The file in which guest clusters are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataPlace {
    /// The image file itself.
    Inside,
    /// An external data file, with clusters at the guest's own offsets.
    External,
}

/// A decoded entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum L2Entry {
    Standard(StandardCluster),
    Compressed(CompressedCluster),
}

/// A cluster that is stored uncompressed, or not allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StandardCluster {
    /// The offset of the cluster, allocated or reserved.
    pub(crate) host: Option<HostOffset>,
    /// The bits of the allocated subclusters; all or none without subclusters.
    pub(crate) allocated: u32,
    /// The bits of the subclusters that read as zeroes.
    pub(crate) zero: u32,
    /// True if the cluster has no other reference, so that it may be overwritten.
    pub(crate) copied: bool,
}

/// A cluster that is stored compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompressedCluster {
    pub(crate) host: HostOffset,
    /// The number of bytes to read. It extends to the end of a sector, so it is usually more than
    /// the compressed data.
    pub(crate) len_bytes: u64,
}

/// The way in which a subcluster is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubclusterKind {
    Data,
    Zero,
    Unallocated,
}

impl StandardCluster {
    pub(crate) const fn kind_of(self, subcluster: u32) -> SubclusterKind {
        if has_bit_of(self.allocated, subcluster) {
            SubclusterKind::Data
        } else if has_bit_of(self.zero, subcluster) {
            SubclusterKind::Zero
        } else {
            SubclusterKind::Unallocated
        }
    }

    /// Returns the number of subclusters from this one on that are stored in the same way,
    /// including itself.
    pub(crate) const fn run_from(self, subcluster: u32) -> u32 {
        let same = match self.kind_of(subcluster) {
            SubclusterKind::Data => self.allocated,
            SubclusterKind::Zero => self.zero,
            SubclusterKind::Unallocated => !(self.allocated | self.zero),
        };
        // The shift inserts zeroes, which end the run at the cluster's end.
        match same.checked_shr(subcluster) {
            Some(rest) => rest.trailing_ones(),
            None => 0,
        }
    }
}

/// Converts like `u64::from`, which is not const.
const fn widened(bitmap: u32) -> u64 {
    let [a, b, c, d] = bitmap.to_be_bytes();
    u64::from_be_bytes([0, 0, 0, 0, a, b, c, d])
}

const fn has_bit_of(bitmap: u32, index: u32) -> bool {
    match bitmap.checked_shr(index) {
        Some(rest) => rest & 1 == 1,
        None => false,
    }
}

impl StandardCluster {
    /// Encodes the entry's two words.
    pub(crate) const fn encode(self, rules: L2Rules) -> (u64, u64) {
        let host = match self.host {
            Some(host) => host.0,
            None => 0,
        };
        let copied = if self.copied { COPIED } else { 0 };
        match rules.geometry.layout() {
            L2Layout::Standard if self.zero != 0 => (host | copied | ZERO, 0),
            L2Layout::Standard => (host | copied, 0),
            L2Layout::Extended => {
                let zero = shift_left(widened(self.zero), 32);
                let zero = match zero {
                    Some(bits) => bits,
                    None => 0,
                };
                (host | copied, zero | widened(self.allocated))
            }
        }
    }
}

impl L2Entry {
    /// Decodes an entry. `at` is where it is stored; `bitmap` is its second half, if it has one.
    pub(crate) fn decode(
        descriptor: u64,
        bitmap: u64,
        rules: L2Rules,
        at: HostOffset,
    ) -> Result<Self> {
        if descriptor & COMPRESSED != 0 {
            compressed(descriptor, rules, at).map(Self::Compressed)
        } else {
            standard(descriptor, bitmap, rules, at).map(Self::Standard)
        }
    }
}

fn corrupt(at: HostOffset, descriptor: u64, what: &str) -> Error {
    Error::corrupt(format!("invalid L2 entry {descriptor:#018x}: it {what}")).at(at.0)
}

fn standard(
    descriptor: u64,
    bitmap: u64,
    rules: L2Rules,
    at: HostOffset,
) -> Result<StandardCluster> {
    let zero_flag = match (rules.geometry.layout(), rules.zero_clusters) {
        (L2Layout::Standard, ZeroClusters::Allowed) => ZERO,
        _ => 0,
    };
    if descriptor & !(OFFSET_MASK | COPIED | zero_flag) != 0 {
        return Err(corrupt(at, descriptor, "has reserved bits set"));
    }
    let offset = descriptor & OFFSET_MASK;
    if !rules.geometry.is_cluster_aligned(offset) {
        return Err(corrupt(
            at,
            descriptor,
            "points into the middle of a cluster",
        ));
    }
    let is_zero = descriptor & zero_flag != 0;
    // The first cluster of an external data file is at 0; only the flag distinguishes it from an
    // unallocated one. A zero cluster at 0 counts as not allocated, as in QEMU.
    let is_first_external =
        rules.data == DataPlace::External && descriptor & COPIED != 0 && !is_zero;
    let host = (offset != 0 || is_first_external).then_some(HostOffset(offset));
    let (allocated, zero) = match rules.geometry.layout() {
        L2Layout::Standard if is_zero => (0, u32::MAX),
        L2Layout::Standard if host.is_some() => (u32::MAX, 0),
        L2Layout::Standard => (0, 0),
        L2Layout::Extended => (low_half(bitmap), low_half(shift_right(bitmap, 32))),
    };
    if allocated & zero != 0 {
        return Err(corrupt(
            at,
            descriptor,
            "has subclusters both allocated and zero",
        ));
    }
    if allocated != 0 && host.is_none() {
        return Err(corrupt(
            at,
            descriptor,
            "has allocated subclusters but no cluster",
        ));
    }
    Ok(StandardCluster {
        host,
        allocated,
        zero,
        copied: descriptor & COPIED != 0,
    })
}

fn low_half(bitmap: u64) -> u32 {
    u32::try_from(low_bits(bitmap, 32)).unwrap_or(0)
}

fn compressed(descriptor: u64, rules: L2Rules, at: HostOffset) -> Result<CompressedCluster> {
    if rules.data == DataPlace::External {
        return Err(corrupt(
            at,
            descriptor,
            "is compressed, which an image with an external data file does not allow",
        ));
    }
    if has_bit(descriptor, 63) {
        return Err(corrupt(at, descriptor, "has reserved bits set"));
    }
    let cluster = compressed_range(descriptor, rules);
    if shift_right(cluster.host.0, 56) != 0 {
        return Err(corrupt(at, descriptor, "has reserved bits set"));
    }
    Ok(cluster)
}

/// Returns the bit at which the number of sectors begins: specification, "Compressed Clusters
/// Descriptor", `x = 62 - (cluster_bits - 8)`.
const fn sectors_bit(geometry: Geometry) -> u32 {
    62_u32.saturating_sub(geometry.cluster_bits().saturating_sub(8))
}

/// Returns the descriptor of a compressed cluster of `len_bytes` (at least 1) at `host`.
pub(crate) const fn compressed_descriptor(
    host: HostOffset,
    len_bytes: u64,
    geometry: Geometry,
) -> u64 {
    let last = host.0.saturating_add(len_bytes).saturating_sub(1);
    let more_sectors = shift_right(last, 9).saturating_sub(shift_right(host.0, 9));
    match shift_left(more_sectors, sectors_bit(geometry)) {
        Some(sectors) => COMPRESSED | sectors | host.0,
        None => COMPRESSED | host.0,
    }
}

fn compressed_range(descriptor: u64, rules: L2Rules) -> CompressedCluster {
    let x = sectors_bit(rules.geometry);
    let host = low_bits(descriptor, x);
    let sectors_bits = 62_u32.saturating_sub(x);
    let more_sectors = low_bits(shift_right(descriptor, x), sectors_bits);
    let sectors_len = shift_left(more_sectors.saturating_add(1), 9).unwrap_or(0);
    CompressedCluster {
        host: HostOffset(host),
        // The length is at least one byte, because the offset in the first sector is less than a
        // sector.
        len_bytes: sectors_len.saturating_sub(low_bits(host, 9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(bits: u32, layout: L2Layout) -> L2Rules {
        L2Rules {
            geometry: Geometry::new(bits, layout),
            zero_clusters: ZeroClusters::Allowed,
            data: DataPlace::Inside,
        }
    }

    fn decode(descriptor: u64, bitmap: u64, rules: L2Rules) -> Result<L2Entry> {
        L2Entry::decode(descriptor, bitmap, rules, HostOffset(0x40008))
    }

    fn standard(descriptor: u64, bitmap: u64, rules: L2Rules) -> StandardCluster {
        match decode(descriptor, bitmap, rules).unwrap() {
            L2Entry::Standard(cluster) => cluster,
            L2Entry::Compressed(_) => panic!("compressed"),
        }
    }

    #[test]
    fn standard_clusters() {
        let r = rules(16, L2Layout::Standard);
        let c = standard(COPIED | 0x50000, 0, r);
        assert_eq!(
            (c.host, c.kind_of(0)),
            (Some(HostOffset(0x50000)), SubclusterKind::Data)
        );
        assert_eq!(c.run_from(0), 32);
        assert_eq!(standard(0, 0, r).kind_of(0), SubclusterKind::Unallocated);
        assert_eq!(standard(1, 0, r).kind_of(31), SubclusterKind::Zero);
        let zero_alloc = standard(0x50001, 0, r);
        assert_eq!(zero_alloc.host, Some(HostOffset(0x50000)));
        assert_eq!(zero_alloc.kind_of(0), SubclusterKind::Zero);
    }

    #[test]
    fn reserved_bits_and_crooked_offsets_are_corrupt() {
        let r = rules(16, L2Layout::Standard);
        for bad in [0x50002, 0x50100, 0x50200, 1 << 56, 1 << 61] {
            let e = decode(bad, 0, r).unwrap_err();
            assert_eq!(e.kind(), diskfs_block::ErrorKind::Corrupt, "{bad:#x}");
            assert_eq!(e.offset(), Some(0x40008));
        }
        let v2 = L2Rules {
            zero_clusters: ZeroClusters::Reserved,
            ..r
        };
        assert!(decode(0x50001, 0, v2).is_err());
        assert!(decode(1, u64::MAX, rules(16, L2Layout::Extended)).is_err());
    }

    #[test]
    fn subclusters() {
        let r = rules(16, L2Layout::Extended);
        let c = standard(0x50000, 0x0000_00f0_0000_000f, r);
        let kinds =
            [(0, 4), (4, 4), (8, 24)].map(|(at, len)| (c.kind_of(at), c.run_from(at) == len));
        assert_eq!(
            kinds,
            [
                (SubclusterKind::Data, true),
                (SubclusterKind::Zero, true),
                (SubclusterKind::Unallocated, true)
            ]
        );
        assert!(decode(0x50000, 0x0000_0001_0000_0001, r).is_err());
        assert!(decode(0, 1, r).is_err());
        assert_eq!(standard(0, 1 << 63, r).kind_of(31), SubclusterKind::Zero);
    }

    #[test]
    fn external_data_may_begin_at_zero() {
        let r = L2Rules {
            data: DataPlace::External,
            ..rules(16, L2Layout::Standard)
        };
        assert_eq!(standard(COPIED, 0, r).host, Some(HostOffset(0)));
        assert_eq!(standard(0, 0, r).host, None);
        assert_eq!(standard(COPIED | ZERO, 0, r).host, None);
        assert!(decode(COMPRESSED | 0x50000, 0, r).is_err());
    }

    #[test]
    fn compressed_clusters() {
        // 64 KiB: x = 54, the offset in bits 0 to 53, sectors in 54 to 61.
        let r = rules(16, L2Layout::Standard);
        let entry = COMPRESSED | (3 << 54) | 0x5_0123;
        let expected = CompressedCluster {
            host: HostOffset(0x5_0123),
            len_bytes: 4 * 512 - 0x123,
        };
        assert_eq!(decode(entry, 0, r).unwrap(), L2Entry::Compressed(expected));
        assert!(decode(entry | COPIED, 0, r).is_err());
        // 512 bytes: x = 61, of which bits 56 to 60 must be zero.
        let small = rules(9, L2Layout::Standard);
        assert!(decode(COMPRESSED | (1 << 60), 0, small).is_err());
        assert!(decode(COMPRESSED | (1 << 61) | 0x400, 0, small).is_ok());
    }
}
