//! Removal of inherited ACLs from copies.

use crate::{FsWrite, InodeNumber, Result};

/// The prefix of the attribute names of POSIX ACLs.
const ACL_PREFIX: &[u8] = b"system.posix_acl_";

/// Removes the ACLs that a file inherited from its directory, except those for which `kept` returns
/// true: a faithful copy has exactly the ACLs of its source.
///
/// # Errors
/// As [`FsWrite::remove_xattr`].
pub fn remove_inherited_acls(
    fs: &dyn FsWrite,
    inode: InodeNumber,
    kept: impl Fn(&[u8]) -> bool,
) -> Result<()> {
    for name in fs.list_xattrs(inode)? {
        if name.starts_with(ACL_PREFIX) && !kept(&name) {
            fs.remove_xattr(inode, &name)?;
        }
    }
    Ok(())
}
