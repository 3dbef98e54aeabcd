//! Names of attributes, in which a number stands for the prefix.

/// `EXT4_XATTR_INDEX_SYSTEM`: for the kernel's own use, and always hidden.
pub(super) const SYSTEM: u8 = 7;

/// The prefixes that the kernel shows. Others are hidden: 5 (Lustre), [`SYSTEM`] and 9 (the
/// encryption context).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameIndex {
    User,
    AclAccess,
    AclDefault,
    Trusted,
    Security,
    Hurd,
}

const ALL: [NameIndex; 6] = [
    NameIndex::User,
    NameIndex::AclAccess,
    NameIndex::AclDefault,
    NameIndex::Trusted,
    NameIndex::Security,
    NameIndex::Hurd,
];

impl NameIndex {
    /// Returns the prefix's number, `e_name_index`.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::User => 1,
            Self::AclAccess => 2,
            Self::AclDefault => 3,
            Self::Trusted => 4,
            Self::Security => 6,
            Self::Hurd => 10,
        }
    }

    /// Returns the prefix that the index stands for. For an ACL it is the full name.
    const fn prefix(self) -> &'static [u8] {
        match self {
            Self::User => b"user.",
            Self::AclAccess => b"system.posix_acl_access",
            Self::AclDefault => b"system.posix_acl_default",
            Self::Trusted => b"trusted.",
            Self::Security => b"security.",
            Self::Hurd => b"gnu.",
        }
    }

    const fn is_full_name(self) -> bool {
        matches!(self, Self::AclAccess | Self::AclDefault)
    }
}

/// Splits a full name into number and rest. Returns `None` for an unknown prefix.
pub(super) fn split(name: &[u8]) -> Option<(NameIndex, &[u8])> {
    ALL.into_iter().find_map(|index| {
        let rest = name.strip_prefix(index.prefix())?;
        (rest.is_empty() == index.is_full_name()).then_some((index, rest))
    })
}

/// Returns the full name, or `None` if the kernel hides it.
pub(super) fn join(number: u8, rest: &[u8]) -> Option<Vec<u8>> {
    let index = ALL.into_iter().find(|index| index.number() == number)?;
    (rest.is_empty() == index.is_full_name()).then(|| [index.prefix(), rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_and_join() {
        for name in [
            &b"user.a"[..],
            b"trusted.overlay.opaque",
            b"security.capability",
            b"system.posix_acl_access",
            b"system.posix_acl_default",
        ] {
            let (index, rest) = split(name).unwrap();
            assert_eq!(join(index.number(), rest).unwrap(), name);
        }
        assert!(split(b"user.").is_none());
        assert!(split(b"system.data").is_none());
        assert!(split(b"system.posix_acl_access2").is_none());
        assert!(join(SYSTEM, b"data").is_none());
        assert!(join(9, b"c").is_none());
    }
}
