//! The descriptor block: which blocks of the filesystem the data blocks behind it are for.

use super::block_header::HEADER_BYTES;
use super::checksum::BlockChecksum;
use super::tag::{Tag, TagForm};

/// The size of `struct jbd2_journal_block_tail`, which descriptor and revocation blocks end with
/// if each block has a checksum.
pub(super) const TAIL_BYTES: usize = 4;

/// Whether the checksum in the last four bytes of a descriptor or revocation block is right.
pub(super) fn tail_is_right(block: &[u8], checksum: BlockChecksum) -> bool {
    let field = block.len().saturating_sub(TAIL_BYTES);
    let stored = crate::bytes::array(block, field).map(u32::from_be_bytes);
    stored == Some(checksum.of_block(block, field))
}

/// The tags of a descriptor block, up to the one that says it is the last or to the block's end.
/// Each takes one block of the log.
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
