//! The privileges that a file loses when it is written, truncated or given to another owner:
//! set-user-id, set-group-id and capabilities. The kernel leaves that to us (`HANDLE_KILLPRIV_V2`),
//! which saves a request for the file's capabilities on every write.

use diskfs_vfs::{ErrorKind, FileType, FsWrite, InodeNumber, Metadata, Result, SetMetadata};
use fuser::Request;

use super::super::host::Host;

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o0010;

/// The extended attribute with the file's capabilities, see capabilities(7).
pub(super) const CAPABILITY: &[u8] = b"security.capability";

/// The process that sent a request, by its ids on the host. The request does not say whether the
/// process has `CAP_FSETID`; root is assumed to have it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Requester {
    uid: u32,
    gid: u32,
    pid: u32,
}

impl Requester {
    pub(super) fn new(request: &Request) -> Self {
        Self {
            uid: request.uid(),
            gid: request.gid(),
            pid: request.pid(),
        }
    }

    pub(super) fn is_root(self) -> bool {
        self.uid == 0
    }

    /// Returns true if the process is a member of a group. The host is asked for its supplementary
    /// groups only if its primary group differs.
    pub(super) fn has_group(self, gid: u32, host: &dyn Host) -> bool {
        // The kernel itself, writing back, has the process ID 0.
        self.gid == gid || self.pid != 0 && host.is_in_group(self.pid, gid)
    }
}

/// Returns the permissions without set-user-id and set-group-id. On a file that its group may not
/// execute, set-group-id means mandatory locking, and stays if `is_of_group` says that the process
/// is a member of the file's group (`setattr_should_drop_sgid` in Linux).
pub(super) fn without_ids(metadata: &Metadata, is_of_group: impl FnOnce() -> bool) -> u16 {
    let permissions = metadata.permissions;
    if metadata.file_type == FileType::Directory || permissions & (SET_USER_ID | SET_GROUP_ID) == 0
    {
        return permissions;
    }
    let means_locking = permissions & (SET_GROUP_ID | GROUP_EXECUTE) == SET_GROUP_ID;
    let lost = if means_locking && is_of_group() {
        SET_USER_ID
    } else {
        SET_USER_ID | SET_GROUP_ID
    };
    permissions & !lost
}

/// Drops both bits. Returns true if one of them was set.
pub(super) fn drop_ids(
    fs: &dyn FsWrite,
    inode: InodeNumber,
    is_of_group: impl FnOnce(&Metadata) -> bool,
) -> Result<bool> {
    let metadata = fs.metadata(inode)?;
    let permissions = without_ids(&metadata, || is_of_group(&metadata));
    if permissions == metadata.permissions {
        return Ok(false);
    }
    set_permissions(fs, inode, permissions)?;
    Ok(true)
}

/// Drops the file's capabilities.
pub(super) fn drop_capabilities(fs: &dyn FsWrite, inode: InodeNumber) -> Result<()> {
    if fs.xattr(inode, CAPABILITY)?.is_none() {
        return Ok(());
    }
    match fs.remove_xattr(inode, CAPABILITY) {
        Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(()),
        removed => removed,
    }
}

/// Drops set-group-id, as setting an ACL does if the process is outside the file's group.
pub(super) fn drop_group_id(fs: &dyn FsWrite, inode: InodeNumber) -> Result<()> {
    let permissions = fs.metadata(inode)?.permissions;
    set_permissions(fs, inode, permissions & !SET_GROUP_ID)
}

pub(super) fn has_group_id(metadata: &Metadata) -> bool {
    metadata.permissions & SET_GROUP_ID != 0
}

fn set_permissions(fs: &dyn FsWrite, inode: InodeNumber, permissions: u16) -> Result<()> {
    let change = SetMetadata {
        permissions: Some(permissions),
        ..SetMetadata::default()
    };
    fs.set_metadata(inode, &change)
}
