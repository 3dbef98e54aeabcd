//! `system.data`, the attribute that has what inline contents have behind `i_block`: changed. It is
//! always in the inode, beside the other attributes there.

use super::entry::{Entry, Value};
use super::{in_inode, name};
use crate::bytes::{le32, put};
use crate::error::{InInode, Result};
use crate::inode::Inode;
use crate::superblock::Superblock;

/// `struct ext4_xattr_entry`.
const HEADER_BYTES: usize = 16;
/// Where the entry has `e_hash`.
const HASH_OFFSET: usize = 12;
/// Four bytes of zeroes behind the last entry.
const END_BYTES: usize = 4;
const ALIGNMENT: usize = 4;
const NAME: &[u8] = b"data";

/// How many bytes `system.data` can have beside the other attributes in the inode: a multiple of 4.
/// `None` when there is no room for the attribute itself.
pub(crate) fn inline_data_room(superblock: &Superblock, inode: &Inode) -> Result<Option<usize>> {
    let others: usize = others(inode)?.iter().map(Raw::bytes).sum();
    let taken = others
        .saturating_add(entry_bytes(NAME))
        .saturating_add(END_BYTES);
    let left = inode.xattr_room_bytes(superblock).checked_sub(taken);
    Ok(left.map(|left| left & !ALIGNMENT.wrapping_sub(1)))
}

/// Gives `system.data` another value, or takes the attribute away. What is in the inode has room for
/// it: see [`inline_data_room`].
pub(crate) fn set_inline_data(
    superblock: &Superblock,
    inode: &mut Inode,
    value: Option<&[u8]>,
) -> Result<()> {
    let mut all = others(inode)?;
    all.extend(value.map(|value| Raw {
        entry: Entry {
            index: name::SYSTEM,
            name: NAME,
            value: Value::Here(value),
        },
        // Of values beside their entry nobody computes one.
        hash: 0,
    }));
    let bytes = if all.is_empty() {
        Box::default()
    } else {
        laid_out(&all, inode.xattr_room_bytes(superblock))
    };
    inode.xattr_bytes = bytes;
    Ok(())
}

/// An attribute with all that its entry says.
struct Raw<'a> {
    entry: Entry<'a>,
    hash: u32,
}

impl Raw<'_> {
    /// What it takes, with its value if that is beside it.
    fn bytes(&self) -> usize {
        let value = self.entry.bytes().unwrap_or_default();
        entry_bytes(self.entry.name).saturating_add(value.len().next_multiple_of(ALIGNMENT))
    }
}

fn entry_bytes(name: &[u8]) -> usize {
    HEADER_BYTES
        .saturating_add(name.len())
        .next_multiple_of(ALIGNMENT)
}

/// All attributes in the inode but `system.data`.
fn others(inode: &Inode) -> Result<Vec<Raw<'_>>> {
    let mut offset: usize = 0;
    let mut others = Vec::new();
    for entry in in_inode(inode) {
        let entry = entry.in_inode(inode.number)?;
        let hash = le32(&inode.xattr_bytes, offset.saturating_add(HASH_OFFSET)).unwrap_or(0);
        offset = offset.saturating_add(entry_bytes(entry.name));
        if entry.index != name::SYSTEM || entry.name != NAME {
            others.push(Raw { entry, hash });
        }
    }
    Ok(others)
}

/// Entries from the start, their values from the end on.
fn laid_out(all: &[Raw<'_>], room: usize) -> Box<[u8]> {
    let mut bytes = vec![0; room];
    let mut start = 0usize;
    // Values end where the inode does, at a multiple of 4 from the first entry.
    let mut end = room & !ALIGNMENT.wrapping_sub(1);
    for Raw { entry, hash } in all {
        let (value_offset, inode, size) = match entry.value {
            Value::Here([]) => (0, 0, 0),
            Value::Here(value) => {
                end = end.saturating_sub(value.len().next_multiple_of(ALIGNMENT));
                put(&mut bytes, end, value);
                (end, 0, u32::try_from(value.len()).unwrap_or(u32::MAX))
            }
            Value::InInode { inode, size_bytes } => (0, inode, size_bytes),
        };
        let name_len = u8::try_from(entry.name.len()).unwrap_or(u8::MAX);
        let value_offset = u16::try_from(value_offset).unwrap_or(u16::MAX);
        put(&mut bytes, start, &[name_len, entry.index]);
        put(
            &mut bytes,
            start.saturating_add(2),
            &value_offset.to_le_bytes(),
        );
        let words = [inode, size, *hash];
        for (word, nth) in words.iter().zip(1usize..) {
            let at = start.saturating_add(nth.saturating_mul(ALIGNMENT));
            put(&mut bytes, at, &word.to_le_bytes());
        }
        put(&mut bytes, start.saturating_add(HEADER_BYTES), entry.name);
        start = start.saturating_add(entry_bytes(entry.name));
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::tests::sample;

    #[test]
    fn other_attributes_stay() {
        let superblock = Superblock::parse(&sample(), 4 << 20).unwrap();
        let mut inode = crate::inode::tests::sample(&superblock);
        let others = [
            Raw {
                entry: Entry {
                    index: 1,
                    name: b"color",
                    value: Value::Here(b"green"),
                },
                hash: 0,
            },
            Raw {
                entry: Entry {
                    index: 1,
                    name: b"large",
                    value: Value::InInode {
                        inode: 99,
                        size_bytes: 1 << 20,
                    },
                },
                hash: 0x1234,
            },
        ];
        let room = inode.xattr_room_bytes(&superblock);
        let before = laid_out(&others, room);
        inode.xattr_bytes = before.clone();
        let left = inline_data_room(&superblock, &inode).unwrap().unwrap();
        assert_eq!(left, room - 24 - 8 - 24 - 20 - 4);
        let value = vec![7; left];
        set_inline_data(&superblock, &mut inode, Some(&value)).unwrap();
        assert_eq!(super::super::inline_data(&inode).unwrap(), Some(&value[..]));
        assert_eq!(inline_data_room(&superblock, &inode).unwrap(), Some(left));
        let again = super::others(&inode).unwrap();
        assert_eq!(again.len(), 2);
        assert_eq!(again[1].hash, 0x1234);
        set_inline_data(&superblock, &mut inode, None).unwrap();
        assert_eq!(inode.xattr_bytes, before);
    }
}
