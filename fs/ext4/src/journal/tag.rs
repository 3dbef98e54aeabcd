//! `journal_block_tag_t` and `journal_block_tag3_t`: the filesystem block that a data block of the
//! log is for.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::FsBlock;
use crate::bytes::{join64, low16, split64};

use super::features::{Checksums, Incompatible};

/// `journal_block_tag3_t` as it is stored.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
struct RawTag3 {
    t_blocknr: U32,
    t_flags: U32,
    t_blocknr_high: U32,
    t_checksum: U32,
}

/// `journal_block_tag_t` as it is stored, up to `t_blocknr_high`, which exists only with 64-bit
/// block numbers. With checksums of version 2 it is followed by two unused bytes.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
struct RawTag {
    t_blocknr: U32,
    t_checksum: U16,
    t_flags: U16,
}

/// The size of the UUID that follows a tag, unless the tag says "the same as before".
pub(super) const UUID_BYTES: usize = 16;

const FLAG_ESCAPE: u16 = 0x1;
const FLAG_SAME_UUID: u16 = 0x2;
const FLAG_LAST_TAG: u16 = 0x8;

/// The form of a journal's tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TagForm {
    checksums: Checksums,
    wide: bool,
}

/// A tag, independent of its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    /// The filesystem block that the data is for.
    pub(super) target: FsBlock,
    /// True if the data began with the log's magic number, and is stored with zeroes in its place.
    pub(super) escaped: bool,
    /// True if the tag is the last one of its descriptor block.
    pub(super) last: bool,
    /// The expected checksum of the data.
    pub(super) checksum: TagChecksum,
}

/// The position of a tag in its descriptor block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    First,
    Later,
}

/// A tag's part of the data's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagChecksum {
    None,
    /// The low half of the checksum.
    Low(u16),
    Whole(u32),
}

impl TagChecksum {
    /// Returns the known part of the checksum; 0 if there is none.
    fn known_part(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Low(low) => u32::from(low),
            Self::Whole(whole) => whole,
        }
    }

    /// Returns true if `computed` agrees with the tag.
    pub(super) fn matches(self, computed: u32) -> bool {
        match self {
            Self::None => true,
            Self::Low(stored) => stored == crate::bytes::low16(computed),
            Self::Whole(stored) => stored == computed,
        }
    }
}

impl TagForm {
    /// Returns the form for the journal's features.
    pub(super) fn new(checksums: Checksums, incompatible: Incompatible) -> Self {
        let wide = incompatible.contains(Incompatible::SIXTY_FOUR_BIT);
        Self { checksums, wide }
    }

    /// Returns the size of a tag, without the UUID (`journal_tag_bytes` in Linux).
    pub(super) const fn size_bytes(self) -> usize {
        match (self.checksums, self.wide) {
            (Checksums::V3, _) => 16,
            (Checksums::V2, true) => 14,
            (Checksums::V2, false) => 10,
            (_, true) => 12,
            (_, false) => 8,
        }
    }

    /// Parses the tag at the start of `bytes`. Returns it and its size, including the UUID.
    pub(super) fn parse(self, bytes: &[u8]) -> Option<(Tag, usize)> {
        let bytes = bytes.get(..self.size_bytes())?;
        let (low, high, flags, checksum) = match self.checksums {
            Checksums::V3 => fields_of_tag3(bytes)?,
            _ => fields_of_tag(bytes)?,
        };
        let tag = Tag {
            target: FsBlock(join64(if self.wide { high } else { 0 }, low)),
            escaped: flags & FLAG_ESCAPE != 0,
            last: flags & FLAG_LAST_TAG != 0,
            checksum: match (self.checksums, checksum) {
                (Checksums::V2 | Checksums::V3, checksum) => checksum,
                _ => TagChecksum::None,
            },
        };
        let uuid = if flags & FLAG_SAME_UUID == 0 {
            UUID_BYTES
        } else {
            0
        };
        Some((tag, self.size_bytes().saturating_add(uuid)))
    }

    /// Encodes a tag. The first tag of a descriptor block is followed by a UUID, which Linux leaves
    /// zero: it would identify the filesystem if several share a journal.
    pub(super) fn encode(self, tag: Tag, position: Position, out: &mut Vec<u8>) {
        let (high, low) = split64(tag.target.0);
        let flags = flag(FLAG_ESCAPE, tag.escaped)
            | flag(FLAG_LAST_TAG, tag.last)
            | flag(FLAG_SAME_UUID, position == Position::Later);
        let end = out.len().saturating_add(self.size_bytes());
        if self.checksums == Checksums::V3 {
            let raw = RawTag3 {
                t_blocknr: U32::new(low),
                t_flags: U32::new(u32::from(flags)),
                t_blocknr_high: U32::new(if self.wide { high } else { 0 }),
                t_checksum: U32::new(tag.checksum.known_part()),
            };
            out.extend_from_slice(raw.as_bytes());
        } else {
            let raw = RawTag {
                t_blocknr: U32::new(low),
                t_checksum: U16::new(low16(tag.checksum.known_part())),
                t_flags: U16::new(flags),
            };
            out.extend_from_slice(raw.as_bytes());
            out.extend_from_slice(&high.to_be_bytes());
        }
        // Without 64-bit numbers the upper half does not exist; with version 2 two bytes follow.
        out.resize(end, 0);
        if position == Position::First {
            out.resize(end.saturating_add(UUID_BYTES), 0);
        }
    }
}

const fn flag(flag: u16, set: bool) -> u16 {
    if set { flag } else { 0 }
}

type Fields = (u32, u32, u16, TagChecksum);

fn fields_of_tag3(bytes: &[u8]) -> Option<Fields> {
    let raw = RawTag3::ref_from_bytes(bytes).ok()?;
    let flags = crate::bytes::low16(raw.t_flags.get());
    let checksum = TagChecksum::Whole(raw.t_checksum.get());
    Some((
        raw.t_blocknr.get(),
        raw.t_blocknr_high.get(),
        flags,
        checksum,
    ))
}

fn fields_of_tag(bytes: &[u8]) -> Option<Fields> {
    let (raw, rest) = RawTag::ref_from_prefix(bytes).ok()?;
    let high = U32::read_from_prefix(rest).map_or(0, |(high, _)| high.get());
    let checksum = TagChecksum::Low(raw.t_checksum.get());
    Some((raw.t_blocknr.get(), high, raw.t_flags.get(), checksum))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 16] = [
        0, 0, 0, 1, 0xab, 0xcd, 0, 0xb, 0, 0, 0, 2, 0x11, 0x22, 0x33, 0x44,
    ];

    fn form(checksums: Checksums, wide: bool) -> TagForm {
        TagForm { checksums, wide }
    }

    #[test]
    fn five_forms() {
        let whole = TagChecksum::Whole(0x1122_3344);
        let cases = [
            (Checksums::None, false, 8, 1, TagChecksum::None),
            (Checksums::V1, true, 12, 0x2_0000_0001, TagChecksum::None),
            (Checksums::V2, false, 10, 1, TagChecksum::Low(0xabcd)),
            (
                Checksums::V2,
                true,
                14,
                0x2_0000_0001,
                TagChecksum::Low(0xabcd),
            ),
            (Checksums::V3, false, 16, 1, whole),
            (Checksums::V3, true, 16, 0x2_0000_0001, whole),
        ];
        for (checksums, wide, size, target, checksum) in cases {
            let form = form(checksums, wide);
            let (tag, taken) = form.parse(&BYTES).unwrap();
            let want = Tag {
                target: FsBlock(target),
                escaped: true,
                last: true,
                checksum,
            };
            assert_eq!((tag, taken), (want, size), "{checksums:?} {wide}");
            assert!(form.parse(&BYTES[..size - 1]).is_none());
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for checksums in [Checksums::None, Checksums::V2, Checksums::V3] {
            for (wide, target) in [(false, 0xffff_fffe), (true, 0x2_0000_0001)] {
                let form = form(checksums, wide);
                let checksum = match checksums {
                    Checksums::V3 => TagChecksum::Whole(0x1122_3344),
                    Checksums::V2 => TagChecksum::Low(0x3344),
                    _ => TagChecksum::None,
                };
                let tag = Tag {
                    target: FsBlock(target),
                    escaped: true,
                    last: wide,
                    checksum,
                };
                for (position, uuid) in [(Position::First, 16), (Position::Later, 0)] {
                    let mut bytes = Vec::new();
                    form.encode(tag, position, &mut bytes);
                    assert_eq!(bytes.len(), form.size_bytes() + uuid);
                    assert_eq!(form.parse(&bytes), Some((tag, bytes.len())));
                }
            }
        }
    }

    #[test]
    fn a_uuid_follows_the_first_tag() {
        let mut bytes = BYTES;
        bytes[7] = 0;
        let (tag, taken) = form(Checksums::None, false).parse(&bytes).unwrap();
        assert_eq!(taken, 24);
        assert!(!tag.escaped && !tag.last);
    }

    #[test]
    fn half_of_a_checksum() {
        assert!(TagChecksum::Low(0x3344).matches(0x1122_3344));
        assert!(!TagChecksum::Low(0x3344).matches(0x3344_1122));
        assert!(!TagChecksum::Whole(0x3344).matches(0x1122_3344));
        assert!(TagChecksum::None.matches(5));
    }
}
