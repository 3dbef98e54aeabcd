//! Hashes of entries and of blocks of attributes, which help to find identical blocks.
//!
//! Source: Linux, `fs/ext4/xattr.c`, `ext4_xattr_hash_entry` and `ext4_xattr_rehash`.

/// The rotation for a byte of the name, `NAME_HASH_SHIFT`.
const NAME_SHIFT: u32 = 5;
/// The rotation for a word of the value or a hash of an entry: `VALUE_HASH_SHIFT` and
/// `BLOCK_HASH_SHIFT`.
const VALUE_SHIFT: u32 = 16;

/// Returns the hash of an entry with its value beside it.
pub(crate) fn of_entry(name: &[u8], value: &[u8]) -> u32 {
    with_value(of_name(name), value)
}

/// Returns the hash of an entry whose name's bytes are taken as signed, as Linux did before version
/// 6.2 on most machines. For names in ASCII it is that of [`of_entry`].
pub(crate) fn of_entry_signed(name: &[u8], value: &[u8]) -> u32 {
    with_value(of_name_signed(name), value)
}

fn with_value(name_hash: u32, value: &[u8]) -> u32 {
    let (words, rest) = value.as_chunks::<4>();
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    let last = (!rest.is_empty()).then_some(last);
    let words = words.iter().copied().chain(last).map(u32::from_le_bytes);
    words.fold(name_hash, |hash, word| hash.rotate_left(VALUE_SHIFT) ^ word)
}

/// Returns the hash of an entry with its value in an inode, which has this checksum.
pub(crate) fn of_entry_with_inode(name: &[u8], checksum: u32) -> u32 {
    of_name(name).rotate_left(VALUE_SHIFT) ^ checksum
}

/// Returns the hash of [`of_entry_with_inode`], with the name's bytes taken as signed.
pub(crate) fn of_entry_with_inode_signed(name: &[u8], checksum: u32) -> u32 {
    of_name_signed(name).rotate_left(VALUE_SHIFT) ^ checksum
}

fn of_name_signed(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |hash, &byte| {
        hash.rotate_left(NAME_SHIFT) ^ i32::from(byte.cast_signed()).cast_unsigned()
    })
}

fn of_name(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |hash, &byte| {
        hash.rotate_left(NAME_SHIFT) ^ u32::from(byte)
    })
}

/// Returns the hash of a block whose entries have these hashes. It is 0, which means that the block
/// is not shared, if one entry has none.
pub(crate) fn of_block(entries: impl IntoIterator<Item = u32>) -> u32 {
    let fold =
        |block: u32, entry: u32| (entry != 0).then_some(block.rotate_left(VALUE_SHIFT) ^ entry);
    entries.into_iter().try_fold(0, fold).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_kernel_computes_it() {
        let name = u32::from(b'a');
        let first = name.rotate_left(16) ^ u32::from_le_bytes(*b"bcde");
        let second = first.rotate_left(16) ^ u32::from(b'f');
        assert_eq!(of_entry(b"a", b"bcdef"), second);
        assert_eq!(of_entry(b"ab", b""), (name << 5) ^ u32::from(b'b'));
        assert_eq!(of_block([1, 2]), 0x1_0002);
        assert_eq!(of_block([1, 0]), 0);
    }
}
