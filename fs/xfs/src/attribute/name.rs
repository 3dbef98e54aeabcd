//! The names of attributes: flags for the namespace, and the name in it.

use crate::directory::da_hash;

/// `XFS_ATTR_ROOT`: the namespace `trusted`.
const ROOT: u8 = 0x02;
/// `XFS_ATTR_SECURE`: the namespace `security`.
const SECURE: u8 = 0x04;
/// `XFS_ATTR_PARENT`: a pointer to a parent directory, which is not an attribute to users.
const PARENT: u8 = 0x08;
/// `XFS_ATTR_INCOMPLETE`: an attribute whose value is being written or removed.
const INCOMPLETE: u8 = 0x80;

/// The names of access control lists, as Linux has them and as they are stored.
const ACLS: [(&[u8], &[u8]); 2] = [
    (b"system.posix_acl_access", b"SGI_ACL_FILE"),
    (b"system.posix_acl_default", b"SGI_ACL_DEFAULT"),
];
const NAMESPACES: [(&[u8], u8); 3] = [(b"user.", 0), (b"trusted.", ROOT), (b"security.", SECURE)];

/// The name of an attribute that is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttributeName<'a> {
    namespace: u8,
    name: &'a [u8],
    /// True if the value is an access control list that must be converted.
    pub(super) is_acl: bool,
}

impl<'a> AttributeName<'a> {
    /// Parses a full name; `None` if no attribute can have it.
    pub(super) fn parse(full_name: &'a [u8]) -> Option<Self> {
        if let Some((_, stored)) = ACLS.iter().find(|(linux, _)| *linux == full_name) {
            return Some(Self {
                namespace: ROOT,
                name: stored,
                is_acl: true,
            });
        }
        NAMESPACES.iter().find_map(|(prefix, namespace)| {
            let name = full_name
                .strip_prefix(*prefix)
                .filter(|name| !name.is_empty())?;
            Some(Self {
                namespace: *namespace,
                name,
                is_acl: false,
            })
        })
    }

    /// Returns the hash under which the attribute is indexed.
    pub(super) fn hash(&self) -> u32 {
        da_hash(self.name)
    }

    /// Returns true if a stored attribute has this name.
    pub(super) fn is(&self, flags: u8, name: &[u8]) -> bool {
        is_visible(flags) && flags & (ROOT | SECURE) == self.namespace && name == self.name
    }
}

fn is_visible(flags: u8) -> bool {
    flags & (PARENT | INCOMPLETE) == 0
}

/// Returns the full names under which Linux lists a stored attribute: an access control list under
/// two, others under one, and those that are not for users under none.
pub(super) fn full_names(flags: u8, name: &[u8]) -> Vec<Vec<u8>> {
    let namespace = flags & (ROOT | SECURE);
    let prefix = NAMESPACES.iter().find(|(_, known)| *known == namespace);
    let Some((prefix, _)) = prefix.filter(|_| is_visible(flags)) else {
        return Vec::new();
    };
    let acl = ACLS
        .iter()
        .find(|(_, stored)| namespace == ROOT && *stored == name);
    let plain = [*prefix, name].concat();
    acl.map(|(linux, _)| linux.to_vec())
        .into_iter()
        .chain([plain])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (full_name, flags, name) in [
            (&b"user.a"[..], 0, &b"a"[..]),
            (b"trusted.overlay.opaque", ROOT | 1, b"overlay.opaque"),
            (b"security.selinux", SECURE, b"selinux"),
        ] {
            assert!(AttributeName::parse(full_name).unwrap().is(flags, name));
            assert_eq!(full_names(flags, name), [full_name]);
        }
        let acl = AttributeName::parse(b"system.posix_acl_access").unwrap();
        assert!(acl.is_acl && acl.is(ROOT, b"SGI_ACL_FILE"));
        assert_eq!(
            full_names(ROOT, b"SGI_ACL_FILE"),
            [&b"system.posix_acl_access"[..], b"trusted.SGI_ACL_FILE"]
        );
        assert!(AttributeName::parse(b"user.").is_none());
        assert!(AttributeName::parse(b"system.other").is_none());
    }

    #[test]
    fn what_is_not_for_users_is_hidden() {
        for flags in [PARENT, INCOMPLETE, INCOMPLETE | ROOT, ROOT | SECURE] {
            assert!(full_names(flags, b"a").is_empty());
        }
        assert!(
            !AttributeName::parse(b"user.a")
                .unwrap()
                .is(INCOMPLETE, b"a")
        );
    }
}
