//! Changes of `system.data`, the attribute with the part of inline data after `i_block`. It is
//! always in the inode, beside the other attributes there.

use super::attribute::{self, ALIGNMENT, Attribute, ValuePlace};
use super::set::{put_within, room_within};
use super::{in_inode, name};
use crate::error::{InInode, Result};
use crate::inode::Inode;
use crate::superblock::Superblock;

const NAME: &[u8] = b"data";

/// Returns the maximum size of `system.data` beside the other attributes in the inode, a multiple
/// of 4, or `None` if there is no room for the attribute itself.
pub(crate) fn inline_data_room(superblock: &Superblock, inode: &Inode) -> Result<Option<usize>> {
    let mut all = other_attributes(inode)?;
    all.push(data(&[]));
    let taken = attribute::needed_bytes(&all);
    let left = room_within(superblock, inode).checked_sub(taken);
    Ok(left.map(|left| left & !ALIGNMENT.wrapping_sub(1)))
}

/// Sets the value of `system.data`, or removes the attribute. The inode has room for it: see
/// [`inline_data_room`].
pub(crate) fn set_inline_data(
    superblock: &Superblock,
    inode: &mut Inode,
    value: Option<&[u8]>,
) -> Result<()> {
    let mut all = other_attributes(inode)?;
    all.extend(value.map(data));
    put_within(superblock, inode, &all);
    Ok(())
}

fn data(value: &[u8]) -> Attribute {
    Attribute {
        index: name::SYSTEM,
        name: NAME.to_vec(),
        value: ValuePlace::Here(value.to_vec()),
    }
}

/// Returns all attributes in the inode but `system.data`.
fn other_attributes(inode: &Inode) -> Result<Vec<Attribute>> {
    let mut all = Attribute::all(in_inode(inode)).in_inode(inode.number)?;
    all.retain(|one| !one.is(name::SYSTEM, NAME));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::tests::sample;
    use crate::xattr::attribute::ValueInode;

    #[test]
    fn other_attributes_stay() {
        let superblock = Superblock::parse(&sample(), 4 << 20).unwrap();
        let mut inode = crate::inode::tests::sample(&superblock);
        let attribute = |name: &[u8], value| Attribute {
            index: 1,
            name: name.to_vec(),
            value,
        };
        let large = ValueInode {
            inode: 99,
            size_bytes: 1 << 20,
            hash: 0x1234,
        };
        let before = [
            attribute(b"color", ValuePlace::Here(b"green".to_vec())),
            attribute(b"large", ValuePlace::InInode(large)),
        ];
        put_within(&superblock, &mut inode, &before);
        let room = inode.xattr_room_bytes(&superblock);
        let left = inline_data_room(&superblock, &inode).unwrap().unwrap();
        assert_eq!(left, room - 24 - 8 - 24 - 20 - 4);
        let value = vec![7; left];
        set_inline_data(&superblock, &mut inode, Some(&value)).unwrap();
        assert_eq!(super::super::inline_data(&inode).unwrap(), Some(&value[..]));
        assert_eq!(inline_data_room(&superblock, &inode).unwrap(), Some(left));
        assert_eq!(other_attributes(&inode).unwrap(), before);
        set_inline_data(&superblock, &mut inode, None).unwrap();
        assert_eq!(Attribute::all(in_inode(&inode)).unwrap(), before);
    }
}
