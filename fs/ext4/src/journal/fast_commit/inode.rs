//! The bytes of an inode that changed since its table was written.

use diskfs_vfs::FileType;

use crate::bytes::{le16, le32, part};

/// The place of an inode in a fast commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InodeEdit {
    /// The byte offset on the device.
    pub(super) offset: u64,
    /// The length: the fields that the inode has.
    pub(super) len_bytes: u16,
    pub(super) generation: u32,
    pub(super) mode: u16,
    /// True if the fast commit creates the file. Then the bytes in the table belong to another
    /// file, unless the generation is the same: a file can be created once more after it has
    /// reached the table.
    pub(super) is_new: bool,
}

/// Offsets in `struct ext4_inode`.
const I_MODE: usize = 0;
const I_FLAGS: usize = 0x20;
const I_BLOCK: usize = 0x28;
const I_GENERATION: usize = 0x64;
const I_BLOCK_BYTES: usize = I_GENERATION - I_BLOCK;

/// `EXT4_EXTENTS_FL` and `EXT4_INLINE_DATA_FL`.
const FLAG_EXTENTS: u32 = 0x8_0000;
const FLAG_INLINE_DATA: u32 = 0x1000_0000;
/// The root of an extent tree without extents: magic, no entries, room for four, depth 0.
const EMPTY_TREE: [u8; 8] = [0x0a, 0xf3, 0, 0, 4, 0, 0, 0];

/// Returns `i_generation` of an inode's bytes.
pub(super) fn generation(raw: &[u8]) -> u32 {
    le32(raw, I_GENERATION).unwrap_or(0)
}

impl InodeEdit {
    /// Returns true if the inode is a directory.
    pub(super) fn is_directory(&self) -> bool {
        FileType::from_mode(u32::from(self.mode)) == Some(FileType::Directory)
    }
}

/// Returns `i_mode` of an inode's bytes.
pub(super) fn mode(raw: &[u8]) -> u16 {
    le16(raw, I_MODE).unwrap_or(0)
}

/// Returns the current bytes of an inode: the fast commit's fields over those in the table. The
/// table's bytes are kept where only they are complete: the block map or the root of the extent
/// tree (the fast commit contains only changes of them), and extended attributes. The checksum is
/// not updated.
pub(super) fn merge(table: &[u8], raw: &[u8], edit: &InodeEdit) -> Vec<u8> {
    let is_new = edit.is_new && generation(table) != generation(raw);
    let mut merged = if is_new {
        vec![0; table.len()]
    } else {
        table.to_vec()
    };
    put(&mut merged, 0, raw.get(..I_BLOCK).unwrap_or_default());
    put(
        &mut merged,
        I_GENERATION,
        raw.get(I_GENERATION..).unwrap_or_default(),
    );
    if le32(raw, I_FLAGS).unwrap_or(0) & FLAG_EXTENTS != 0 {
        if !merged
            .get(I_BLOCK..)
            .is_some_and(|block| block.starts_with(&[0x0a, 0xf3]))
        {
            put(&mut merged, I_BLOCK, &[0; I_BLOCK_BYTES]);
            put(&mut merged, I_BLOCK, &EMPTY_TREE);
        }
    } else if is_new || holds_contents(raw) {
        put(
            &mut merged,
            I_BLOCK,
            part(raw, I_BLOCK, I_BLOCK_BYTES).unwrap_or_default(),
        );
    }
    merged
}

/// Returns true if `i_block` is not a map of blocks: inline data, a symlink's target, a device's
/// number.
fn holds_contents(raw: &[u8]) -> bool {
    let inline = le32(raw, I_FLAGS).unwrap_or(0) & FLAG_INLINE_DATA != 0;
    let file_type = FileType::from_mode(u32::from(mode(raw)));
    inline || !matches!(file_type, Some(FileType::Regular | FileType::Directory))
}

fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    let place = bytes.get_mut(offset..).unwrap_or_default();
    for (byte, value) in place.iter_mut().zip(field) {
        *byte = *value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(mode: u16, flags: u32) -> Vec<u8> {
        let mut raw = vec![0xaa; 160];
        raw[..2].copy_from_slice(&mode.to_le_bytes());
        raw[I_FLAGS..I_FLAGS + 4].copy_from_slice(&flags.to_le_bytes());
        raw
    }

    fn edit(is_new: bool) -> InodeEdit {
        InodeEdit {
            offset: 0,
            len_bytes: 160,
            generation: 0,
            mode: 0,
            is_new,
        }
    }

    #[test]
    fn an_extent_tree_stays() {
        let mut table = vec![0x11; 256];
        table[I_BLOCK..I_BLOCK + 2].copy_from_slice(&[0x0a, 0xf3]);
        let raw = raw(0o100_644, FLAG_EXTENTS);
        let merged = merge(&table, &raw, &edit(false));
        assert_eq!(merged[..I_BLOCK], raw[..I_BLOCK]);
        assert_eq!(merged[I_BLOCK..I_GENERATION], table[I_BLOCK..I_GENERATION]);
        assert_eq!(merged[I_GENERATION..160], raw[I_GENERATION..]);
        assert_eq!(merged[160..], table[160..]);
        let merged = merge(&table, &raw, &edit(true));
        assert_eq!(merged[I_BLOCK..I_BLOCK + 8], EMPTY_TREE);
        assert_eq!(merged[I_BLOCK + 8..I_GENERATION], [0; 52]);
        assert_eq!(merged[160..], [0; 96]);
        // Created once more, although it is in the table already.
        table[I_GENERATION..I_GENERATION + 4].fill(0xaa);
        assert_eq!(
            merge(&table, &raw, &edit(true)),
            merge(&table, &raw, &edit(false))
        );
    }

    #[test]
    fn what_is_no_tree_becomes_an_empty_one() {
        let merged = merge(&[0x11; 256], &raw(0o100_644, FLAG_EXTENTS), &edit(false));
        assert_eq!(merged[I_BLOCK..I_BLOCK + 8], EMPTY_TREE);
    }

    #[test]
    fn contents_come_from_the_fast_commit() {
        let cases = [
            (0o100_644, FLAG_INLINE_DATA),
            (0o120_777, 0),
            (0o020_600, 0),
        ];
        for (mode, flags) in cases {
            let raw = raw(mode, flags);
            let merged = merge(&[0x11; 256], &raw, &edit(false));
            assert_eq!(merged[..160], raw[..]);
        }
        // The fast commit contains only changes of a block map.
        let merged = merge(&[0x11; 128], &raw(0o100_644, 0), &edit(false));
        assert_eq!(merged[I_BLOCK..I_GENERATION], [0x11; I_BLOCK_BYTES]);
        assert_eq!(merged.len(), 128);
    }
}
