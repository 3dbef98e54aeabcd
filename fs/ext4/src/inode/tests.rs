use super::*;

fn superblock(changes: &[(usize, u32)]) -> Superblock {
    let mut bytes = crate::superblock::tests::sample();
    for &(offset, value) in changes {
        bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
    Superblock::parse(&bytes, 4 << 20).unwrap()
}

fn raw(fields: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    for &(offset, value) in fields {
        bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

const REGULAR: (usize, u32) = (0, 0o100_644);

fn parse(s: &Superblock, fields: &[(usize, u32)]) -> Inode {
    Inode::parse(s, 12, &raw(fields)).unwrap().unwrap()
}

/// Returns a regular file's inode of 256 bytes, whose fields reach up to byte 160.
pub(crate) fn sample(superblock: &Superblock) -> Inode {
    parse(superblock, &[REGULAR, (0x80, 32)])
}

#[test]
fn an_unused_inode_is_none() {
    assert!(
        Inode::parse(&superblock(&[]), 12, &[0; 256])
            .unwrap()
            .is_none()
    );
}

#[test]
fn sizes_are_64_bit_for_files_only() {
    let s = superblock(&[]);
    let fields = [(4, 7), (0x6c, 3)];
    let file = parse(&s, &[&[REGULAR], &fields[..]].concat());
    assert_eq!(file.size_bytes, 0x3_0000_0007);
    let dir = parse(&s, &[&[(0, 0o040_755)], &fields[..]].concat());
    assert_eq!(dir.size_bytes, 7);
    let e = Inode::parse(&s, 12, &raw(&[REGULAR, (0x6c, 1 << 31)])).unwrap_err();
    assert!(e.to_string().contains("i_size"), "{e}");
}

#[test]
fn blocks_are_counted_in_three_ways() {
    let fields = [REGULAR, (0x1c, 8), (0x74, 1)];
    let small = superblock(&[]);
    assert_eq!(parse(&small, &fields).allocated_bytes, 8 * 512);
    let huge = superblock(&[(0x64, 0x8)]);
    let units = (1u64 << 32) + 8;
    assert_eq!(parse(&huge, &fields).allocated_bytes, units * 512);
    let fields = [REGULAR, (0x1c, 8), (0x74, 1), (0x20, 0x4_0000)];
    assert_eq!(parse(&huge, &fields).allocated_bytes, units * 4096);
}

#[test]
fn extra_fields_count_only_as_far_as_the_inode_says() {
    let s = superblock(&[]);
    let extra = |isize: u32| [REGULAR, (0x80, isize), (0x88, 9 << 2), (0x90, 5)];
    assert_eq!(parse(&s, &extra(8)).modified.nanoseconds, 0);
    assert_eq!(parse(&s, &extra(12)).modified.nanoseconds, 9);
    assert_eq!(parse(&s, &extra(16)).created, None);
    assert_eq!(parse(&s, &extra(28)).created.unwrap().seconds, 5);
    // Inodes from before this field existed: the kernel treats all fields that it knows as present.
    assert_eq!(parse(&s, &extra(0)).created.unwrap().seconds, 5);
    assert!(Inode::parse(&s, 12, &raw(&extra(132))).is_err());
    assert!(Inode::parse(&s, 12, &raw(&extra(6))).is_err());
}

#[test]
fn attributes_begin_after_their_magic() {
    let s = superblock(&[]);
    let inode = parse(&s, &[REGULAR, (0x80, 32), (0xa0, 0xea02_0000), (0xa4, 77)]);
    assert_eq!(inode.xattr_bytes.len(), 256 - 128 - 32 - 4);
    assert_eq!(inode.xattr_bytes[0], 77);
    assert!(parse(&s, &[REGULAR, (0x80, 32)]).xattr_bytes.is_empty());
}

#[test]
fn both_halves_of_the_checksum_count() {
    let mut s = superblock(&[]);
    s.checksum_seed = Some(ChecksumSeed(1));
    let mut bytes = raw(&[REGULAR, (0x64, 99), (0x80, 32)]);
    let sum = ChecksumSeed(1).of_inode(12, 99).of(&[&bytes]);
    bytes[0x7c..0x7e].copy_from_slice(&sum.to_le_bytes()[..2]);
    bytes[0x82..0x84].copy_from_slice(&sum.to_le_bytes()[2..]);
    assert!(Inode::parse(&s, 12, &bytes).unwrap().is_some());
    for at in [0, 0x7c, 0x82, 255] {
        bytes[at] ^= 1;
        let e = Inode::parse(&s, 12, &bytes).unwrap_err();
        assert!(
            e.to_string().starts_with("invalid inode 12: checksum"),
            "{e}"
        );
        bytes[at] ^= 1;
    }
    assert!(Inode::parse(&s, 13, &bytes).is_err());
}
