mod beside_blkid;
mod blkid;
mod hostile;
mod made;

use std::sync::Arc;

use diskfs_block::{Counting, Memory};

use super::*;
use crate::stack::content::ContentClass;

fn told(parts: &[(usize, &[u8])]) -> Option<Content> {
    let mut bytes = vec![0; 128 * 1024];
    for (offset, part) in parts {
        bytes[*offset..*offset + part.len()].copy_from_slice(part);
    }
    Content::probe(&Memory::new(bytes)).unwrap()
}

#[test]
fn identifies_kind_label_and_uuid() {
    let uuid: Vec<u8> = (1..=16).collect();
    let text = "01020304-0506-0708-090a-0b0c0d0e0f10";
    let found = told(&[(0, b"XFSB"), (32, &uuid), (108, b"root")]).unwrap();
    assert_eq!((found.kind, found.uuid.as_deref()), ("xfs", Some(text)));
    assert_eq!(found.label().as_deref(), Some("root"));
    let found = told(&[(65536 + 0x40, b"_BHRfS_M"), (65536 + 0x20, &uuid)]).unwrap();
    assert_eq!((found.kind, found.label()), ("btrfs", None));
    let found = told(&[(4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"), (4112, &uuid)]).unwrap();
    assert_eq!(found.class, ContentClass::Container);
    assert_eq!(
        found.uuid.as_deref(),
        Some("01020304-0506-0708-090a-0b0c0d0e0f10")
    );
}

#[test]
fn a_disc_with_both_is_what_can_be_read() {
    let iso: (usize, &[u8]) = (32 << 10, b"\x01CD001\x01");
    let udf: [(usize, &[u8]); 3] = [
        ((34 << 10) + 1, b"BEA01"),
        ((36 << 10) + 1, b"NSR02"),
        ((38 << 10) + 1, b"TEA01"),
    ];
    let both = [&[iso][..], &udf].concat();
    assert_eq!(told(&both).unwrap().kind, "iso9660");
    let alone: Vec<_> = udf.iter().map(|(at, id)| (at - 2048, *id)).collect();
    assert_eq!(told(&alone).unwrap().kind, "udf");
}

#[test]
fn identifies_ext_versions_by_their_features() {
    let magic: (usize, &[u8]) = (1024 + 0x38, b"\x53\xef");
    let kind = |compat: &[u8], incompat: &[u8]| {
        let parts = [magic, (1024 + 0x5c, compat), (1024 + 0x60, incompat)];
        told(&parts).unwrap().kind
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
    let found = told(&parts).unwrap();
    assert_eq!(found.kind, "LVM2_member");
    assert_eq!(
        found.uuid.as_deref(),
        Some("AbCdEf-0123-4567-89gh-ijKL-MNOP-QRstuv")
    );
}

#[test]
fn a_fat_needs_more_than_its_name() {
    let name: (usize, &[u8]) = (0x52, b"FAT32   ");
    assert_eq!(told(&[name, (510, b"\x55\xaa")]), None);
    let sane: [(usize, &[u8]); 6] = [
        name,
        (36, b"\x01\0\0\0\0\0\0\0\x02"), // a table of one sector; the root's cluster
        (34 * 512, b"ESP        \x08"),
        (11, b"\0\x02\x01\x20\0\x02"),
        (0x43, b"\x4d\x3c\x2b\x1aNO NAME    "),
        (510, b"\x55\xaa"),
    ];
    let found = told(&sane).unwrap();
    assert_eq!(
        (found.kind, found.uuid.as_deref()),
        ("vfat", Some("1A2B-3C4D"))
    );
    assert_eq!(found.label, b"ESP");
    let mut resizing = sane.to_vec();
    resizing[3] = (11, b"\0\x02\x01\x20\0\0");
    assert_eq!(told(&resizing), None);
    resizing.push((128, b"diskfs resizing\0"));
    assert_eq!(told(&resizing).unwrap().kind, "vfat");
}

#[test]
fn identifies_what_begins_further_in() {
    let uuid: Vec<u8> = (1..=16).collect();
    let text = Some("01020304-0506-0708-090a-0b0c0d0e0f10");
    let what = |parts: &[(usize, &[u8])]| {
        let found = told(parts).unwrap();
        assert_eq!(found.uuid.as_deref(), text);
        (found.kind, String::from_utf8(found.label).unwrap())
    };
    let jfs: [(usize, &[u8]); 3] = [(32768, b"JFS1"), (32904, &uuid), (32920, b"a")];
    assert_eq!(what(&jfs), ("jfs", "a".to_owned()));
    let reiserfs: [(usize, &[u8]); 3] = [(65588, b"ReIsEr2Fs"), (65620, &uuid), (65636, b"b")];
    assert_eq!(what(&reiserfs), ("reiserfs", "b".to_owned()));
    let nilfs2: [(usize, &[u8]); 4] = [(1024, &[2]), (1030, b"44"), (1176, &uuid), (1192, b"c")];
    assert_eq!(what(&nilfs2), ("nilfs2", "c".to_owned()));
}

#[test]
fn the_last_change_of_an_iso_is_its_uuid() {
    let base = 32768;
    let mut parts: Vec<(usize, &[u8])> =
        vec![(base, b"\x01CD001"), (base + 813, b"2026010203040506")];
    let uuid = |parts: &[(usize, &[u8])]| told(parts).unwrap().uuid.unwrap();
    assert_eq!(uuid(&parts), "2026-01-02-03-04-05-06");
    parts.push((base + 830, b"2027010203040506"));
    assert_eq!(uuid(&parts), "2027-01-02-03-04-05-06");
}

#[test]
fn nothing_and_too_little_are_nothing() {
    assert_eq!(told(&[]), None);
    for len in [0, 1, 511, 1024, 5000, 40_000] {
        assert_eq!(Content::probe(&Memory::new(vec![0; len])).unwrap(), None);
    }
}

#[test]
fn the_usual_kinds_cost_one_read() {
    let reads = |offset: usize, magic: &[u8]| {
        let mut bytes = vec![0; 1 << 20];
        bytes[1024..1032].copy_from_slice(b"\x01\0\0\0\x07\0\0\0"); // of a swap area
        bytes[offset..offset + magic.len()].copy_from_slice(magic);
        let device = Counting::new(Arc::new(Memory::new(bytes)));
        let told = super::probe(&device).unwrap();
        assert!(told.is_some(), "{offset} {magic:?}");
        device.counts().reads
    };
    assert_eq!(reads(1024 + 0x38, b"\x53\xef"), 1);
    assert_eq!(reads(0, b"XFSB"), 1);
    assert_eq!(reads(0, b"LUKS\xba\xbe"), 1);
    assert_eq!(reads(4086, b"SWAPSPACE2"), 1);
    assert_eq!(reads(32768, b"\x01CD001"), 2);
    assert_eq!(reads(65536 + 0x40, b"_BHRfS_M"), 2);
}

/// The first partition of many disks belongs to a boot loader and has no known content.
#[test]
fn what_is_nothing_costs_few_reads() {
    let device = Counting::new(Arc::new(Memory::new(vec![0; 4 << 20])));
    assert_eq!(super::probe(&device).unwrap(), None);
    let counts = device.counts();
    assert!(counts.reads <= 32, "{counts:?}");
    assert!(counts.read_bytes <= 256 << 10, "{counts:?}");
}
