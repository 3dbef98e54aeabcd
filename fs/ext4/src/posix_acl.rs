//! POSIX access control lists and the mode that corresponds to them (acl(5)), in the form of
//! getxattr(2).
//!
//! Source: Linux, `include/uapi/linux/posix_acl_xattr.h` for the form; POSIX 1003.1e draft 17,
//! sections 23.1.3 and 23.1.5.1, for inheritance and chmod.

use crate::bytes::{le16, le32};
use crate::error::{Error, ErrorKind, Result};

/// The attribute with the list that controls access to a file.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute with the default list for new files in a directory.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const VERSION_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
const NO_IDENTITY: u32 = u32::MAX;

/// The subject of an entry, in the order in which entries are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    UserObj,
    User,
    GroupObj,
    Group,
    Mask,
    Other,
}

impl Tag {
    const fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            0x1 => Self::UserObj,
            0x2 => Self::User,
            0x4 => Self::GroupObj,
            0x8 => Self::Group,
            0x10 => Self::Mask,
            0x20 => Self::Other,
            _ => return None,
        })
    }

    const fn number(self) -> u16 {
        match self {
            Self::UserObj => 0x1,
            Self::User => 0x2,
            Self::GroupObj => 0x4,
            Self::Group => 0x8,
            Self::Mask => 0x10,
            Self::Other => 0x20,
        }
    }

    const fn is_named(self) -> bool {
        matches!(self, Self::User | Self::Group)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: Tag,
    /// The permissions: read 4, write 2, execute 1.
    permissions: u16,
    identity: u32,
}

/// A valid list: it has each of the three classes, a mask if it has named entries, and no duplicate
/// names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PosixAcl {
    entries: Vec<Entry>,
}

impl PosixAcl {
    /// Parses the value of the attribute. Returns `None` for the empty list, which means no list.
    ///
    /// # Errors
    /// `Invalid` if the list is invalid, `Unsupported` for another version.
    pub(crate) fn parse(value: &[u8]) -> Result<Option<Self>> {
        if le32(value, 0) != Some(VERSION) {
            let reason = "unknown version of the access control list";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let bytes = value.get(VERSION_BYTES..).unwrap_or_default();
        let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        let entries: Option<Vec<Entry>> = entries.iter().copied().map(entry).collect();
        match entries {
            Some(entries) if rest.is_empty() && entries.is_empty() => Ok(None),
            Some(entries) if rest.is_empty() => Self::checked(entries).map(Some),
            _ => Err(invalid()),
        }
    }

    fn checked(mut entries: Vec<Entry>) -> Result<Self> {
        entries.sort_by_key(|entry| (entry.tag, entry.identity));
        let unique = entries.array_windows().all(|[a, b]| {
            let same_name = a.identity == b.identity || !a.tag.is_named();
            a.tag != b.tag || !same_name
        });
        let count = |tag| entries.iter().filter(|entry| entry.tag == tag).count();
        let has = |tag| count(tag) != 0;
        let named = has(Tag::User) || has(Tag::Group);
        let complete = has(Tag::UserObj) && has(Tag::GroupObj) && has(Tag::Other);
        if unique && complete && (has(Tag::Mask) || !named) {
            return Ok(Self { entries });
        }
        Err(invalid())
    }

    /// Returns the value of the attribute.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            value.extend(entry.tag.number().to_le_bytes());
            value.extend(entry.permissions.to_le_bytes());
            value.extend(entry.identity.to_le_bytes());
        }
        value
    }

    /// Returns the low nine bits of the corresponding mode, as far as a mode can express the list.
    pub(crate) fn permissions(&self) -> u16 {
        let group_class = self.group_class();
        self.entries.iter().fold(0, |mode, entry| match entry.tag {
            Tag::UserObj => mode | entry.permissions.wrapping_shl(6),
            tag if tag == group_class => mode | entry.permissions.wrapping_shl(3),
            Tag::Other => mode | entry.permissions,
            _ => mode,
        })
    }

    /// Returns true if the mode expresses the whole list.
    pub(crate) fn is_mode(&self) -> bool {
        const CLASSES: usize = 3;
        self.entries.len() == CLASSES
    }

    /// Updates the list after a change of the mode, like chmod.
    pub(crate) fn set_permissions(&mut self, permissions: u16) {
        self.for_each_class(|entry, class| *entry = class & 7, permissions);
    }

    /// Restricts the list for a new file that a program creates with `permissions`: no class gets
    /// more than both allow.
    pub(crate) fn restrict(&mut self, permissions: u16) {
        self.for_each_class(|entry, class| *entry &= class, permissions);
    }

    fn for_each_class(&mut self, apply: impl Fn(&mut u16, u16), permissions: u16) {
        let group_class = self.group_class();
        for entry in &mut self.entries {
            match entry.tag {
                Tag::UserObj => apply(&mut entry.permissions, permissions.wrapping_shr(6)),
                tag if tag == group_class => {
                    apply(&mut entry.permissions, permissions.wrapping_shr(3));
                }
                Tag::Other => apply(&mut entry.permissions, permissions),
                _ => {}
            }
        }
    }

    /// Returns the entry that corresponds to the mode's group bits: the mask, if there is one.
    fn group_class(&self) -> Tag {
        if self.entries.iter().any(|entry| entry.tag == Tag::Mask) {
            Tag::Mask
        } else {
            Tag::GroupObj
        }
    }
}

fn entry(bytes: [u8; ENTRY_BYTES]) -> Option<Entry> {
    let tag = Tag::from_number(le16(&bytes, 0)?)?;
    let permissions = le16(&bytes, 2).filter(|&permissions| permissions <= 7)?;
    let identity = le32(&bytes, 4)?;
    if tag.is_named() && identity == NO_IDENTITY {
        return None;
    }
    Some(Entry {
        tag,
        permissions,
        identity: if tag.is_named() {
            identity
        } else {
            NO_IDENTITY
        },
    })
}

fn invalid() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "invalid access control list; getfacl(1) shows the expected form",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = vec![2, 0, 0, 0];
        for (tag, permissions, identity) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(permissions.to_le_bytes());
            value.extend(identity.to_le_bytes());
        }
        value
    }

    const NONE: u32 = u32::MAX;

    #[test]
    fn a_list_with_a_mask() {
        let value = acl(&[
            (1, 7, NONE),
            (2, 6, 1000),
            (4, 5, NONE),
            (0x10, 6, NONE),
            (0x20, 4, NONE),
        ]);
        let mut list = PosixAcl::parse(&value).unwrap().unwrap();
        assert_eq!(list.to_bytes(), value);
        assert_eq!(list.permissions(), 0o764);
        assert!(!list.is_mode());
        list.set_permissions(0o640);
        assert_eq!(list.permissions(), 0o640);
        list.set_permissions(0o777);
        list.restrict(0o751);
        assert_eq!(list.permissions(), 0o751);
    }

    #[test]
    fn three_classes_are_a_mode() {
        let value = acl(&[(1, 6, NONE), (4, 4, NONE), (0x20, 0, NONE)]);
        let list = PosixAcl::parse(&value).unwrap().unwrap();
        assert!(list.is_mode());
        assert_eq!(list.permissions(), 0o640);
        assert_eq!(PosixAcl::parse(&acl(&[])).unwrap(), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let base = [(1, 6, NONE), (4, 4, NONE), (0x20, 0, NONE)];
        let with = |more: &[(u16, u16, u32)]| PosixAcl::parse(&acl(&[&base, more].concat()));
        assert!(with(&[(2, 6, 5)]).is_err(), "a name without a mask");
        assert!(with(&[(1, 6, NONE)]).is_err(), "the owner twice");
        assert!(with(&[(2, 6, 5), (2, 6, 5), (0x10, 7, NONE)]).is_err());
        assert!(with(&[(2, 6, NONE), (0x10, 7, NONE)]).is_err());
        assert!(with(&[(0x10, 8, NONE)]).is_err());
        assert!(with(&[(0x40, 1, NONE)]).is_err());
        assert!(PosixAcl::parse(&acl(&base[..2])).is_err());
        assert!(PosixAcl::parse(&[1, 0, 0, 0]).is_err());
    }
}
