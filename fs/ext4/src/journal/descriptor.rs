//! The descriptor block: it gives the filesystem blocks for which the following data blocks are.

use zerocopy::IntoBytes;

use super::block_header::{BlockType, HEADER_BYTES, RawBlockHeader, Sequence};
use super::checksum::BlockChecksum;
use super::tag::{Position, Tag, TagForm, UUID_BYTES};

/// The size of `struct jbd2_journal_block_tail`, with which descriptor and revocation blocks end if
/// each block has a checksum.
pub(super) const TAIL_BYTES: usize = 4;

/// Returns true if the checksum in the last four bytes of a descriptor or revocation block is
/// right.
pub(super) fn tail_is_right(block: &[u8], checksum: BlockChecksum) -> bool {
    let field = block.len().saturating_sub(TAIL_BYTES);
    let stored = crate::bytes::array(block, field).map(u32::from_be_bytes);
    stored == Some(checksum.of_block(block, field))
}

/// Writes the checksum into the last four bytes of a descriptor or revocation block.
pub(super) fn put_tail(block: &mut [u8], checksum: BlockChecksum) {
    let field = block.len().saturating_sub(TAIL_BYTES);
    let sum = checksum.of_block(block, field);
    crate::bytes::put(block, field, &sum.to_be_bytes());
}

/// Returns how many tags fit into a descriptor block. Linux leaves room for one more UUID.
pub(super) fn tags_per_block(block_bytes: usize, form: TagForm, tail_bytes: usize) -> usize {
    let fixed = HEADER_BYTES
        .saturating_add(UUID_BYTES)
        .saturating_add(tail_bytes);
    let room = block_bytes.saturating_sub(fixed);
    room.checked_div(form.size_bytes()).unwrap_or(0)
}

/// Encodes a descriptor block with these tags, at most [`tags_per_block`]. Its last bytes are
/// zeroes.
pub(super) fn encode(
    block_bytes: usize,
    form: TagForm,
    sequence: Sequence,
    tags: impl Iterator<Item = Tag>,
) -> Vec<u8> {
    let mut block = Vec::with_capacity(block_bytes);
    let header = RawBlockHeader::new(BlockType::Descriptor, sequence);
    block.extend_from_slice(header.as_bytes());
    let mut position = Position::First;
    for tag in tags {
        form.encode(tag, position, &mut block);
        position = Position::Later;
    }
    block.resize(block_bytes, 0);
    block
}

/// Returns the tags of a descriptor block, up to the one marked as the last or to the block's end.
/// Each tag stands for one block of the log.
pub(super) fn tags(block: &[u8], form: TagForm, tail_bytes: usize) -> impl Iterator<Item = Tag> {
    let end = block.len().saturating_sub(tail_bytes);
    let mut left = block.get(HEADER_BYTES..end).unwrap_or_default();
    std::iter::from_fn(move || {
        let (tag, taken) = form.parse(left)?;
        left = if tag.last {
            &[]
        } else {
            left.get(taken..).unwrap_or_default()
        };
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::super::features::{Checksums, Incompatible};
    use super::*;

    fn block(tags: &[(u8, u8)]) -> Vec<u8> {
        let mut block = vec![0; HEADER_BYTES];
        for (index, &(target, flags)) in tags.iter().enumerate() {
            block.extend([0, 0, 0, target, 0, 0, 0, flags]);
            block.resize(block.len() + if index == 0 { 16 } else { 0 }, 0xee);
        }
        block
    }

    fn targets(block: &[u8], tail_bytes: usize) -> Vec<u64> {
        let form = TagForm::new(Checksums::None, Incompatible::empty());
        tags(block, form, tail_bytes)
            .map(|tag| tag.target.0)
            .collect()
    }

    #[test]
    fn ends_with_the_last_tag() {
        let mut bytes = block(&[(1, 0), (2, 2), (3, 2 | 8), (4, 2)]);
        assert_eq!(targets(&bytes, 4), [1, 2, 3]);
        bytes.resize(1024, 0xff);
        assert_eq!(targets(&bytes, 4), [1, 2, 3]);
    }

    #[test]
    fn ends_where_no_tag_fits_any_more() {
        let bytes = block(&[(1, 0), (2, 2), (3, 2)]);
        assert_eq!(targets(&bytes, 0), [1, 2, 3]);
        assert_eq!(targets(&bytes, 1), [1, 2]);
        assert_eq!(targets(&[], 4), [0; 0]);
    }

    #[test]
    fn what_is_written_is_read() {
        use super::super::tag::TagChecksum;
        use crate::block::FsBlock;
        let checksum = BlockChecksum::of_uuid(&[1; 16]);
        let form = TagForm::new(Checksums::V3, Incompatible::SIXTY_FOUR_BIT);
        let count = tags_per_block(1024, form, TAIL_BYTES);
        assert_eq!(count, (1024 - 12 - 16 - 4) / 16);
        let written: Vec<Tag> = (1..=count)
            .map(|n| Tag {
                target: FsBlock(u64::try_from(n).unwrap()),
                escaped: n == 2,
                last: n == count,
                checksum: TagChecksum::Whole(7),
            })
            .collect();
        let mut bytes = encode(1024, form, Sequence(9), written.iter().copied());
        put_tail(&mut bytes, checksum);
        assert!(tail_is_right(&bytes, checksum));
        let read: Vec<Tag> = tags(&bytes, form, TAIL_BYTES).collect();
        assert_eq!(read, written);
    }

    #[test]
    fn the_tail_is_checked() {
        let checksum = BlockChecksum::of_uuid(&[1; 16]);
        let mut bytes = block(&[(1, 0)]);
        bytes.resize(1024, 0);
        let sum = checksum.of_block(&bytes, 1020);
        bytes[1020..].copy_from_slice(&sum.to_be_bytes());
        assert!(tail_is_right(&bytes, checksum));
        bytes[500] = 1;
        assert!(!tail_is_right(&bytes, checksum));
        assert!(!tail_is_right(&[], checksum));
    }
}
