//! The magic numbers themselves, one function for each kind.

use diskfs_block::{BlockRead, Result};

use super::content::{Content, ContentClass};

/// What is read of a volume first: up to the superblock of an md array of version 1.2, which
/// begins at 4 KiB and is 256 bytes long (md(4)).
pub(super) const HEAD_BYTES: usize = 8192;
/// The primary volume descriptor: sector 16 of 2048 bytes (ECMA-119, 8.4).
pub(super) const ISO9660_OFFSET: u64 = 16 * 2048;
pub(super) const ISO9660_BYTES: usize = 2048;
/// The first superblock's place (btrfs on-disk format, "Superblock").
pub(super) const BTRFS_OFFSET: u64 = 64 * 1024;
pub(super) const BTRFS_BYTES: usize = 1024;

/// Some bytes of a volume. What lies past its end is simply not there.
pub(super) struct Head(Vec<u8>);

impl Head {
    pub(super) fn read(device: &dyn BlockRead, offset: u64, len: usize) -> Result<Self> {
        let left = device.size_bytes().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(len);
        let mut bytes = vec![0; len];
        if len > 0 {
            device.read_at(offset, &mut bytes)?;
        }
        Ok(Self(bytes))
    }

    fn has(&self, offset: usize, magic: &[u8]) -> bool {
        self.0
            .get(offset..)
            .is_some_and(|rest| rest.starts_with(magic))
    }

    fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        let bytes = self.0.get(offset..).and_then(<[u8]>::first_chunk);
        bytes.copied().unwrap_or([0; N])
    }

    fn u16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.array(offset))
    }

    fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.array(offset))
    }

    /// A name of at most `N` bytes, ended by NUL or padded with spaces.
    fn label<const N: usize>(&self, offset: usize) -> Vec<u8> {
        let bytes: [u8; N] = self.array(offset);
        let name = bytes.split(|&b| b == 0).next().unwrap_or_default();
        name.trim_ascii_end().to_vec()
    }

    fn uuid(&self, offset: usize) -> Option<String> {
        let bytes: [u8; 16] = self.array(offset);
        (bytes != [0; 16]).then(|| {
            let hex = hex(&bytes);
            let part = |from, to| hex.get(from..to).unwrap_or_default();
            [
                part(0, 8),
                part(8, 12),
                part(12, 16),
                part(16, 20),
                part(20, 32),
            ]
            .join("-")
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // Writing to a String does not fail.
        hex
    })
}

/// A serial number as DOS prints it: `1A2B-3C4D`.
fn dos_serial(serial: u32) -> Option<String> {
    (serial != 0).then(|| format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff))
}

fn filesystem(kind: &'static str, label: Vec<u8>, uuid: Option<String>) -> Content {
    Content {
        kind,
        class: ContentClass::Filesystem,
        label,
        uuid,
    }
}

fn container(kind: &'static str, label: Vec<u8>, uuid: Option<String>) -> Content {
    Content {
        class: ContentClass::Container,
        ..filesystem(kind, label, uuid)
    }
}

/// What is known by the first [`HEAD_BYTES`]. Containers go first: what was on the volume before
/// it became one may still be there.
pub(super) fn in_head(head: &Head) -> Option<Content> {
    const PROBES: [fn(&Head) -> Option<Content>; 16] = [
        luks, lvm2, md_raid, bitlocker, xfs, ext, f2fs, nilfs2, erofs, squashfs, ntfs, exfat, apfs,
        hfsplus, swap, vfat,
    ];
    PROBES.iter().find_map(|probe| probe(head))
}

/// LUKS1 and LUKS2 (LUKS on-disk format, "PHDR layout"; LUKS2, "Binary header").
fn luks(head: &Head) -> Option<Content> {
    head.has(0, b"LUKS\xba\xbe").then(|| {
        let version = u16::from_be_bytes(head.array(6));
        let label = if version == 2 {
            head.label::<48>(24)
        } else {
            Vec::new()
        };
        let uuid = String::from_utf8(head.label::<40>(168))
            .ok()
            .filter(|uuid| !uuid.is_empty());
        container("crypto_LUKS", label, uuid)
    })
}

/// The label is in one of the first four sectors (LVM2, `label_header` and `pv_header`).
fn lvm2(head: &Head) -> Option<Content> {
    let sector = (0..4)
        .map(|n| n * 512)
        .find(|at| head.has(*at, b"LABELONE") && head.has(at + 24, b"LVM2 001"))?;
    let id = head.label::<32>(sector + 32);
    let uuid = String::from_utf8(id)
        .ok()
        .filter(|id| id.len() == 32)
        .map(|id| {
            // Grouped as the LVM tools print it: 6-4-4-4-4-4-6.
            let ends = [0, 6, 10, 14, 18, 22, 26, 32];
            let part = |pair: &[usize]| id.get(pair[0]..pair[1]).unwrap_or_default().to_owned();
            ends.windows(2).map(part).collect::<Vec<_>>().join("-")
        });
    Some(container("LVM2_member", Vec::new(), uuid))
}

/// Versions 1.1 (at 0) and 1.2 (at 4 KiB) of md's superblock. Versions 0.90 and 1.0 stand at the
/// end and leave the filesystem where it was, so that it can be read without them.
fn md_raid(head: &Head) -> Option<Content> {
    let at = [0, 4096].into_iter().find(|at| {
        head.u32(*at) == 0xa92b_4efc && head.u32(at + 4) == 1 // magic, major_version
    })?;
    let uuid = head.uuid(at + 16).map(|uuid| {
        // mdadm groups the same digits by eight.
        let digits = uuid.replace('-', "");
        let part = |n: usize| digits.get(n * 8..n * 8 + 8).unwrap_or_default();
        [part(0), part(1), part(2), part(3)].join(":")
    });
    Some(container(
        "linux_raid_member",
        head.label::<32>(at + 32),
        uuid,
    ))
}

fn bitlocker(head: &Head) -> Option<Content> {
    head.has(3, b"-FVE-FS-")
        .then(|| container("BitLocker", Vec::new(), None))
}

/// XFS Algorithms & Data Structures, "Superblocks".
fn xfs(head: &Head) -> Option<Content> {
    head.has(0, b"XFSB")
        .then(|| filesystem("xfs", head.label::<12>(108), head.uuid(32)))
}

/// ext2, ext3 and ext4: the superblock at 1024 (Linux, `Documentation/filesystems/ext4`). Which of
/// the three it is follows from the features, as `blkid` has it.
fn ext(head: &Head) -> Option<Content> {
    const SB: usize = 1024;
    const HAS_JOURNAL: u32 = 0x4;
    const JOURNAL_DEV: u32 = 0x8;
    /// `filetype`, `needs_recovery`, `meta_bg`: what ext3 knows of the incompatible ones.
    const EXT3_INCOMPAT: u32 = 0x2 | 0x4 | 0x10;
    /// `sparse_super`, `large_file`, `dir_index`'s old `btree_dir`.
    const EXT3_RO_COMPAT: u32 = 0x1 | 0x2 | 0x4;
    if head.u16(SB + 0x38) != 0xef53 {
        return None;
    }
    let (compat, incompat, ro_compat) = (
        head.u32(SB + 0x5c),
        head.u32(SB + 0x60),
        head.u32(SB + 0x64),
    );
    let kind = match () {
        () if incompat & JOURNAL_DEV != 0 => "jbd",
        () if incompat & !EXT3_INCOMPAT != 0 || ro_compat & !EXT3_RO_COMPAT != 0 => "ext4",
        () if compat & HAS_JOURNAL != 0 => "ext3",
        () => "ext2",
    };
    let found = filesystem(kind, head.label::<16>(SB + 0x78), head.uuid(SB + 0x68));
    let class = match kind {
        "jbd" => ContentClass::Container,
        _ => ContentClass::Filesystem,
    };
    Some(Content { class, ..found })
}

/// F2FS: `struct f2fs_super_block` at 1024; the label is UTF-16.
fn f2fs(head: &Head) -> Option<Content> {
    const SB: usize = 1024;
    (head.u32(SB) == 0xf2f5_2010).then(|| {
        let units = (0..128)
            .map(|n| head.u16(SB + 124 + 2 * n))
            .take_while(|unit| *unit != 0);
        let label = String::from_utf16_lossy(&units.collect::<Vec<_>>());
        filesystem("f2fs", label.into_bytes(), head.uuid(SB + 108))
    })
}

/// NILFS2: `struct nilfs_super_block` at 1024.
fn nilfs2(head: &Head) -> Option<Content> {
    const SB: usize = 1024;
    let is_nilfs2 = head.u16(SB + 6) == 0x3434 && head.u32(SB) == 2; // magic, major revision
    is_nilfs2.then(|| filesystem("nilfs2", head.label::<80>(SB + 168), head.uuid(SB + 152)))
}

/// EROFS: `struct erofs_super_block` at 1024.
fn erofs(head: &Head) -> Option<Content> {
    const SB: usize = 1024;
    (head.u32(SB) == 0xe0f5_e1e2)
        .then(|| filesystem("erofs", head.label::<16>(SB + 64), head.uuid(SB + 48)))
}

fn squashfs(head: &Head) -> Option<Content> {
    head.has(0, b"hsqs")
        .then(|| filesystem("squashfs", Vec::new(), None))
}

/// NTFS: the boot sector's OEM id and serial number; the label is a file's attribute.
fn ntfs(head: &Head) -> Option<Content> {
    head.has(3, b"NTFS    ").then(|| {
        let serial = u64::from_le_bytes(head.array(0x48));
        filesystem("ntfs", Vec::new(), Some(format!("{serial:016X}")))
    })
}

/// exFAT specification, 3.1: `FileSystemName`, `VolumeSerialNumber`.
fn exfat(head: &Head) -> Option<Content> {
    head.has(3, b"EXFAT   ")
        .then(|| filesystem("exfat", Vec::new(), dos_serial(head.u32(0x64))))
}

fn apfs(head: &Head) -> Option<Content> {
    head.has(32, b"NXSB")
        .then(|| filesystem("apfs", Vec::new(), head.uuid(72)))
}

/// HFS Plus Volume Format (TN1150): `H+` or `HX` at 1024.
fn hfsplus(head: &Head) -> Option<Content> {
    (head.has(1024, b"H+\0\x04") || head.has(1024, b"HX\0\x05"))
        .then(|| filesystem("hfsplus", Vec::new(), None))
}

/// Linux swap: the magic ends the first page, which is 4 KiB but on few machines.
fn swap(head: &Head) -> Option<Content> {
    (head.has(4086, b"SWAPSPACE2") || head.has(4086, b"SWAP-SPACE")).then(|| Content {
        class: ContentClass::Swap,
        ..filesystem("swap", head.label::<16>(1052), head.uuid(1036))
    })
}

/// FAT12, FAT16, FAT32 (Microsoft FAT specification, section 3). The type string alone proves
/// little, so the numbers beside it must make sense.
fn vfat(head: &Head) -> Option<Content> {
    let sector_bytes = head.u16(11);
    let [cluster_sectors, fats]: [u8; 2] = [head.array::<1>(13)[0], head.array::<1>(16)[0]];
    let sane = head.has(510, b"\x55\xaa")
        && (512..=4096).contains(&sector_bytes)
        && sector_bytes.is_power_of_two()
        && cluster_sectors.is_power_of_two()
        && head.u16(14) > 0
        && (1..=2).contains(&fats);
    let (serial_at, label_at) = match () {
        () if !sane => return None,
        () if head.has(0x52, b"FAT32   ") => (0x43, 0x47),
        () if head.has(0x36, b"FAT1") || head.has(0x36, b"FAT  ") => (0x27, 0x2b),
        () => return None,
    };
    let label = Some(head.label::<11>(label_at)).filter(|label| label != b"NO NAME");
    Some(filesystem(
        "vfat",
        label.unwrap_or_default(),
        dos_serial(head.u32(serial_at)),
    ))
}

/// ECMA-119, 8.4: the primary volume descriptor. The date of the last modification stands in for a
/// UUID, or that of the creation.
pub(super) fn iso9660(sector: &Head) -> Option<Content> {
    sector.has(0, b"\x01CD001").then(|| {
        let uuid = [830, 813]
            .into_iter()
            .find_map(|at| date_as_uuid(sector.array(at)));
        filesystem("iso9660", sector.label::<32>(40), uuid)
    })
}

/// Digits of a date, grouped; `None` for a date that is not given.
fn date_as_uuid(date: [u8; 16]) -> Option<String> {
    let is_given = date.iter().all(u8::is_ascii_digit) && date != [b'0'; 16];
    let digits = std::str::from_utf8(&date).ok().filter(|_| is_given)?;
    let ends = [0, 4, 6, 8, 10, 12, 14, 16];
    let part = |pair: &[usize]| digits.get(pair[0]..pair[1]).unwrap_or_default();
    Some(ends.windows(2).map(part).collect::<Vec<_>>().join("-"))
}

/// JFS: `struct jfs_superblock` at 32 KiB.
pub(super) fn jfs(superblock: &Head) -> Option<Content> {
    superblock
        .has(0, b"JFS1")
        .then(|| filesystem("jfs", superblock.label::<16>(152), superblock.uuid(136)))
}

/// `ReiserFS`: `struct reiserfs_super_block` at 64 KiB, of each version since 3.5.
pub(super) fn reiserfs(superblock: &Head) -> Option<Content> {
    [&b"ReIsErFs"[..], b"ReIsEr2Fs", b"ReIsEr3Fs"]
        .iter()
        .any(|magic| superblock.has(52, magic))
        .then(|| filesystem("reiserfs", superblock.label::<16>(100), superblock.uuid(84)))
}

/// btrfs on-disk format, "Superblock": magic, `fsid`, `label`.
pub(super) fn btrfs(superblock: &Head) -> Option<Content> {
    superblock.has(0x40, b"_BHRfS_M").then(|| {
        filesystem(
            "btrfs",
            superblock.label::<256>(0x12b),
            superblock.uuid(0x20),
        )
    })
}

#[cfg(test)]
mod tests {
    use diskfs_block::Memory;

    use super::*;

    fn probe(parts: &[(usize, &[u8])]) -> Option<Content> {
        let mut bytes = vec![0; 128 * 1024];
        for (offset, part) in parts {
            bytes[*offset..*offset + part.len()].copy_from_slice(part);
        }
        Content::probe(&Memory::new(bytes)).unwrap()
    }

    #[test]
    fn tells_kind_label_and_uuid() {
        let uuid: Vec<u8> = (1..=16).collect();
        let text = "01020304-0506-0708-090a-0b0c0d0e0f10";
        let found = probe(&[(0, b"XFSB"), (32, &uuid), (108, b"root")]).unwrap();
        assert_eq!((found.kind, found.uuid.as_deref()), ("xfs", Some(text)));
        assert_eq!(found.label().as_deref(), Some("root"));
        let found = probe(&[(65536 + 0x40, b"_BHRfS_M"), (65536 + 0x20, &uuid)]).unwrap();
        assert_eq!((found.kind, found.label()), ("btrfs", None));
        let found = probe(&[(4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"), (4112, &uuid)]).unwrap();
        assert_eq!(found.class, ContentClass::Container);
        assert_eq!(
            found.uuid.as_deref(),
            Some("01020304:05060708:090a0b0c:0d0e0f10")
        );
    }

    #[test]
    fn tells_ext_versions_by_their_features() {
        let magic: (usize, &[u8]) = (1024 + 0x38, b"\x53\xef");
        let kind = |compat: &[u8], incompat: &[u8]| {
            let parts = [magic, (1024 + 0x5c, compat), (1024 + 0x60, incompat)];
            probe(&parts).unwrap().kind
        };
        assert_eq!(kind(&[0], &[2]), "ext2");
        assert_eq!(kind(&[4], &[2]), "ext3");
        assert_eq!(kind(&[4], &[0x42]), "ext4");
        assert_eq!(kind(&[0], &[8]), "jbd");
    }

    #[test]
    fn a_container_wins_over_what_was_there_before() {
        let pv = b"AbCdEf0123456789ghijKLMNOPQRstuv";
        let parts: [(usize, &[u8]); 4] = [
            (512, b"LABELONE"),
            (536, b"LVM2 001"),
            (544, pv),
            (1024 + 0x38, b"\x53\xef"),
        ];
        let found = probe(&parts).unwrap();
        assert_eq!(found.kind, "LVM2_member");
        assert_eq!(
            found.uuid.as_deref(),
            Some("AbCdEf-0123-4567-89gh-ijKL-MNOP-QRstuv")
        );
    }

    #[test]
    fn a_fat_needs_more_than_its_name() {
        let name: (usize, &[u8]) = (0x52, b"FAT32   ");
        assert_eq!(probe(&[name, (510, b"\x55\xaa")]), None);
        let sane: [(usize, &[u8]); 4] = [
            name,
            (11, b"\0\x02\x01\x20\0\x02"),
            (0x43, b"\x4d\x3c\x2b\x1aESP        "),
            (510, b"\x55\xaa"),
        ];
        let found = probe(&sane).unwrap();
        assert_eq!(
            (found.kind, found.uuid.as_deref()),
            ("vfat", Some("1A2B-3C4D"))
        );
        assert_eq!(found.label, b"ESP");
    }

    #[test]
    fn tells_what_begins_further_in() {
        let uuid: Vec<u8> = (1..=16).collect();
        let text = Some("01020304-0506-0708-090a-0b0c0d0e0f10");
        let told = |parts: &[(usize, &[u8])]| {
            let found = probe(parts).unwrap();
            assert_eq!(found.uuid.as_deref(), text);
            (found.kind, String::from_utf8(found.label).unwrap())
        };
        let jfs: [(usize, &[u8]); 3] = [(32768, b"JFS1"), (32904, &uuid), (32920, b"a")];
        assert_eq!(told(&jfs), ("jfs", "a".to_owned()));
        let reiserfs: [(usize, &[u8]); 3] = [(65588, b"ReIsEr2Fs"), (65620, &uuid), (65636, b"b")];
        assert_eq!(told(&reiserfs), ("reiserfs", "b".to_owned()));
        let nilfs2: [(usize, &[u8]); 4] =
            [(1024, &[2]), (1030, b"44"), (1176, &uuid), (1192, b"c")];
        assert_eq!(told(&nilfs2), ("nilfs2", "c".to_owned()));
    }

    #[test]
    fn the_last_change_of_an_iso_is_its_uuid() {
        let base = 32768;
        let mut parts: Vec<(usize, &[u8])> =
            vec![(base, b"\x01CD001"), (base + 813, b"2026010203040506")];
        let uuid = |parts: &[(usize, &[u8])]| probe(parts).unwrap().uuid.unwrap();
        assert_eq!(uuid(&parts), "2026-01-02-03-04-05-06");
        parts.push((base + 830, b"2027010203040506"));
        assert_eq!(uuid(&parts), "2027-01-02-03-04-05-06");
    }

    #[test]
    fn nothing_and_too_little_are_nothing() {
        assert_eq!(probe(&[]), None);
        for len in [0, 1, 511, 1024, 5000, 40_000] {
            assert_eq!(Content::probe(&Memory::new(vec![0; len])).unwrap(), None);
        }
    }
}
