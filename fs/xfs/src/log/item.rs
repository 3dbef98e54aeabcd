//! Log items: the changes of one object in a transaction, each a format structure and regions of
//! bytes.

use crate::bytes::len_u64;
use diskfs_block::bytes::le16;

/// The type of a log item, `XFS_LI_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ItemType(pub(super) u16);

impl ItemType {
    pub(super) const EFI: Self = Self(0x1236);
    pub(super) const EFD: Self = Self(0x1237);
    pub(super) const IUNLINK: Self = Self(0x1238);
    pub(super) const INODE: Self = Self(0x123b);
    pub(super) const BUFFER: Self = Self(0x123c);
    pub(super) const DQUOT: Self = Self(0x123d);
    pub(super) const QUOTAOFF: Self = Self(0x123e);
    pub(super) const ICREATE: Self = Self(0x123f);
    pub(super) const RUI: Self = Self(0x1240);
    pub(super) const RUD: Self = Self(0x1241);
    pub(super) const CUI: Self = Self(0x1242);
    pub(super) const CUD: Self = Self(0x1243);
    pub(super) const BUI: Self = Self(0x1244);
    pub(super) const BUD: Self = Self(0x1245);
    pub(super) const ATTRI: Self = Self(0x1246);
    pub(super) const ATTRD: Self = Self(0x1247);
    pub(super) const XMI: Self = Self(0x1248);
    pub(super) const XMD: Self = Self(0x1249);
    pub(super) const EFI_RT: Self = Self(0x124a);
    pub(super) const EFD_RT: Self = Self(0x124b);
    pub(super) const RUI_RT: Self = Self(0x124c);
    pub(super) const RUD_RT: Self = Self(0x124d);
    pub(super) const CUI_RT: Self = Self(0x124e);
    pub(super) const CUD_RT: Self = Self(0x124f);
}

/// The largest number of regions of an item, `XLOG_MAX_REGIONS_IN_ITEM`: one for each second chunk
/// of 128 bytes of a buffer of 64 KiB, and its format.
pub(super) const REGIONS_MAX: u16 = 257;

/// One log item.
#[derive(Debug, Default)]
pub(super) struct Item {
    /// The number of regions, as the format structure says; 0 before this is known.
    pub(super) expected: u16,
    /// The regions; the first one is the format structure.
    pub(super) regions: Vec<Vec<u8>>,
}

impl Item {
    /// Returns the number of regions that the first region says, `None` if it is invalid.
    pub(super) fn count_in(format: &[u8]) -> Option<u16> {
        le16(format, 2).filter(|count| (1..=REGIONS_MAX).contains(count))
    }

    pub(super) fn is_complete(&self) -> bool {
        self.expected != 0 && self.regions.len() >= usize::from(self.expected)
    }

    /// Returns a region; an empty one if there is no such region.
    pub(super) fn region(&self, number: usize) -> &[u8] {
        self.regions
            .get(number)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Returns the format structure.
    pub(super) fn format(&self) -> &[u8] {
        self.region(0)
    }

    pub(super) fn item_type(&self) -> ItemType {
        ItemType(le16(self.format(), 0).unwrap_or_default())
    }

    /// Returns the memory that a region needs, about.
    pub(super) fn cost_bytes(region: &[u8]) -> u64 {
        /// The vector of the region, and its share of the item.
        const OVERHEAD_BYTES: u64 = 64;
        len_u64(region.len()).saturating_add(OVERHEAD_BYTES)
    }
}
