//! What a new file inherits and a copy must not have.

use crate::{FsWrite, InodeNumber, Result};

/// Where POSIX ACLs are.
const ACL_PREFIX: &[u8] = b"system.posix_acl_";

/// Removes the ACLs that a file inherited from its directory, but for those that `kept` says yes to:
/// a faithful copy has the ACLs of its source, and no others.
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
