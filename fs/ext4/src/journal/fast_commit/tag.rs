//! The tags of a fast commit: `struct ext4_fc_tl` and the values after it.
//!
//! Unlike everything else in the journal they are little-endian.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::block::{FileBlock, FsBlock};
use crate::bytes::{join64, part};
use crate::run::Run;

use super::super::block_header::Sequence;

/// `struct ext4_fc_tl` as it is stored.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTagHeader {
    tag: U16,
    len: U16,
}

/// `struct ext4_fc_head` as it is stored.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    features: U32,
    tid: U32,
}

/// `struct ext4_fc_add_range` as it is stored; its second half is a `struct ext4_extent`.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAddRange {
    inode: U32,
    block: U32,
    len: U16,
    start_hi: U16,
    start_lo: U32,
}

/// `struct ext4_fc_del_range` as it is stored.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDelRange {
    inode: U32,
    block: U32,
    len: U32,
}

/// `struct ext4_fc_dentry_info` as it is stored, without the name after it.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDentry {
    parent: U32,
    inode: U32,
}

/// `struct ext4_fc_tail` as it is stored.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTail {
    tid: U32,
    crc: U32,
}

/// The size of a tag without its value.
pub(super) const HEADER_BYTES: usize = size_of::<RawTagHeader>();
/// The bytes of a tail that its checksum covers: all before the checksum.
pub(super) const TAIL_COVERED_BYTES: usize = HEADER_BYTES + 4;
/// The maximum length of a name, `EXT4_NAME_LEN`.
const NAME_BYTES_MAX: usize = 255;
/// The minimum size of an inode, `EXT4_GOOD_OLD_INODE_SIZE`.
const INODE_BYTES_MIN: usize = 128;

/// A name that is added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dentry<'a> {
    pub(super) parent: u32,
    pub(super) inode: u32,
    pub(super) name: &'a [u8],
}

/// A tag with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag<'a> {
    /// Blocks added to a file.
    AddRange { inode: u32, run: Run },
    /// Blocks removed from a file.
    DelRange {
        inode: u32,
        start: FileBlock,
        len_blocks: u32,
    },
    /// A new file with its first name.
    Create(Dentry<'a>),
    /// An additional name.
    Link(Dentry<'a>),
    /// A removed name.
    Unlink(Dentry<'a>),
    /// An inode's bytes, as far as they have a meaning. They begin `offset` bytes into the tag.
    Inode {
        number: u32,
        raw: &'a [u8],
        offset: usize,
    },
    /// Padding up to the end of a block.
    Pad,
    /// The end of a fast commit.
    Tail { tid: Sequence, crc: u32 },
    /// The start of the first fast commit after a full commit.
    Head { features: u32, tid: Sequence },
}

impl<'a> Tag<'a> {
    /// Parses the tag at the start of `bytes`, which reach to the end of the block. Returns the tag
    /// and its size, or `None` if it is not a tag or has an invalid length. `inode_size` is the
    /// size of inodes.
    pub(super) fn parse(bytes: &'a [u8], inode_size: u16) -> Option<(Self, usize)> {
        let header = RawTagHeader::ref_from_bytes(part(bytes, 0, HEADER_BYTES)?).ok()?;
        let len = usize::from(header.len.get());
        let value = part(bytes, HEADER_BYTES, len)?;
        let tag = match header.tag.get() {
            1 => add_range(RawAddRange::ref_from_bytes(value).ok()?),
            2 => del_range(RawDelRange::ref_from_bytes(value).ok()?),
            3 => Self::Create(dentry(value)?),
            4 => Self::Link(dentry(value)?),
            5 => Self::Unlink(dentry(value)?),
            6 => inode(value, inode_size)?,
            7 => Self::Pad,
            8 => tail(RawTail::ref_from_prefix(value).ok()?.0),
            9 => head(RawHead::ref_from_bytes(value).ok()?),
            _ => return None,
        };
        Some((tag, HEADER_BYTES.saturating_add(len)))
    }
}

/// The tags of a block, with the byte offset of each in the block. The iterator ends before the
/// first invalid tag.
#[derive(Debug)]
pub(super) struct Tags<'a> {
    block: &'a [u8],
    at: usize,
    inode_size: u16,
}

impl<'a> Tags<'a> {
    pub(super) const fn new(block: &'a [u8], inode_size: u16) -> Self {
        Self {
            block,
            at: 0,
            inode_size,
        }
    }

    /// Returns true if all tags were read: fewer bytes than a tag's header at the end of a block
    /// are padding.
    pub(super) fn is_done(&self) -> bool {
        self.block.len().saturating_sub(self.at) < HEADER_BYTES
    }

    /// Returns the bytes of a block from a tag on up to the next one.
    pub(super) fn bytes_from(&self, start: usize) -> &'a [u8] {
        self.block.get(start..self.at).unwrap_or_default()
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = (usize, Tag<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let (tag, taken) = Tag::parse(self.block.get(start..)?, self.inode_size)?;
        self.at = start.saturating_add(taken);
        Some((start, tag))
    }
}

fn add_range(raw: &RawAddRange) -> Tag<'static> {
    /// `EXT_INIT_MAX_LEN`: larger lengths mark an unwritten run, and are too large by this value.
    const WRITTEN_BLOCKS_MAX: u16 = 1 << 15;
    let len = raw.len.get();
    let unwritten = len.checked_sub(WRITTEN_BLOCKS_MAX).filter(|&len| len > 0);
    let run = Run {
        file_block: FileBlock(raw.block.get()),
        fs_block: FsBlock(join64(u32::from(raw.start_hi.get()), raw.start_lo.get())),
        len_blocks: u32::from(unwritten.unwrap_or(len)),
        written: unwritten.is_none(),
    };
    Tag::AddRange {
        inode: raw.inode.get(),
        run,
    }
}

fn del_range(raw: &RawDelRange) -> Tag<'static> {
    Tag::DelRange {
        inode: raw.inode.get(),
        start: FileBlock(raw.block.get()),
        len_blocks: raw.len.get(),
    }
}

fn dentry(value: &[u8]) -> Option<Dentry<'_>> {
    let (raw, name) = RawDentry::ref_from_prefix(value).ok()?;
    let valid = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(&b'/');
    let (parent, inode) = (raw.parent.get(), raw.inode.get());
    (valid && !name.contains(&0)).then_some(Dentry {
        parent,
        inode,
        name,
    })
}

fn inode(value: &[u8], inode_size: u16) -> Option<Tag<'_>> {
    let (number, raw) = U32::ref_from_prefix(value).ok()?;
    let valid = (INODE_BYTES_MIN..=usize::from(inode_size)).contains(&raw.len());
    let offset = HEADER_BYTES.saturating_add(size_of::<U32>());
    valid.then_some(Tag::Inode {
        number: number.get(),
        raw,
        offset,
    })
}

fn tail(raw: &RawTail) -> Tag<'static> {
    Tag::Tail {
        tid: Sequence(raw.tid.get()),
        crc: raw.crc.get(),
    }
}

fn head(raw: &RawHead) -> Tag<'static> {
    Tag::Head {
        features: raw.features.get(),
        tid: Sequence(raw.tid.get()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(tag: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = tag.to_le_bytes().to_vec();
        bytes.extend(u16::try_from(value.len()).unwrap().to_le_bytes());
        bytes.extend(value);
        bytes
    }

    #[test]
    fn ranges() {
        let value = [9, 0, 0, 0, 5, 0, 0, 0, 3, 0x80, 1, 0, 7, 0, 0, 0];
        let bytes = bytes(1, &value);
        let run = Run {
            file_block: FileBlock(5),
            fs_block: FsBlock(0x1_0000_0007),
            len_blocks: 3,
            written: false,
        };
        assert_eq!(
            Tag::parse(&bytes, 256),
            Some((Tag::AddRange { inode: 9, run }, 20))
        );
        let mut full = bytes.clone();
        full[13] = 0x80;
        full[12] = 0;
        let Some((Tag::AddRange { run, .. }, _)) = Tag::parse(&full, 256) else {
            panic!()
        };
        assert_eq!((run.len_blocks, run.written), (0x8000, true));
        assert_eq!(Tag::parse(&bytes[..19], 256), None);
    }

    #[test]
    fn names() {
        let mut value = vec![2, 0, 0, 0, 12, 0, 0, 0];
        value.extend(b"name");
        let dentry = Dentry {
            parent: 2,
            inode: 12,
            name: b"name",
        };
        for (tag, want) in [
            (3, Tag::Create(dentry)),
            (4, Tag::Link(dentry)),
            (5, Tag::Unlink(dentry)),
        ] {
            assert_eq!(Tag::parse(&bytes(tag, &value), 256), Some((want, 16)));
        }
        for name in [&b""[..], b"a/b", b"a\0", &[b'x'; 256]] {
            let value = [&value[..8], name].concat();
            assert_eq!(Tag::parse(&bytes(4, &value), 256), None);
        }
    }

    #[test]
    fn inodes_are_not_longer_than_those_on_disk() {
        let value = vec![1; 4 + 160];
        let bytes = bytes(6, &value);
        let want = Tag::Inode {
            number: 0x0101_0101,
            raw: &[1; 160],
            offset: 8,
        };
        assert_eq!(Tag::parse(&bytes, 256), Some((want, 168)));
        assert_eq!(Tag::parse(&bytes, 128), None);
    }

    #[test]
    fn head_tail_and_padding() {
        let value = [0, 0, 0, 0, 4, 0, 0, 0];
        let head = Tag::Head {
            features: 0,
            tid: Sequence(4),
        };
        assert_eq!(Tag::parse(&bytes(9, &value), 256), Some((head, 12)));
        let tail = Tag::Tail {
            tid: Sequence(0),
            crc: 4,
        };
        let padded = [&value[..], &[0xee; 100]].concat();
        assert_eq!(Tag::parse(&bytes(8, &padded), 256), Some((tail, 112)));
        assert_eq!(Tag::parse(&bytes(7, &[]), 256), Some((Tag::Pad, 4)));
        for unknown in [0, 10, 0xffff] {
            assert_eq!(Tag::parse(&bytes(unknown, &value), 256), None);
        }
    }

    proptest! {
        #[test]
        fn never_takes_more_than_there_is(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Some((_, taken)) = Tag::parse(&bytes, 256) {
                prop_assert!(taken >= HEADER_BYTES && taken <= bytes.len());
            }
        }
    }
}
