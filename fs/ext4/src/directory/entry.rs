//! Directory entries, `struct ext4_dir_entry_2`.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Linear (Classic)
//! Directories".

use diskfs_vfs::FileType;

use crate::bytes::{le16, le32, part, put, split32};
use crate::features::Incompatible;
use crate::superblock::Superblock;

/// The size of the fields before the name.
const HEADER_BYTES: usize = 8;
/// The size of the shortest entry, whose name has one byte.
pub(super) const ENTRY_BYTES_MIN: usize = 12;
/// The alignment of entries: they begin at multiples of it.
const ALIGNMENT: usize = 4;

/// An entry, in use or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The inode number, 0 if the entry is not in use.
    pub(crate) inode: u32,
    pub(crate) name: &'a [u8],
    pub(crate) file_type: Option<FileType>,
    /// The offset where the next entry begins.
    pub(crate) end: usize,
}

impl<'a> Entry<'a> {
    /// Parses the entry at `offset` of `region`: a directory block or a part of an inline
    /// directory, which the entries fill exactly.
    ///
    /// # Errors
    /// A description of what is invalid.
    pub(super) fn parse(
        superblock: &Superblock,
        region: &'a [u8],
        offset: usize,
    ) -> Result<Self, &'static str> {
        let entry = Self::parse_any_inode(superblock, region, offset)?;
        if entry.inode > superblock.inodes_count {
            return Err("its inode number is out of range");
        }
        Ok(entry)
    }

    /// Parses an entry like [`parse`](Self::parse), with any inode number.
    ///
    /// # Errors
    /// A description of what is invalid.
    pub(crate) fn parse_any_inode(
        superblock: &Superblock,
        region: &'a [u8],
        offset: usize,
    ) -> Result<Self, &'static str> {
        let header = part(region, offset, HEADER_BYTES).ok_or("truncated")?;
        let inode = le32(header, 0).unwrap_or(0);
        let rec_len = le16(header, 4).unwrap_or(0);
        let len = record_len(rec_len, superblock.block_size.bytes());
        let [.., name_len, file_type] = *header else {
            return Err("truncated");
        };
        let name_len = usize::from(name_len);
        let end = offset.saturating_add(len);
        check_length(len, name_len, region.len().saturating_sub(offset))?;
        let name = part(region, offset.saturating_add(HEADER_BYTES), name_len);
        Ok(Self {
            inode,
            name: name.ok_or("its name reaches past its end")?,
            file_type: decode_type(superblock, file_type),
            end,
        })
    }
}

/// Returns the minimum number of bytes that an entry with a name of this length needs.
pub(super) fn bytes_for(name_len: usize) -> usize {
    HEADER_BYTES
        .saturating_add(name_len)
        .next_multiple_of(ALIGNMENT)
}

/// An entry to be added to a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewEntry<'a> {
    pub(crate) inode: u32,
    /// The name, at most 255 bytes.
    pub(crate) name: &'a [u8],
    pub(crate) file_type: FileType,
}

impl NewEntry<'_> {
    /// Returns the number of bytes that the entry needs.
    pub(super) fn bytes(&self) -> usize {
        bytes_for(self.name.len())
    }

    /// Writes the entry at `offset` of `region`, with a record length of `len` bytes.
    pub(super) fn put(
        &self,
        superblock: &Superblock,
        region: &mut [u8],
        offset: usize,
        len: usize,
    ) {
        let name_len = u8::try_from(self.name.len()).unwrap_or(u8::MAX);
        put(region, offset, &self.inode.to_le_bytes());
        set_len(superblock, region, offset, len);
        // Without the feature `filetype` the name length has 16 bits, of which the upper ones are
        // zero.
        let file_type = encode_type(superblock, self.file_type);
        put(region, offset.saturating_add(6), &[name_len, file_type]);
        put(region, offset.saturating_add(HEADER_BYTES), self.name);
    }
}

/// Writes an unused entry of `len` bytes at `offset`; the rest of its bytes become zeroes.
pub(super) fn put_unused(superblock: &Superblock, region: &mut [u8], offset: usize, len: usize) {
    let end = offset.saturating_add(len);
    region.get_mut(offset..end).unwrap_or_default().fill(0);
    set_len(superblock, region, offset, len);
}

/// Sets the record length of the entry at `offset` to `len` bytes.
pub(super) fn set_len(superblock: &Superblock, region: &mut [u8], offset: usize, len: usize) {
    let stored = stored_len(len, superblock.block_size.bytes());
    put(region, offset.saturating_add(4), &stored.to_le_bytes());
}

/// Makes the entry at `offset` refer to another inode.
pub(super) fn set_inode(
    superblock: &Superblock,
    region: &mut [u8],
    offset: usize,
    inode: u32,
    file_type: FileType,
) {
    put(region, offset, &inode.to_le_bytes());
    let file_type = encode_type(superblock, file_type);
    put(region, offset.saturating_add(7), &[file_type]);
}

fn check_length(len: usize, name_len: usize, left: usize) -> Result<(), &'static str> {
    if len < ENTRY_BYTES_MIN {
        return Err("rec_len is less than the 12 bytes of the shortest entry");
    }
    if len & 3 != 0 {
        return Err("rec_len is not a multiple of 4");
    }
    if len < HEADER_BYTES.saturating_add(name_len) {
        return Err("rec_len is too small for its name");
    }
    match left.checked_sub(len) {
        None => Err("it reaches past the end of its block"),
        Some(1..ENTRY_BYTES_MIN) => Err("it leaves too little room for another entry in its block"),
        Some(_) => Ok(()),
    }
}

/// Decodes `rec_len`. 16 bits are one too few for a block of 64 KiB, so 65535 and 0 stand for the
/// whole block, and the two low bits, always 0 in a length, stand for the bits above 65535.
fn record_len(rec_len: u16, block_size: u32) -> usize {
    const WHOLE: u16 = 65535;
    if block_size < 1 << 16 {
        return usize::from(rec_len);
    }
    if rec_len == WHOLE || rec_len == 0 {
        return 1 << 16;
    }
    usize::from(rec_len & !3) | usize::from(rec_len & 3).wrapping_shl(16)
}

/// Encodes a record length; the inverse of [`record_len`].
fn stored_len(len: usize, block_size: u32) -> u16 {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    if len == 1 << 16 && len == block_size {
        return u16::MAX;
    }
    split32(len).1
}

fn encode_type(superblock: &Superblock, file_type: FileType) -> u8 {
    if !superblock.features.has(Incompatible::FILETYPE) {
        return 0;
    }
    match file_type {
        FileType::Regular => 1,
        FileType::Directory => 2,
        FileType::CharacterDevice => 3,
        FileType::BlockDevice => 4,
        FileType::Fifo => 5,
        FileType::Socket => 6,
        FileType::Symlink => 7,
    }
}

fn decode_type(superblock: &Superblock, file_type: u8) -> Option<FileType> {
    if !superblock.features.has(Incompatible::FILETYPE) {
        return None;
    }
    Some(match file_type {
        1 => FileType::Regular,
        2 => FileType::Directory,
        3 => FileType::CharacterDevice,
        4 => FileType::BlockDevice,
        5 => FileType::Fifo,
        6 => FileType::Socket,
        7 => FileType::Symlink,
        _ => return None,
    })
}

/// Returns what is invalid in a name that is in use, if anything.
pub(crate) fn problem_of_name(name: &[u8]) -> Option<&'static str> {
    if name.is_empty() {
        return Some("its name is empty");
    }
    name.iter()
        .any(|&byte| byte == b'/' || byte == 0)
        .then_some("its name contains a slash or a NUL")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::tests::sample;

    type ParsedEntry = (u32, Vec<u8>, Option<FileType>, usize);

    fn parse(bytes: &[u8]) -> Result<ParsedEntry, &'static str> {
        let superblock = Superblock::parse(&sample(), 4 << 20).unwrap();
        let entry = Entry::parse(&superblock, bytes, 0)?;
        Ok((entry.inode, entry.name.to_vec(), entry.file_type, entry.end))
    }

    fn bytes(inode: u8, rec_len: u8, name_len: u8, region: usize) -> Vec<u8> {
        let mut bytes = vec![
            inode, 0, 0, 0, rec_len, 0, name_len, 2, b'a', b'b', b'c', b'd',
        ];
        bytes.resize(region, 0);
        bytes
    }

    #[test]
    fn a_sound_entry() {
        let found = parse(&bytes(12, 12, 3, 24)).unwrap();
        assert_eq!(found, (12, b"abc".to_vec(), Some(FileType::Directory), 12));
        assert_eq!(parse(&bytes(12, 24, 4, 24)).unwrap().3, 24);
    }

    #[test]
    fn what_makes_no_sense_is_reported() {
        for (rec_len, name_len, region, says) in [
            (0, 1, 24, "of the shortest entry"),
            (8, 0, 24, "of the shortest entry"),
            (14, 1, 28, "multiple of 4"),
            (12, 5, 24, "too small for its name"),
            (28, 1, 24, "past the end"),
            (16, 1, 24, "too little room"),
        ] {
            let e = parse(&bytes(12, rec_len, name_len, region)).unwrap_err();
            assert!(e.contains(says), "{e} does not say: {says}");
        }
        assert!(parse(&[0; 7]).is_err());
        let mut far = bytes(0, 12, 1, 24);
        far[1] = 2;
        assert!(parse(&far).unwrap_err().contains("out of range"));
    }

    #[test]
    fn lengths_in_blocks_of_64_kib() {
        assert_eq!(record_len(65535, 1 << 16), 65536);
        assert_eq!(record_len(0, 1 << 16), 65536);
        assert_eq!(record_len(16, 1 << 16), 16);
        assert_eq!(record_len(0xfff0, 1 << 16), 0xfff0);
        assert_eq!(record_len(0, 4096), 0);
        for len in [12, 1024, 65520, 65536] {
            assert_eq!(record_len(stored_len(len, 1 << 16), 1 << 16), len);
        }
    }

    #[test]
    fn an_entry_comes_back() {
        let superblock = Superblock::parse(&sample(), 4 << 20).unwrap();
        let new = NewEntry {
            inode: 13,
            name: b"hello",
            file_type: FileType::Socket,
        };
        assert_eq!(new.bytes(), 16);
        let mut region = [0xff; 40];
        put_unused(&superblock, &mut region, 0, 12);
        new.put(&superblock, &mut region, 12, 28);
        let entry = Entry::parse(&superblock, &region, 0).unwrap();
        assert_eq!((entry.inode, entry.end), (0, 12));
        let entry = Entry::parse(&superblock, &region, 12).unwrap();
        assert_eq!(
            (entry.inode, entry.name, entry.end),
            (13, &b"hello"[..], 40)
        );
        assert_eq!(entry.file_type, Some(FileType::Socket));
    }

    #[test]
    fn names_without_slash_or_nul() {
        assert_eq!(problem_of_name(b"a b\xff"), None);
        assert!(problem_of_name(b"").is_some());
        assert!(problem_of_name(b"a/b").is_some());
        assert!(problem_of_name(b"a\0").is_some());
    }
}
