//! Access control lists: from the form on the device to the one of `getxattr(2)`.
//!
//! Source: Linux, `fs/ext4/acl.h` for the first (a version of 1; identities only where the tag has
//! one), `include/uapi/linux/posix_acl_xattr.h` for the second (a version of 2; always an identity).

use crate::bytes::{le16, le32, part};
use crate::error::{Corrupt, Result, Structure, malformed};

const VERSION_ON_DEVICE: u32 = 1;
const VERSION_OF_XATTR: u32 = 2;
const VERSION_BYTES: usize = 4;
const TAG_USER: u16 = 2;
const TAG_GROUP: u16 = 8;
/// `ACL_UNDEFINED_ID`.
const NO_IDENTITY: u32 = u32::MAX;

/// The value as `getxattr` returns it.
pub(super) fn to_xattr(inode: u32, stored: &[u8]) -> Result<Vec<u8>> {
    let structure = Structure::Inode(inode);
    let version = le32(stored, 0).unwrap_or(0);
    if version != VERSION_ON_DEVICE {
        return Err(Corrupt::Field {
            structure,
            field: "ACL version",
            value: u64::from(version),
            range: "1",
        }
        .into());
    }
    let mut value = VERSION_OF_XATTR.to_le_bytes().to_vec();
    let mut offset = VERSION_BYTES;
    while offset < stored.len() {
        let cut_short = || malformed(structure, "its ACL is cut short");
        let (tag, len) = match le16(stored, offset) {
            Some(tag @ (TAG_USER | TAG_GROUP)) => (tag, 8),
            Some(tag) => (tag, 4),
            None => return Err(cut_short()),
        };
        let entry = part(stored, offset, len).ok_or_else(cut_short)?;
        let permissions = le16(entry, 2).unwrap_or(0);
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(le32(entry, 4).unwrap_or(NO_IDENTITY).to_le_bytes());
        offset = offset.saturating_add(len);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_filled_in() {
        // user::rw-, user:1000:r--, other::---
        let stored = [
            &[1, 0, 0, 0][..],
            &[1, 0, 6, 0],
            &[2, 0, 4, 0, 0xe8, 3, 0, 0],
            &[0x20, 0, 0, 0],
        ]
        .concat();
        let expected = [
            &[2, 0, 0, 0][..],
            &[1, 0, 6, 0, 255, 255, 255, 255],
            &[2, 0, 4, 0, 0xe8, 3, 0, 0],
            &[0x20, 0, 0, 0, 255, 255, 255, 255],
        ]
        .concat();
        assert_eq!(to_xattr(12, &stored).unwrap(), expected);
    }

    #[test]
    fn other_versions_and_cut_ones_are_corrupt() {
        assert!(to_xattr(12, &[2, 0, 0, 0]).is_err());
        assert!(to_xattr(12, &[]).is_err());
        assert!(to_xattr(12, &[1, 0, 0, 0, 2, 0, 4, 0]).is_err());
        assert!(to_xattr(12, &[1, 0, 0, 0, 1]).is_err());
    }
}
