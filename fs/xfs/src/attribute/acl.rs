//! Access control lists: from the stored form, `struct xfs_acl`, to the value that Linux shows.
//!
//! Sources: "XFS Algorithms & Data Structures", section "Attribute Fork" (`SGI_ACL_FILE`);
//! acl(5), and `struct posix_acl_xattr_entry` of the kernel's interface.

use crate::bytes::{be16, be32, index};
use crate::error::Result;
use crate::inode::Inode;

/// The version of the value, `POSIX_ACL_XATTR_VERSION`.
const VERSION: u32 = 2;
/// The number of an entry that names nobody, `ACL_UNDEFINED_ID`.
const NO_IDENTITY: u32 = u32::MAX;
/// The length of the count of entries, and of an entry: tag, number, permissions and padding.
const COUNT_BYTES: usize = 4;
const ENTRY_BYTES: usize = 12;

/// Converts a stored list. Returns `None` for the empty list, which means no list.
pub(super) fn to_linux(inode: &Inode, stored: &[u8]) -> Result<Option<Vec<u8>>> {
    let value = convert(stored).ok_or_else(|| inode.corrupt("invalid access control list"))?;
    Ok(Some(value).filter(|value| !value.is_empty()))
}

/// Converts a stored list; the empty list has no bytes. Returns `None` if it is invalid.
fn convert(stored: &[u8]) -> Option<Vec<u8>> {
    let count = index(be32(stored, 0)?);
    let entries = stored.get(COUNT_BYTES..)?;
    if entries.len() != count.checked_mul(ENTRY_BYTES)? {
        return None;
    }
    if count == 0 {
        return Some(Vec::new());
    }
    let mut value = VERSION.to_le_bytes().to_vec();
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let tag = u16::try_from(be32(entry, 0)?).ok()?;
        let identity = match tag {
            // Named users and groups.
            0x02 | 0x08 => be32(entry, 4)?,
            // Owner, owning group, mask, others.
            0x01 | 0x04 | 0x10 | 0x20 => NO_IDENTITY,
            _ => return None,
        };
        value.extend(tag.to_le_bytes());
        value.extend(be16(entry, 8)?.to_le_bytes());
        value.extend(identity.to_le_bytes());
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(count: u32, entries: &[(u32, u32, u16)]) -> Vec<u8> {
        let mut bytes = count.to_be_bytes().to_vec();
        for (tag, identity, permissions) in entries {
            bytes.extend(tag.to_be_bytes());
            bytes.extend(identity.to_be_bytes());
            bytes.extend(permissions.to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes
    }

    #[test]
    fn a_list_in_the_form_of_linux() {
        let list = stored(2, &[(1, 0, 7), (2, 1000, 5)]);
        let expected = [
            2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 5, 0, 232, 3, 0, 0,
        ];
        assert_eq!(convert(&list), Some(expected.to_vec()));
        assert_eq!(convert(&stored(0, &[])), Some(Vec::new()));
    }

    #[test]
    fn wrong_lists_are_invalid() {
        assert_eq!(convert(&stored(2, &[(1, 0, 7)])), None);
        assert_eq!(convert(&stored(u32::MAX, &[(1, 0, 7)])), None);
        assert_eq!(convert(&stored(1, &[(3, 0, 7)])), None);
        assert_eq!(convert(&[0, 0]), None);
    }
}
