//! The attributes and types of the files that a member makes.

use diskfs_vfs::{self as vfs, NewKind, SetMetadata, SetTime};

use super::inode::Body;
use super::sealed::SealedFile;
use crate::{Member, MemberKind};

/// The reason of the error for an archive that is no longer as it was planned.
pub(super) const CHANGED: &str = "the archive changed while it was read";

/// The attributes of a directory.
pub(super) struct Attributes {
    pub(super) metadata: SetMetadata,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Attributes {
    pub(super) fn new(member: Member) -> Self {
        Self {
            metadata: metadata_of(&member),
            xattrs: member.xattrs,
        }
    }

    /// Returns the attributes of a directory that the archive does not contain.
    pub(super) fn without_member(modified: vfs::Timestamp) -> Self {
        let time = Some(SetTime::At(modified));
        Self {
            metadata: SetMetadata {
                permissions: Some(0o755),
                uid: Some(0),
                gid: Some(0),
                accessed: time,
                modified: time,
                changed: time,
                flags: None,
            },
            xattrs: Vec::new(),
        }
    }
}

/// Returns the metadata of a member. Extended attributes are set before it: ACLs change the mode.
pub(super) fn metadata_of(member: &Member) -> SetMetadata {
    let is_symlink = matches!(member.kind, MemberKind::Symlink(_));
    let modified = SetTime::At(member.modified);
    SetMetadata {
        permissions: (!is_symlink).then_some(member.permissions),
        uid: Some(member.uid),
        gid: Some(member.gid),
        accessed: Some(member.accessed.map_or(modified, SetTime::At)),
        modified: Some(modified),
        changed: Some(modified),
        flags: None,
    }
}

/// Returns the type of a new file, if the member still is what was planned.
pub(super) fn new_kind<'m>(member: &'m Member, file: &SealedFile) -> vfs::Result<NewKind<'m>> {
    let (kind, is_planned) = match (&member.kind, &file.body) {
        (MemberKind::Regular, Body::Regular { size_bytes, .. }) => {
            (NewKind::Regular, *size_bytes == member.size_bytes)
        }
        (MemberKind::Symlink(target), Body::Symlink(planned)) => {
            (NewKind::Symlink(target), **planned == **target)
        }
        (MemberKind::CharacterDevice(device), Body::Special(_)) => {
            (NewKind::CharacterDevice(*device), true)
        }
        (MemberKind::BlockDevice(device), Body::Special(_)) => {
            (NewKind::BlockDevice(*device), true)
        }
        (MemberKind::Fifo, Body::Special(_)) => (NewKind::Fifo, true),
        _ => (NewKind::Fifo, false),
    };
    if !is_planned {
        return Err(vfs::Error::new(vfs::ErrorKind::Io, CHANGED));
    }
    Ok(kind)
}
