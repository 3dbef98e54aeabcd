//! The computation of a tree: the members of all layers, applied in order.

use std::mem;

use diskfs_vfs::{Error, ErrorKind, Result, Timestamp};

use super::Limits;
use super::file::{new_file, xattr_sizes};
use super::inode::{Body, Dentry, Directory, Id, Inode, Source};
use super::paths;
use super::resolve::Missing;
use crate::layer::Placement;
use crate::{Member, MemberKind};

/// The inode of the root directory.
pub(super) const ROOT: Id = 0;

/// The marker of an opaque directory (OCI image specification, "Opaque Whiteout").
const OPAQUE: &[u8] = b".wh..wh..opq";

/// The prefix of the other files that AUFS keeps in a layer. They are not part of the tree.
const AUFS: &[u8] = b".wh..wh.";

/// The prefix of a whiteout.
const WHITEOUT: &[u8] = b".wh.";

/// The limit on the components of all paths, including those of symlinks: it bounds the time that a
/// hostile image takes. Consecutive members in one directory count once.
const MAX_STEPS: u64 = 200_000_000;

/// The memory for the attributes of a directory while the tree is written, besides its extended
/// attributes.
const DIRECTORY_BYTES: usize = 256;

/// The memory of a directory entry besides its name: a part of a node of a B-tree, the allocator's
/// overhead, and the entry of the final order.
const ENTRY_BYTES: usize = 160;

/// A tree that is being planned.
#[derive(Debug)]
pub(super) struct Plan {
    limits: Limits,
    inodes: Vec<Inode>,
    memory_bytes: u64,
    steps: u64,
    /// The index of the current layer, from 1 on: the root directory is below all layers.
    layer: u16,
    is_of_image: bool,
    /// The path of the current layer's root directory.
    target: Vec<u8>,
    keeps_target: bool,
    /// True if the current layer is one file, whose path is the target.
    is_file: bool,
    /// The parent of the last member, which is usually also that of the next one.
    pub(super) last_directory: Option<(Vec<u8>, Id)>,
}

impl Plan {
    pub(super) fn new(limits: Limits) -> Self {
        let root = Inode {
            source: None,
            links: 1,
            xattrs: Box::default(),
            body: Body::Directory(Box::new(Directory::new(ROOT, 0, Timestamp::default()))),
        };
        Self {
            limits,
            inodes: vec![root],
            memory_bytes: 0,
            steps: 0,
            layer: 0,
            is_of_image: false,
            target: Vec::new(),
            keeps_target: false,
            is_file: false,
            last_directory: None,
        }
    }

    /// Begins a layer. The caller has checked its target.
    pub(super) fn begin_layer(&mut self, placement: Placement<'_>) -> Result<()> {
        self.layer = self.layer.saturating_add(1);
        self.is_of_image = placement.is_of_image;
        self.target = paths::plain(placement.target, true)?;
        self.keeps_target = placement.keeps_target;
        self.is_file = placement.is_file;
        self.last_directory = None;
        Ok(())
    }

    /// Returns the path in the tree of a name in the current layer.
    fn path_of(&self, name: &[u8]) -> Result<Vec<u8>> {
        let path = paths::plain(name, self.is_of_image)?;
        if self.is_file || path.is_empty() {
            return Ok(self.target.clone());
        }
        if self.target.is_empty() {
            return Ok(path);
        }
        paths::plain(&[&self.target, &b"/"[..], &path].concat(), false)
    }

    /// Returns true if a directory of a lower layer keeps its attributes, although this layer has
    /// it, too: it is the layer's target.
    fn keeps(&self, inode: Id, path: &[u8]) -> bool {
        let has_source = self
            .inode(inode)
            .is_some_and(|found| found.source.is_some());
        self.keeps_target && path == self.target && has_source
    }

    pub(super) fn layer(&self) -> u16 {
        self.layer
    }

    pub(super) fn into_inodes(self) -> Vec<Inode> {
        self.inodes
    }

    pub(super) fn inode(&self, id: Id) -> Option<&Inode> {
        self.inodes.get(usize::try_from(id).ok()?)
    }

    pub(super) fn inode_mut(&mut self, id: Id) -> Option<&mut Inode> {
        self.inodes.get_mut(usize::try_from(id).ok()?)
    }

    pub(super) fn directory(&self, id: Id) -> Option<&Directory> {
        self.inode(id)?.directory()
    }

    pub(super) fn directory_mut(&mut self, id: Id) -> Option<&mut Directory> {
        match &mut self.inode_mut(id)?.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    /// Applies a member of the current layer. `unread_bytes` is the size of its stored contents
    /// without the map of a sparse file.
    pub(super) fn put(&mut self, member: &Member, index: u32, unread_bytes: u64) -> Result<()> {
        let source = Source {
            layer: self.layer.saturating_sub(1),
            member: index,
        };
        let path = self.path_of(&member.name)?;
        let Some((parent, name)) = paths::split(&path) else {
            return self.put_root(member, source);
        };
        if self.is_of_image && is_of_aufs(&path) {
            return Ok(());
        }
        if let Some(hidden) = name.strip_prefix(WHITEOUT).filter(|_| self.is_of_image) {
            return self.put_whiteout(parent, name, hidden);
        }
        let parent = self.directory_at(parent, Missing::Create(member.modified))?;
        match &member.kind {
            MemberKind::Directory => self.put_directory((parent, name, &path), member, source),
            MemberKind::HardLink(target) => self.put_hard_link(parent, name, target),
            _ => {
                let inode = new_file(member, source, unread_bytes)?;
                let inode = self.add(inode)?;
                self.remove(parent, name);
                self.insert(parent, name, inode)
            }
        }
    }

    fn put_root(&mut self, member: &Member, source: Source) -> Result<()> {
        if member.kind != MemberKind::Directory {
            let reason = "cannot replace the root directory of the tree";
            return Err(Error::new(ErrorKind::IsADirectory, reason));
        }
        if self.keeps(ROOT, b"") {
            return Ok(());
        }
        self.set_directory(ROOT, member, source)
    }

    /// Removes what lower layers have below a name, or in a whole directory.
    fn put_whiteout(&mut self, parent: &[u8], name: &[u8], hidden: &[u8]) -> Result<()> {
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(Error::new(ErrorKind::Invalid, "invalid whiteout"));
        }
        let parent = match self.directory_at(parent, Missing::Fail) {
            Err(error) if is_missing(error.kind()) => return Ok(()),
            parent => parent?,
        };
        if name == OPAQUE {
            self.remove_lower(parent);
            return Ok(());
        }
        let Some(mut dentry) = self.find(parent, hidden) else {
            return Ok(());
        };
        if !self.is_of_this_layer(&mut dentry) {
            self.remove(parent, hidden);
        } else if let Some(found) = self.directory_mut(parent)
            && let Some(entry) = found.entries.get_mut(hidden)
        {
            *entry = dentry;
        }
        Ok(())
    }

    /// Adds a directory, or replaces the attributes of an existing one.
    fn put_directory(
        &mut self,
        (parent, name, path): (Id, &[u8], &[u8]),
        member: &Member,
        source: Source,
    ) -> Result<()> {
        let existing = self.find(parent, name).map(|dentry| dentry.inode);
        let existing = existing.filter(|inode| self.directory(*inode).is_some());
        let inode = if let Some(inode) = existing {
            let layer = self.layer;
            let entries = self.directory_mut(parent).map(|found| &mut found.entries);
            if let Some(dentry) = entries.and_then(|entries| entries.get_mut(name)) {
                dentry.layer = layer;
            }
            inode
        } else {
            self.remove(parent, name);
            self.make_directory(parent, name, member.modified)?
        };
        if self.keeps(inode, path) {
            return Ok(());
        }
        self.set_directory(inode, member, source)
    }

    fn set_directory(&mut self, id: Id, member: &Member, source: Source) -> Result<()> {
        let xattrs = xattr_sizes(member)?;
        let values = member.xattrs.iter();
        let values = values.map(|(name, value)| name.len().saturating_add(value.len()));
        let values = values.fold(DIRECTORY_BYTES, usize::saturating_add);
        self.charge(values.saturating_add(mem::size_of_val(&*xattrs)))?;
        if let Some(inode) = self.inode_mut(id) {
            inode.source = Some(source);
            inode.xattrs = xattrs;
        }
        Ok(())
    }

    /// Adds a name of a file of this layer or a lower one. The file keeps its attributes.
    fn put_hard_link(&mut self, parent: Id, name: &[u8], target: &[u8]) -> Result<()> {
        let missing = || {
            let shown = String::from_utf8_lossy(target);
            let reason = format!("hard link to a missing file: `{}`", shown.escape_debug());
            Error::new(ErrorKind::Corrupt, reason)
        };
        let path = self.path_of(target)?;
        let (target_parent, target_name) = paths::split(&path).ok_or_else(missing)?;
        let target_parent = self.walk_existing(target_parent).map_err(|_| missing())?;
        let found = self.find(target_parent, target_name).ok_or_else(missing)?;
        if self.directory(found.inode).is_some() {
            let reason = "hard link to a directory";
            return Err(Error::new(ErrorKind::Corrupt, reason));
        }
        // Counted before the removal: the name may be a parent of the target.
        if let Some(inode) = self.inode_mut(found.inode) {
            inode.links = inode.links.saturating_add(1);
        }
        self.remove(parent, name);
        self.insert(parent, name, found.inode)
    }

    fn walk_existing(&mut self, path: &[u8]) -> Result<Id> {
        // The last directory is kept: the link's own parent is likely to be needed again.
        let last = self.last_directory.take();
        let found = self.directory_at(path, Missing::Fail);
        self.last_directory = last;
        found
    }

    /// Adds an inode without a name.
    pub(super) fn add(&mut self, inode: Inode) -> Result<Id> {
        let target_bytes = match &inode.body {
            Body::Symlink(target) => target.len(),
            _ => 0,
        };
        let xattr_bytes = mem::size_of_val(&*inode.xattrs);
        let memory = size_of::<Inode>()
            .saturating_add(target_bytes)
            .saturating_add(xattr_bytes);
        self.charge(memory)?;
        let id = u32::try_from(self.inodes.len()).unwrap_or(u32::MAX);
        if id >= self.limits.files {
            let reason = format!(
                "too many files in the layers, at most {}",
                self.limits.files
            );
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        self.inodes.push(inode);
        Ok(id)
    }

    /// Adds an entry to a directory.
    pub(super) fn insert(&mut self, directory: Id, name: &[u8], inode: Id) -> Result<()> {
        self.charge(name.len().saturating_add(ENTRY_BYTES))?;
        let layer = self.layer;
        if let Some(directory) = self.directory_mut(directory) {
            let dentry = Dentry { inode, layer };
            directory.entries.insert(name.into(), dentry);
        }
        Ok(())
    }

    /// Counts a component of a path.
    pub(super) fn count_step(&mut self) -> Result<()> {
        self.steps = self.steps.saturating_add(1);
        if self.steps > MAX_STEPS {
            let reason = format!("too many components in the paths, at most {MAX_STEPS}");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        Ok(())
    }

    /// Counts memory, which is not returned by removals.
    fn charge(&mut self, bytes: usize) -> Result<()> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.memory_bytes = self.memory_bytes.saturating_add(bytes);
        if self.memory_bytes > self.limits.memory_bytes {
            let reason = format!(
                "the names and attributes of the layers need too much memory, at most {} bytes",
                self.limits.memory_bytes
            );
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        Ok(())
    }
}

/// Returns true if a lower layer has no such directory, in which a whiteout would remove something.
const fn is_missing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns true for a file of AUFS in a layer, or a file below one, except for an opaque marker.
fn is_of_aufs(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/').rev();
    let last = parts.next().unwrap_or_default();
    (last.starts_with(AUFS) && last != OPAQUE) || parts.any(|part| part.starts_with(AUFS))
}
