//! `struct dx_node`: an index block below the root. A reader without support for indexes sees a
//! directory block with one unused entry.

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::BlockSize;

/// `struct fake_dirent` as it is stored.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawFakeDirent {
    inode: U32,
    rec_len: U16,
    name_len: u8,
    file_type: u8,
}

/// The offset of a node's table.
pub(super) const TABLE_OFFSET: usize = size_of::<RawFakeDirent>();

/// Returns true if the block begins like a node: with an unused entry that covers all of it.
pub(super) fn is_node(block: &[u8], size: BlockSize) -> bool {
    let Ok((fake, _)) = RawFakeDirent::ref_from_prefix(block) else {
        return false;
    };
    // A record of 64 KiB does not fit into the field; 0 and 65535 both stand for it.
    let len = match fake.rec_len.get() {
        0 | u16::MAX if size.bytes() == 1 << 16 => 1 << 16,
        len => u32::from(len),
    };
    fake.inode.get() == 0 && len == size.bytes()
}

/// Writes the start of a node, before its table.
pub(super) fn put_start(block: &mut [u8], size: BlockSize) {
    /// The encoding of 64 KiB.
    const LARGEST: u16 = u16::MAX;
    let len = u16::try_from(size.bytes()).unwrap_or(LARGEST);
    if let Ok((fake, _)) = RawFakeDirent::mut_from_prefix(block) {
        *fake = RawFakeDirent {
            inode: 0.into(),
            rec_len: len.into(),
            name_len: 0,
            file_type: 0,
        };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the bytes before a node's table.
    pub(crate) fn node(block_size: u16) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes[4..6].copy_from_slice(&block_size.to_le_bytes());
        bytes
    }

    #[test]
    fn a_node_is_one_unused_entry() {
        let size = BlockSize::from_log(0).unwrap();
        assert!(is_node(&node(1024), size));
        assert!(!is_node(&node(1012), size));
        assert!(!is_node(&node(1024)[..7], size));
        let mut bytes = [0xff; 8];
        put_start(&mut bytes, size);
        assert_eq!(bytes[..], node(1024));
        let largest = BlockSize::from_log(6).unwrap();
        put_start(&mut bytes, largest);
        assert!(is_node(&bytes, largest));
        assert!(is_node(&node(u16::MAX), largest));
        assert!(is_node(&node(0), largest));
        assert!(!is_node(&node(0), size));
    }
}
