//! Access control lists: conversion between the form on the device and that of `getxattr(2)`.
//!
//! Source: Linux, `fs/ext4/acl.h` for the first (version 1; identities only if the tag has one),
//! `include/uapi/linux/posix_acl_xattr.h` for the second (version 2; always an identity).

use crate::bytes::{le16, le32, part};
use crate::error::{Corrupt, Error, ErrorKind, Result, Structure, malformed};

const VERSION_ON_DEVICE: u32 = 1;
const VERSION_OF_XATTR: u32 = 2;
const VERSION_BYTES: usize = 4;
const TAG_USER: u16 = 2;
const TAG_GROUP: u16 = 8;
/// The identity of entries without one, `ACL_UNDEFINED_ID`.
const NO_IDENTITY: u32 = u32::MAX;

/// Converts the stored value to the one that `getxattr` returns.
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
        let cut_short = || malformed(structure, "its ACL is truncated");
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

/// Converts the value that `setxattr` gets to the one on the device.
///
/// # Errors
/// `Invalid` if the value is not a valid list.
pub(super) fn from_xattr(value: &[u8]) -> Result<Vec<u8>> {
    const ENTRY_BYTES: usize = 8;
    let invalid = || Error::new(ErrorKind::Invalid, "invalid access control list");
    let (entries, rest) = value
        .get(VERSION_BYTES..)
        .ok_or_else(invalid)?
        .as_chunks::<ENTRY_BYTES>();
    if le32(value, 0) != Some(VERSION_OF_XATTR) || !rest.is_empty() {
        return Err(invalid());
    }
    let mut stored = VERSION_ON_DEVICE.to_le_bytes().to_vec();
    for entry in entries {
        let [tag_low, tag_high, permissions @ .., _, _, _, _] = entry;
        let tag = u16::from_le_bytes([*tag_low, *tag_high]);
        stored.extend(tag.to_le_bytes());
        stored.extend(permissions);
        if matches!(tag, TAG_USER | TAG_GROUP) {
            stored.extend(entry.get(4..).unwrap_or_default());
        }
    }
    Ok(stored)
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
        assert_eq!(from_xattr(&expected).unwrap(), stored);
        assert!(from_xattr(&stored).is_err());
        assert!(from_xattr(&expected[..11]).is_err());
    }

    #[test]
    fn other_versions_and_cut_ones_are_corrupt() {
        assert!(to_xattr(12, &[2, 0, 0, 0]).is_err());
        assert!(to_xattr(12, &[]).is_err());
        assert!(to_xattr(12, &[1, 0, 0, 0, 2, 0, 4, 0]).is_err());
        assert!(to_xattr(12, &[1, 0, 0, 0, 1]).is_err());
    }
}
