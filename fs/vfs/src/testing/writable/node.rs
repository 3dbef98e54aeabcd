//! A single file.

use std::collections::BTreeMap;

use super::acl::{self, Acl};
use super::blocks::Blocks;
use super::{BLOCK_BYTES, ROOT};
use crate::{
    Error, ErrorKind, FileFlags, FileType, InodeNumber, Metadata, NewKind, Result, SetMetadata,
    SetTime, SetXattr, Timestamp,
};

/// The limit on the total size of a file's extended attributes: that of a single value in xattr(7).
const XATTR_BYTES_MAX: usize = 64 << 10;

const XATTR_NAME_MAX: usize = 255;

#[derive(Debug, Clone)]
pub(super) struct Node {
    /// The metadata; the size of a regular file is in its contents.
    pub(super) metadata: Metadata,
    pub(super) body: Body,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) holds: u64,
    /// True if it was created without a name, and never had one.
    pub(super) is_unnamed: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    Regular(Blocks),
    Directory(Directory),
    Symlink(Vec<u8>),
    Special,
}

#[derive(Debug, Clone)]
pub(super) struct Directory {
    pub(super) parent: InodeNumber,
    by_name: BTreeMap<Vec<u8>, (u64, InodeNumber)>,
    by_cookie: BTreeMap<u64, Vec<u8>>,
    next_cookie: u64,
}

impl Directory {
    pub(super) fn new(parent: InodeNumber) -> Self {
        Self {
            parent,
            by_name: BTreeMap::new(),
            by_cookie: BTreeMap::new(),
            // 1 and 2 are the cookies of `.` and `..`.
            next_cookie: 3,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<InodeNumber> {
        self.by_name.get(name).map(|(_, inode)| *inode)
    }

    pub(super) fn insert(&mut self, name: &[u8], inode: InodeNumber) {
        if let Some((_, known)) = self.by_name.get_mut(name) {
            *known = inode;
            return;
        }
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.by_name.insert(name.to_vec(), (cookie, inode));
        self.by_cookie.insert(cookie, name.to_vec());
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some((cookie, _)) = self.by_name.remove(name) {
            self.by_cookie.remove(&cookie);
        }
    }

    /// Returns the entries after a cookie.
    pub(super) fn behind(&self, cookie: u64) -> impl Iterator<Item = (u64, &[u8], InodeNumber)> {
        let behind = self.by_cookie.range(cookie + 1..);
        behind.map(|(&cookie, name)| (cookie, name.as_slice(), self.by_name[name].1))
    }
}

impl Node {
    pub(super) fn new(inode: InodeNumber, body: Body, file_type: FileType, now: Timestamp) -> Self {
        let size_bytes = match &body {
            Body::Directory(_) => BLOCK_BYTES,
            Body::Symlink(target) => target.len() as u64,
            Body::Regular(_) | Body::Special => 0,
        };
        let is_dir = file_type == FileType::Directory;
        let metadata = Metadata {
            inode,
            generation: 0,
            file_type,
            permissions: 0o777,
            links: if is_dir { 2 } else { 1 },
            uid: 0,
            gid: 0,
            size_bytes,
            allocated_bytes: if is_dir { BLOCK_BYTES } else { 0 },
            accessed: now,
            modified: now,
            changed: now,
            created: Some(now),
            device: None,
            block_size: 4096,
            flags: FileFlags::default(),
        };
        Self {
            metadata,
            body,
            xattrs: BTreeMap::new(),
            holds: 0,
            is_unnamed: false,
        }
    }

    pub(super) fn root(now: Timestamp) -> Self {
        let body = Body::Directory(Directory::new(ROOT));
        let mut root = Self::new(ROOT, body, FileType::Directory, now);
        root.metadata.permissions = 0o755;
        root
    }

    pub(super) fn metadata(&self) -> Metadata {
        let mut metadata = self.metadata.clone();
        if let Body::Regular(blocks) = &self.body {
            metadata.size_bytes = blocks.size_bytes;
            metadata.allocated_bytes = blocks.allocated() * BLOCK_BYTES;
        }
        metadata
    }

    pub(super) fn is_dir(&self) -> bool {
        self.metadata.is_dir()
    }

    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error::from(kind).in_inode(self.metadata.inode)
    }

    pub(super) fn directory(&self) -> Result<&Directory> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(self.error(ErrorKind::NotADirectory)),
        }
    }

    pub(super) fn directory_mut(&mut self) -> &mut Directory {
        match &mut self.body {
            Body::Directory(directory) => directory,
            other => panic!("not a directory: {other:?}"),
        }
    }

    pub(super) fn blocks(&self) -> Result<&Blocks> {
        match &self.body {
            Body::Regular(blocks) => Ok(blocks),
            Body::Directory(_) => Err(self.error(ErrorKind::IsADirectory)),
            _ => Err(self.error(ErrorKind::Invalid)),
        }
    }

    pub(super) fn blocks_mut(&mut self) -> Result<&mut Blocks> {
        self.blocks()?;
        match &mut self.body {
            Body::Regular(blocks) => Ok(blocks),
            _ => unreachable!("the type was checked"),
        }
    }

    /// Returns true if the file can't be renamed, removed or linked to, and its attributes can't be
    /// changed.
    pub(super) fn is_fixed(&self) -> bool {
        let flags = self.metadata.flags;
        flags.immutable || flags.append_only
    }

    pub(super) fn check_not_fixed(&self) -> Result<()> {
        if self.is_fixed() {
            return Err(self.error(ErrorKind::NotPermitted));
        }
        Ok(())
    }

    /// Updates the times after a change of the contents.
    pub(super) fn touch(&mut self, now: Timestamp) {
        self.metadata.modified = now;
        self.metadata.changed = now;
    }

    pub(super) fn set_metadata(&mut self, change: &SetMetadata, now: Timestamp) -> Result<()> {
        self.check_change(change)?;
        let at = |time| match time {
            SetTime::Now => now,
            SetTime::At(time) => time,
        };
        let metadata = &mut self.metadata;
        metadata.uid = change.uid.unwrap_or(metadata.uid);
        metadata.gid = change.gid.unwrap_or(metadata.gid);
        metadata.accessed = change.accessed.map_or(metadata.accessed, at);
        metadata.modified = change.modified.map_or(metadata.modified, at);
        metadata.changed = change.changed.map_or(now, at);
        metadata.flags = change.flags.unwrap_or(metadata.flags);
        if let Some(permissions) = change.permissions {
            self.set_permissions(permissions & 0o7777)?;
        }
        Ok(())
    }

    fn check_change(&self, change: &SetMetadata) -> Result<()> {
        let flags = self.metadata.flags;
        if let Some(wanted) = change.flags {
            let fixed = FileFlags {
                immutable: flags.immutable,
                append_only: flags.append_only,
                no_dump: flags.no_dump,
                ..wanted
            };
            if fixed != flags {
                return Err(self.error(ErrorKind::Unsupported));
            }
        }
        // If a time is set to the present, the inode change time is the same.
        let sets_time = |time| matches!(time, Some(SetTime::At(_))) && time != change.changed;
        let is_free = change.permissions.is_none()
            && change.uid.is_none()
            && change.gid.is_none()
            && !sets_time(change.accessed)
            && !sets_time(change.modified);
        let touches = change.accessed.is_some() || change.modified.is_some();
        if !is_free || (touches && flags.immutable) {
            self.check_not_fixed()?;
        }
        Ok(())
    }

    fn set_permissions(&mut self, permissions: u16) -> Result<()> {
        self.metadata.permissions = permissions;
        if let Some(value) = self.xattrs.get_mut(acl::ACCESS)
            && let Some(mut acl) = Acl::parse(value)?
        {
            acl.set_mode(permissions);
            *value = acl.to_value();
        }
        Ok(())
    }

    pub(super) fn set_xattr(&mut self, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.check_xattr(name)?;
        let exists = self.xattrs.contains_key(name);
        match how {
            SetXattr::Create if exists => return Err(self.error(ErrorKind::Exists)),
            SetXattr::Replace if !exists => return Err(self.error(ErrorKind::NoAttribute)),
            _ => {}
        }
        if matches!(name, acl::ACCESS | acl::DEFAULT) {
            return self.set_acl(name, Acl::parse(value)?);
        }
        let others = self.xattrs.iter().filter(|(other, _)| *other != name);
        let others: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        if others + name.len() + value.len() > XATTR_BYTES_MAX {
            return Err(self.error(ErrorKind::NoSpace));
        }
        self.xattrs.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    pub(super) fn remove_xattr(&mut self, name: &[u8]) -> Result<()> {
        self.check_xattr(name)?;
        let removed = self.xattrs.remove(name);
        removed.map_or(Err(self.error(ErrorKind::NoAttribute)), |_| Ok(()))
    }

    fn check_xattr(&self, name: &[u8]) -> Result<()> {
        self.check_not_fixed()?;
        let kind = self.metadata.file_type;
        let has_user = matches!(kind, FileType::Regular | FileType::Directory);
        let has_acl = kind != FileType::Symlink;
        let is_acl = matches!(name, acl::ACCESS | acl::DEFAULT);
        let spaces: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
        let suffix = spaces.iter().find_map(|space| name.strip_prefix(*space));
        let problem = match suffix {
            _ if is_acl && has_acl => None,
            None => Some(ErrorKind::Unsupported),
            Some(b"") => Some(ErrorKind::Invalid),
            Some(_) if name.len() > XATTR_NAME_MAX => Some(ErrorKind::Invalid),
            Some(_) if name.starts_with(b"user.") && !has_user => Some(ErrorKind::NotPermitted),
            Some(_) => None,
        };
        problem.map_or(Ok(()), |kind| Err(self.error(kind)))
    }

    fn set_acl(&mut self, name: &[u8], acl: Option<Acl>) -> Result<()> {
        let is_access = name == acl::ACCESS;
        if !is_access && !self.is_dir() {
            // As in the kernel: EACCES, unless an ACL is removed that can't exist.
            return acl.map_or(Ok(()), |_| Err(self.error(ErrorKind::Denied)));
        }
        if is_access && let Some(acl) = &acl {
            self.metadata.permissions = self.metadata.permissions & !0o777 | acl.mode();
        }
        match acl {
            Some(acl) if !(is_access && acl.is_mode()) => {
                self.xattrs.insert(name.to_vec(), acl.to_value());
            }
            _ => {
                self.xattrs.remove(name);
            }
        }
        Ok(())
    }

    /// Inherits from a directory: its group, its default ACL or else the umask, and the flags that
    /// new files inherit. `permissions` are the requested ones.
    pub(super) fn inherit(&mut self, dir: &Self, mut permissions: u16, umask: u16) -> Result<()> {
        if dir.metadata.permissions & 0o2000 != 0 {
            self.metadata.gid = dir.metadata.gid;
            if self.is_dir() {
                permissions |= 0o2000;
            }
        }
        self.metadata.flags.no_dump = dir.metadata.flags.no_dump;
        if self.metadata.file_type == FileType::Symlink {
            return Ok(());
        }
        let default = dir.xattrs.get(acl::DEFAULT);
        match default
            .map(|value| Acl::parse(value))
            .transpose()?
            .flatten()
        {
            Some(acl) => self.inherit_acl(acl, &mut permissions),
            None => permissions &= !umask,
        }
        self.metadata.permissions = permissions & 0o7777;
        Ok(())
    }

    fn inherit_acl(&mut self, mut acl: Acl, permissions: &mut u16) {
        if self.is_dir() {
            self.xattrs.insert(acl::DEFAULT.to_vec(), acl.to_value());
        }
        acl.inherit(permissions);
        if !acl.is_mode() {
            self.xattrs.insert(acl::ACCESS.to_vec(), acl.to_value());
        }
    }
}

/// Returns the initial contents of a new file of this kind.
pub(super) fn begin(kind: NewKind<'_>, dir: InodeNumber) -> (Body, FileType) {
    match kind {
        NewKind::Regular => (Body::Regular(Blocks::default()), FileType::Regular),
        NewKind::Directory => (Body::Directory(Directory::new(dir)), FileType::Directory),
        NewKind::Symlink(target) => (Body::Symlink(target.to_vec()), FileType::Symlink),
        NewKind::CharacterDevice(_) => (Body::Special, FileType::CharacterDevice),
        NewKind::BlockDevice(_) => (Body::Special, FileType::BlockDevice),
        NewKind::Fifo => (Body::Special, FileType::Fifo),
        NewKind::Socket => (Body::Special, FileType::Socket),
    }
}
