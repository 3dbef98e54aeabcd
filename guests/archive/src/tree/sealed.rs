//! A planned tree in the order in which it is written.

use diskfs_vfs::Timestamp;

use super::inode::{Body, Id, Inode, Source, XattrSize};
use super::plan::{Plan, ROOT};

/// A tree in the order in which it is written.
#[derive(Debug)]
pub(super) struct Sealed {
    /// The directories; each parent is before its children, and the root is the first.
    pub(super) directories: Vec<SealedDirectory>,
    /// The directories that have a member, in the order of the archive.
    pub(super) directory_members: Vec<(Source, u32)>,
    /// The names of files that are not directories, in the order of the archive. The names of one
    /// file are consecutive.
    pub(super) names: Vec<Name>,
    /// The files that are not directories, in the order of the archive.
    pub(super) files: Vec<SealedFile>,
}

/// A directory of the final tree.
#[derive(Debug)]
pub(super) struct SealedDirectory {
    /// The index of the parent.
    pub(super) parent: u32,
    pub(super) name: Box<[u8]>,
    /// True if the archive has a member with the attributes.
    pub(super) has_member: bool,
    pub(super) modified: Timestamp,
    pub(super) xattrs: Box<[XattrSize]>,
    pub(super) subdirectories: u32,
    /// The lengths of the names in the directory.
    pub(super) name_bytes: Vec<u8>,
}

/// A name of a file.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) source: Source,
    pub(super) directory: u32,
    pub(super) bytes: Box<[u8]>,
    inode: Id,
}

/// A file of the final tree.
#[derive(Debug)]
pub(super) struct SealedFile {
    pub(super) source: Source,
    pub(super) links: u32,
    pub(super) xattrs: Box<[XattrSize]>,
    pub(super) body: Body,
}

impl Sealed {
    pub(super) fn new(plan: Plan) -> Self {
        let mut inodes = Inodes(plan.into_inodes());
        let mut sealed = Self {
            directories: Vec::new(),
            directory_members: Vec::new(),
            names: Vec::new(),
            files: Vec::new(),
        };
        let mut open = vec![(ROOT, 0, Box::default())];
        while let Some((id, parent, name)) = open.pop() {
            sealed.add_directory(&mut inodes, (id, parent, name), &mut open);
        }
        sealed.directory_members.sort_unstable();
        // Names of one file have the same source and keep their order.
        sealed.names.sort_by_key(|name| name.source);
        let mut last = None;
        for name in &sealed.names {
            if last != Some(name.source)
                && let Some(inode) = inodes.take(name.inode)
            {
                sealed.files.push(SealedFile {
                    source: name.source,
                    links: inode.links,
                    xattrs: inode.xattrs,
                    body: inode.body,
                });
            }
            last = Some(name.source);
        }
        sealed
    }

    /// Adds a directory and the names in it; its subdirectories are added to `open`.
    fn add_directory(
        &mut self,
        inodes: &mut Inodes,
        (id, parent, name): (Id, u32, Box<[u8]>),
        open: &mut Vec<(Id, u32, Box<[u8]>)>,
    ) {
        let Some(inode) = inodes.take(id) else {
            return;
        };
        let Body::Directory(directory) = inode.body else {
            return;
        };
        let index = u32::try_from(self.directories.len()).unwrap_or(u32::MAX);
        let mut sealed = SealedDirectory {
            parent,
            name,
            has_member: inode.source.is_some(),
            modified: directory.modified,
            xattrs: inode.xattrs,
            subdirectories: 0,
            name_bytes: Vec::with_capacity(directory.entries.len()),
        };
        if let Some(source) = inode.source {
            self.directory_members.push((source, index));
        }
        for (name, dentry) in directory.entries {
            let len = u8::try_from(name.len()).unwrap_or(u8::MAX);
            sealed.name_bytes.push(len);
            match inodes.get(dentry.inode) {
                Some(inode) if inode.directory().is_some() => {
                    sealed.subdirectories = sealed.subdirectories.saturating_add(1);
                    open.push((dentry.inode, index, name));
                }
                Some(Inode {
                    source: Some(source),
                    ..
                }) => self.names.push(Name {
                    source: *source,
                    directory: index,
                    bytes: name,
                    inode: dentry.inode,
                }),
                _ => {}
            }
        }
        self.directories.push(sealed);
    }

    /// Returns true if a file or a directory of the final tree comes from this layer.
    pub(super) fn uses_layer(&self, layer: u16) -> bool {
        let first = Source { layer, member: 0 };
        let is_in = |source: Option<Source>| source.is_some_and(|source| source.layer == layer);
        let file = self.files.partition_point(|file| file.source < first);
        let members = &self.directory_members;
        let directory = members.partition_point(|(source, _)| *source < first);
        is_in(self.files.get(file).map(|file| file.source))
            || is_in(members.get(directory).map(|(source, _)| *source))
    }
}

/// The inodes of a plan, which are taken out one by one.
struct Inodes(Vec<Inode>);

impl Inodes {
    fn get(&self, id: Id) -> Option<&Inode> {
        self.0.get(usize::try_from(id).ok()?)
    }

    fn take(&mut self, id: Id) -> Option<Inode> {
        let inode = self.0.get_mut(usize::try_from(id).ok()?)?;
        let empty = Inode {
            source: None,
            links: 0,
            xattrs: Box::default(),
            body: Body::Symlink(Box::default()),
        };
        Some(std::mem::replace(inode, empty))
    }
}
