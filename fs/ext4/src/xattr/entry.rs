//! Attribute entries, `struct ext4_xattr_entry`.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{index, le32, part};
use crate::error::{Result, Structure, malformed};

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
pub(crate) struct RawEntry {
    pub(crate) e_name_len: u8,
    pub(crate) e_name_index: u8,
    pub(crate) e_value_offs: U16,
    pub(crate) e_value_inum: U32,
    pub(crate) e_value_size: U32,
    pub(crate) e_hash: U32,
}

pub(crate) const HEADER_BYTES: usize = size_of::<RawEntry>();
/// `EXT4_XATTR_ROUND`: entries begin at multiples of 4.
const ROUND: usize = 3;

/// An entry of the list of attributes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// `e_name_index`, which stands for the name's prefix.
    pub(crate) index: u8,
    pub(crate) name: &'a [u8],
    pub(crate) value: Value<'a>,
    /// `e_hash`; 0 if it was not computed.
    pub(crate) hash: u32,
}

/// The place of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Here(&'a [u8]),
    InInode { inode: u32, size_bytes: u32 },
}

impl<'a> Entry<'a> {
    /// Returns the value if it is beside the entry.
    pub(crate) fn bytes(&self) -> Option<&'a [u8]> {
        match self.value {
            Value::Here(bytes) => Some(bytes),
            Value::InInode { .. } => None,
        }
    }
}

/// The entries of an inode or of a block. The iterator ends after the first error.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    structure: Structure,
    /// The bytes from whose start the values' offsets count.
    bytes: &'a [u8],
    /// The offset of the next entry; `None` at the end.
    next: Option<usize>,
}

impl<'a> Entries<'a> {
    /// Returns the entries of `bytes` from `first` on.
    pub(crate) fn new(structure: Structure, bytes: &'a [u8], first: usize) -> Self {
        Self {
            structure,
            bytes,
            next: Some(first),
        }
    }

    fn entry_at(&self, offset: usize) -> Result<Option<(Entry<'a>, usize)>> {
        let bytes = self.bytes;
        // Four bytes of zeroes end the list; so does the end of the inode.
        if le32(bytes, offset).unwrap_or(0) == 0 {
            return Ok(None);
        }
        let rest = bytes.get(offset..).unwrap_or_default();
        let Ok((raw, behind)) = RawEntry::ref_from_prefix(rest) else {
            return Err(self.malformed("an attribute's entry is truncated"));
        };
        let name_len = usize::from(raw.e_name_len);
        let Some(name) = behind.get(..name_len) else {
            return Err(self.malformed("an attribute's name is truncated"));
        };
        let entry = Entry {
            index: raw.e_name_index,
            name,
            value: self.value(raw)?,
            hash: raw.e_hash.get(),
        };
        let len = HEADER_BYTES.saturating_add(name_len).saturating_add(ROUND) & !ROUND;
        Ok(Some((entry, offset.saturating_add(len))))
    }

    fn value(&self, raw: &RawEntry) -> Result<Value<'a>> {
        let size_bytes = raw.e_value_size.get();
        let inode = raw.e_value_inum.get();
        if inode != 0 {
            return Ok(Value::InInode { inode, size_bytes });
        }
        if size_bytes == 0 {
            return Ok(Value::Here(&[]));
        }
        let offset = usize::from(raw.e_value_offs.get());
        part(self.bytes, offset, index(size_bytes))
            .map(Value::Here)
            .ok_or_else(|| self.malformed("an attribute's value reaches past the end"))
    }

    fn malformed(&self, problem: &'static str) -> diskfs_vfs::Error {
        malformed(self.structure, problem)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.next.take()?;
        match self.entry_at(offset).transpose()? {
            Ok((entry, next)) => {
                self.next = Some(next);
                Some(Ok(entry))
            }
            Err(e) => Some(Err(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &[u8], index: u8, value_offs: u16, inum: u32, size: u32) -> Vec<u8> {
        let mut bytes = vec![u8::try_from(name.len()).unwrap(), index];
        bytes.extend(value_offs.to_le_bytes());
        bytes.extend(inum.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(name);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn names(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        Entries::new(Structure::Inode(12), bytes, 0)
            .map(|entry| entry.map(|entry| entry.name.to_vec()))
            .collect()
    }

    #[test]
    fn entries_up_to_the_zeroes() {
        let mut bytes = entry(b"ab", 1, 60, 0, 3);
        bytes.extend(entry(b"c", 6, 0, 77, 1 << 20));
        bytes.resize(60, 0);
        bytes.extend(b"xyz!");
        let all: Vec<_> = Entries::new(Structure::Inode(12), &bytes, 0)
            .map(Result::unwrap)
            .collect();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].bytes(), Some(&b"xyz"[..]));
        assert!(matches!(all[1].value, Value::InInode { inode: 77, .. }));
    }

    #[test]
    fn what_reaches_past_the_end_is_corrupt_and_the_last() {
        let short = names(&entry(b"ab", 1, 60, 0, 3)).unwrap_err();
        assert!(short.to_string().contains("value reaches past"), "{short}");
        let mut cut = entry(b"abcdefgh", 1, 0, 0, 0);
        cut.truncate(20);
        assert!(
            names(&cut)
                .unwrap_err()
                .to_string()
                .contains("name is truncated")
        );
        assert!(
            names(&cut[..10])
                .unwrap_err()
                .to_string()
                .contains("entry is truncated")
        );
        assert_eq!(Entries::new(Structure::Inode(12), &cut, 0).count(), 1);
        // Room for exactly one entry: the list ends without zeroes.
        assert_eq!(names(&entry(b"ab", 1, 0, 0, 0)).unwrap(), [b"ab"]);
    }
}
