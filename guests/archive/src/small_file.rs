//! Files that a program makes itself, as a layer.

use diskfs_vfs::Timestamp;
use tar::EntryType;

use crate::pack::{NewMember, pad};

/// A small file, or a directory, that is not on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallFile {
    /// The path in the tree, with or without a slash in front.
    pub path: Vec<u8>,
    /// The contents; `None` for a directory.
    pub contents: Option<Vec<u8>>,
    /// The permission bits.
    pub permissions: u16,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The time of the last modification.
    pub modified: Timestamp,
}

/// Returns the files as an archive.
pub(crate) fn archive(files: &[SmallFile]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for file in files {
        let name: Vec<u8> = file
            .path
            .iter()
            .copied()
            .skip_while(|b| *b == b'/')
            .collect();
        let contents = file.contents.as_deref();
        let kind = contents.map_or(EntryType::Directory, |_| EntryType::Regular);
        let contents = contents.unwrap_or_default();
        let name = if name.is_empty() { b"./" } else { &name[..] };
        let member = NewMember {
            uid: file.uid,
            gid: file.gid,
            modified: file.modified,
            stored_bytes: u64::try_from(contents.len()).unwrap_or(u64::MAX),
            ..NewMember::new(name, kind, file.permissions)
        };
        bytes.extend_from_slice(&member.headers());
        bytes.extend_from_slice(contents);
        pad(&mut bytes);
    }
    bytes
}
