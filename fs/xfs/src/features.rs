//! The features of a filesystem: their bits, their names, and which of them can be read.
//!
//! Source: "XFS Algorithms & Data Structures", section "Superblocks"; the names are those of
//! `xfs_info`.

use bitflags::bitflags;

use crate::error::{Result, unsupported};

bitflags! {
    /// The flags of `sb_versionnum` above the version in its low four bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct VersionFlags: u16 {
        const ATTR = 0x0010;
        const NLINK = 0x0020;
        const QUOTA = 0x0040;
        const ALIGN = 0x0080;
        const DALIGN = 0x0100;
        const SHARED = 0x0200;
        const LOGV2 = 0x0400;
        const SECTOR = 0x0800;
        const EXTFLG = 0x1000;
        const DIRV2 = 0x2000;
        /// Directories whose names ignore the case of ASCII letters (`ascii-ci`).
        const BORG = 0x4000;
        const MOREBITS = 0x8000;
    }

    /// The flags of `sb_features2`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Features2: u32 {
        const LAZYSBCOUNT = 0x02;
        const ATTR2 = 0x08;
        const PARENT = 0x10;
        const PROJID32BIT = 0x80;
        const CRC = 0x100;
        const FTYPE = 0x200;
    }

    /// The flags of `sb_features_ro_compat`: a driver that only reads may ignore unknown ones.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct ReadOnlyCompatible: u32 {
        const FINOBT = 0x1;
        const RMAPBT = 0x2;
        const REFLINK = 0x4;
        const INOBTCNT = 0x8;
    }

    /// The flags of `sb_features_incompat`: a driver must refuse unknown ones.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Incompatible: u32 {
        const FTYPE = 0x1;
        const SPINODES = 0x2;
        const META_UUID = 0x4;
        const BIGTIME = 0x8;
        const NEEDSREPAIR = 0x10;
        const NREXT64 = 0x20;
        const EXCHRANGE = 0x40;
        const PARENT = 0x80;
        const METADIR = 0x100;
        const ZONED = 0x200;
        const ZONE_GAPS = 0x400;
    }
}

/// The version and all feature words of a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Features {
    /// The version: 4 or 5.
    pub(crate) version: u16,
    pub(crate) flags: VersionFlags,
    pub(crate) features2: Features2,
    pub(crate) read_only_compatible: ReadOnlyCompatible,
    pub(crate) incompatible: Incompatible,
    /// The word `sb_features_log_incompat`, whose flags concern only a log that is not clean.
    pub(crate) log_incompatible: u32,
}

impl Features {
    /// Returns true for version 5, whose metadata has checksums.
    pub(crate) fn has_checksums(self) -> bool {
        self.version == 5
    }

    pub(crate) fn has(self, feature: Incompatible) -> bool {
        self.incompatible.contains(feature)
    }

    pub(crate) fn has_ro(self, feature: ReadOnlyCompatible) -> bool {
        self.read_only_compatible.contains(feature)
    }

    /// Returns true if directory entries contain the file's type.
    pub(crate) fn has_file_types(self) -> bool {
        self.has(Incompatible::FTYPE) || self.features2.contains(Features2::FTYPE)
    }

    /// Returns true if look-ups ignore the case of letters.
    pub(crate) fn ignores_case(self) -> bool {
        self.flags.contains(VersionFlags::BORG)
    }

    /// Returns true if the superblock's counters are only valid after a clean unmount.
    pub(crate) fn has_lazy_counters(self) -> bool {
        self.features2.contains(Features2::LAZYSBCOUNT)
    }

    /// Checks that the driver can read all features.
    ///
    /// # Errors
    /// `Unsupported`, with the names of the features.
    pub(crate) fn check_readable(self) -> Result<()> {
        let names: Vec<String> = UNREADABLE
            .iter()
            .filter(|(bit, _)| self.has(*bit))
            .map(|(_, name)| (*name).to_owned())
            .chain(unknown(
                "incompat",
                self.incompatible.bits(),
                Incompatible::all().bits(),
            ))
            .chain(self.unknown_of_version_4())
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(unsupported(format!(
            "unsupported XFS features: {}",
            names.join(", ")
        )))
    }

    fn unknown_of_version_4(self) -> Vec<String> {
        if self.has_checksums() {
            return Vec::new();
        }
        let known = Features2::all().difference(Features2::CRC.union(Features2::PARENT));
        let mut names = unknown("features2", self.features2.bits(), known.bits());
        if self.flags.contains(VersionFlags::SHARED) {
            names.push("shared version number".to_owned());
        }
        if !self.flags.contains(VersionFlags::DIRV2) {
            names.push("directories of version 1".to_owned());
        }
        names
    }

    /// Returns the read-only compatible flags that are unknown, by their bit's number.
    pub(crate) fn unknown_read_only(self) -> Vec<String> {
        let known = ReadOnlyCompatible::all().bits();
        unknown("ro-compat", self.read_only_compatible.bits(), known)
    }

    /// Returns the names of the features in use, as `xfs_info` spells them.
    pub(crate) fn names(self) -> Vec<String> {
        let of_version_5 = self.has_checksums();
        let attr2 = of_version_5 || self.features2.contains(Features2::ATTR2);
        let projid32bit = of_version_5 || self.features2.contains(Features2::PROJID32BIT);
        [
            (of_version_5, "crc"),
            (attr2, "attr=2"),
            (projid32bit, "projid32bit"),
            (self.has_lazy_counters(), "lazy-count"),
            (self.has_ro(ReadOnlyCompatible::FINOBT), "finobt"),
            (self.has(Incompatible::SPINODES), "sparse"),
            (self.has_ro(ReadOnlyCompatible::RMAPBT), "rmapbt"),
            (self.has_ro(ReadOnlyCompatible::REFLINK), "reflink"),
            (self.has(Incompatible::BIGTIME), "bigtime"),
            (self.has_ro(ReadOnlyCompatible::INOBTCNT), "inobtcount"),
            (self.has(Incompatible::NREXT64), "nrext64"),
            (self.has(Incompatible::EXCHRANGE), "exchange"),
            (self.has(Incompatible::PARENT), "parent"),
            (self.has(Incompatible::META_UUID), "meta_uuid"),
            (self.has_file_types(), "ftype"),
            (self.ignores_case(), "ascii-ci"),
        ]
        .into_iter()
        .filter(|(set, _)| *set)
        .map(|(_, name)| name.to_owned())
        .collect()
    }
}

/// The known features that the driver does not read.
const UNREADABLE: [(Incompatible, &str); 3] = [
    (
        Incompatible::METADIR,
        "metadir (metadata directory, real-time groups)",
    ),
    (Incompatible::ZONED, "zoned"),
    (Incompatible::ZONE_GAPS, "zone gaps"),
];

/// Returns a name for each bit of `word` that is not in `known`.
fn unknown(word_name: &str, word: u32, known: u32) -> Vec<String> {
    (0..u32::BITS)
        .filter(|bit| word & !known & 1_u32.wrapping_shl(*bit) != 0)
        .map(|bit| format!("unknown {word_name} bit {bit}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_vfs::ErrorKind;

    fn features(version: u16, incompatible: u32) -> Features {
        Features {
            version,
            flags: VersionFlags::DIRV2 | VersionFlags::EXTFLG,
            features2: Features2::empty(),
            read_only_compatible: ReadOnlyCompatible::empty(),
            incompatible: Incompatible::from_bits_retain(incompatible),
            log_incompatible: 0,
        }
    }

    #[test]
    fn refused_by_name_or_by_bit() {
        assert!(features(5, 0xef).check_readable().is_ok());
        let e = features(5, 0x8000_0301).check_readable().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert_eq!(
            e.to_string(),
            "unsupported XFS features: metadir (metadata directory, real-time groups), zoned, \
             unknown incompat bit 31"
        );
    }

    #[test]
    fn names_as_xfs_info_spells_them() {
        assert_eq!(
            features(5, 0xb).names(),
            ["crc", "attr=2", "projid32bit", "sparse", "bigtime", "ftype"]
        );
        assert!(features(4, 0).names().is_empty());
    }
}
