//! POSIX ACLs in the format of setxattr(2), and their relation to the mode (acl(5)).

use crate::{ErrorKind, Result};

/// The ACL that controls access to a file.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";

/// The ACL that new files in a directory inherit.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The version, from `linux/posix_acl_xattr.h`.
const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;

/// The tags of `linux/posix_acl.h`, in their required order.
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// A valid ACL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Acl(Vec<Entry>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

impl Acl {
    /// Parses an ACL; `None` for the empty list, which means no ACL.
    pub(super) fn parse(value: &[u8]) -> Result<Option<Self>> {
        let (version, rest) = value.split_first_chunk().ok_or(ErrorKind::Invalid)?;
        let (entries, []) = rest.as_chunks::<8>() else {
            return Err(ErrorKind::Invalid.into());
        };
        if u32::from_le_bytes(*version) != VERSION {
            return Err(ErrorKind::Unsupported.into());
        }
        let acl = Self(entries.iter().copied().map(Entry::parse).collect());
        match acl.0.as_slice() {
            [] => Ok(None),
            _ if acl.is_valid() => Ok(Some(acl)),
            _ => Err(ErrorKind::Invalid.into()),
        }
    }

    pub(super) fn to_value(&self) -> Vec<u8> {
        let entries = self.0.iter().flat_map(|entry| entry.to_bytes());
        VERSION.to_le_bytes().into_iter().chain(entries).collect()
    }

    /// Returns true if there are one owner, one group and one other entry, in this order with the
    /// named entries between them, and a mask if there are named entries.
    fn is_valid(&self) -> bool {
        let tags = || self.0.iter().map(|entry| entry.tag);
        let count = |wanted| tags().filter(|&tag| tag == wanted).count();
        let known = [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER];
        let is_named = count(USER) + count(GROUP) > 0;
        tags().is_sorted()
            && tags().all(|tag| known.contains(&tag))
            && [USER_OBJ, GROUP_OBJ, OTHER].iter().all(|&t| count(t) == 1)
            && count(MASK) <= 1
            && (!is_named || count(MASK) == 1)
            && self.0.iter().all(|entry| entry.permissions <= 7)
    }

    /// Returns true if it is equivalent to the mode.
    pub(super) fn is_mode(&self) -> bool {
        self.0.len() == 3
    }

    fn entry_mut(&mut self, tag: u16) -> Option<&mut u16> {
        let entry = self.0.iter_mut().find(|entry| entry.tag == tag)?;
        Some(&mut entry.permissions)
    }

    /// Returns the three entries that the mode shows, each with the position of its bits.
    fn shown_mut(&mut self) -> Vec<(u32, &mut u16)> {
        let has_mask = self.entry_mut(MASK).is_some();
        let group = if has_mask { MASK } else { GROUP_OBJ };
        let shift = move |tag| match tag {
            USER_OBJ => Some(6),
            OTHER => Some(0),
            tag if tag == group => Some(3),
            _ => None,
        };
        let entries = self.0.iter_mut();
        entries
            .filter_map(|entry| Some((shift(entry.tag)?, &mut entry.permissions)))
            .collect()
    }

    /// Returns the nine permission bits of the mode.
    pub(super) fn mode(&self) -> u16 {
        let mut copy = self.clone();
        let shown = copy.shown_mut();
        shown.iter().map(|(shift, bits)| **bits << shift).sum()
    }

    /// Applies a chmod.
    pub(super) fn set_mode(&mut self, mode: u16) {
        for (shift, bits) in self.shown_mut() {
            *bits = (mode >> shift) & 7;
        }
    }

    /// Turns a default ACL into that of a new file with the requested `mode`; both are reduced to
    /// the permissions that both allow.
    pub(super) fn inherit(&mut self, mode: &mut u16) {
        for (shift, bits) in self.shown_mut() {
            *bits &= *mode >> shift;
            *mode &= (*bits << shift) | !(7 << shift);
        }
    }
}

impl Entry {
    fn parse(bytes: [u8; 8]) -> Self {
        let [t0, t1, p0, p1, id @ ..] = bytes;
        let tag = u16::from_le_bytes([t0, t1]);
        let is_named = matches!(tag, USER | GROUP);
        Self {
            tag,
            permissions: u16::from_le_bytes([p0, p1]),
            id: if is_named {
                u32::from_le_bytes(id)
            } else {
                NO_ID
            },
        }
    }

    fn to_bytes(self) -> [u8; 8] {
        let [t0, t1] = self.tag.to_le_bytes();
        let [p0, p1] = self.permissions.to_le_bytes();
        let [i0, i1, i2, i3] = self.id.to_le_bytes();
        [t0, t1, p0, p1, i0, i1, i2, i3]
    }
}
