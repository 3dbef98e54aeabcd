//! The features of a filesystem, in `feature_compat` and `feature_incompat` of the superblock.

use crate::error::{Error, ErrorKind, Result};

/// The superblock has a checksum.
pub(crate) const COMPAT_SB_CHKSUM: u32 = 0x01;
/// Shared attributes are stored in the metabox inode.
pub(crate) const COMPAT_SHARED_EA_IN_METABOX: u32 = 0x08;
/// The prefixes of attributes' names are stored outside of any inode.
pub(crate) const COMPAT_PLAIN_XATTR_PFX: u32 = 0x10;

/// LZ4 data is at the end of its blocks, after zeroes.
pub(crate) const INCOMPAT_LZ4_0PADDING: u32 = 0x01;
/// The superblock is followed by the configurations of algorithms.
pub(crate) const INCOMPAT_COMPR_CFGS: u32 = 0x02;
/// The filesystem has a device table, or a second algorithm.
pub(crate) const INCOMPAT_DEVICE_TABLE: u32 = 0x08;
/// Block addresses have 48 bits.
pub(crate) const INCOMPAT_48BIT: u32 = 0x80;
/// Metadata may be stored in the metabox inode.
pub(crate) const INCOMPAT_METABOX: u32 = 0x100;

/// The names of compatible features, as dump.erofs prints them.
const COMPAT_NAMES: [(u32, &str); 6] = [
    (COMPAT_SB_CHKSUM, "sb_csum"),
    (0x02, "mtime"),
    (0x04, "xattr_filter"),
    (COMPAT_SHARED_EA_IN_METABOX, "shared_ea_in_metabox"),
    (COMPAT_PLAIN_XATTR_PFX, "plain_xattr_pfx"),
    (0x20, "ishare_xattrs"),
];

/// The names of the features that a reader must know.
const INCOMPAT_NAMES: [(u32, &str); 9] = [
    (INCOMPAT_LZ4_0PADDING, "0padding"),
    (INCOMPAT_COMPR_CFGS, "compr_cfgs"),
    (0x04, "chunked_file"),
    (INCOMPAT_DEVICE_TABLE, "device_table"),
    (0x10, "ztailpacking"),
    (0x20, "fragments"),
    (0x40, "xattr_prefixes"),
    (INCOMPAT_48BIT, "48bit"),
    (INCOMPAT_METABOX, "metabox"),
];

/// The features of a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Features {
    pub(crate) compat: u32,
    pub(crate) incompat: u32,
}

impl Features {
    /// Returns the features, if all are known.
    ///
    /// # Errors
    /// `Unsupported`, with the bits that are unknown.
    pub(crate) fn checked(compat: u32, incompat: u32) -> Result<Self> {
        let known = INCOMPAT_NAMES.iter().fold(0, |known, (bit, _)| known | bit);
        let unknown = incompat & !known;
        if unknown != 0 {
            let reason = format!("erofs with unknown features {unknown:#x} is not supported");
            return Err(Error::new(ErrorKind::Unsupported, reason).at(0x450));
        }
        Ok(Self { compat, incompat })
    }

    pub(crate) const fn has_compat(self, bit: u32) -> bool {
        self.compat & bit != 0
    }

    pub(crate) const fn has_incompat(self, bit: u32) -> bool {
        self.incompat & bit != 0
    }

    /// Returns the names of all features.
    pub(crate) fn names(self) -> Vec<String> {
        let compat = COMPAT_NAMES.iter().filter(|(bit, _)| self.has_compat(*bit));
        let incompat = INCOMPAT_NAMES
            .iter()
            .filter(|(bit, _)| self.has_incompat(*bit));
        let names = compat.chain(incompat);
        names.map(|(_, name)| (*name).to_owned()).collect()
    }
}
