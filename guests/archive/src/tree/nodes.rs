//! The files of a tree with their sizes, from which the size of a filesystem follows.

use diskfs_disk::TreeUsage;
use diskfs_vfs::FileType;

use super::Tree;
use super::inode::{Body, Source, XattrSize};

/// A file of the final tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node<'t> {
    /// The type of the file.
    pub file_type: FileType,
    /// The size in bytes, including holes; of a symlink, the length of its target.
    pub size_bytes: u64,
    /// The size of the data of a regular file in blocks of 4096 bytes, without holes, in bytes.
    pub allocated_bytes: u64,
    /// The number of hard links, as stat(2) counts them.
    pub links: u32,
    /// The sizes of the extended attributes.
    pub xattrs: &'t [XattrSize],
    /// The lengths of the names in a directory, in bytes.
    pub name_bytes: &'t [u8],
}

/// The files of a tree: first the directories, the root first, then the others.
#[derive(Debug, Clone)]
pub struct Nodes<'t> {
    tree: &'t Tree,
    next: usize,
}

impl Tree {
    /// Returns the files of the final tree, each once: its hard links are a count.
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes {
            tree: self,
            next: 0,
        }
    }
}

impl Node<'_> {
    /// Adds the space that the file needs.
    pub fn add_to(&self, usage: &mut TreeUsage) {
        match self.file_type {
            FileType::Regular => usage.add_file(self.size_bytes, self.allocated_bytes),
            FileType::Directory => {
                usage.add_directory(self.name_bytes.iter().map(|len| usize::from(*len)));
            }
            FileType::Symlink => usage.add_symlink(self.size_bytes),
            _ => usage.add_special(),
        }
        if self.xattrs.is_empty() {
            return;
        }
        let count = u64::try_from(self.xattrs.len()).unwrap_or(u64::MAX);
        let sizes = self.xattrs.iter().map(|xattr| {
            let value_bytes = u64::from(xattr.value_bytes);
            value_bytes.saturating_add(xattr.name_bytes.into())
        });
        usage.add_xattrs(count, sizes.fold(0, u64::saturating_add));
    }
}

impl<'t> Nodes<'t> {
    fn directory(&self) -> Option<Node<'t>> {
        self.tree.directory_node(self.next)
    }

    fn file(&self) -> Option<Node<'t>> {
        let index = self.next.checked_sub(self.tree.sealed.directories.len())?;
        self.tree.file_node(index)
    }
}

impl Tree {
    fn directory_node(&self, index: usize) -> Option<Node<'_>> {
        let directory = self.sealed.directories.get(index)?;
        Some(Node {
            file_type: FileType::Directory,
            size_bytes: 0,
            allocated_bytes: 0,
            links: directory.subdirectories.saturating_add(2),
            xattrs: &directory.xattrs,
            name_bytes: &directory.name_bytes,
        })
    }

    fn file_node(&self, index: usize) -> Option<Node<'_>> {
        let file = self.sealed.files.get(index)?;
        let (file_type, size_bytes, allocated_bytes) = match &file.body {
            Body::Regular {
                size_bytes,
                allocated_bytes,
            } => (FileType::Regular, *size_bytes, *allocated_bytes),
            Body::Symlink(target) => {
                let size_bytes = u64::try_from(target.len()).unwrap_or(u64::MAX);
                (FileType::Symlink, size_bytes, 0)
            }
            Body::Special(file_type) => (*file_type, 0, 0),
            Body::Directory(_) => return None,
        };
        Some(Node {
            file_type,
            size_bytes,
            allocated_bytes,
            links: file.links,
            xattrs: &file.xattrs,
            name_bytes: &[],
        })
    }
}

impl<'t> Iterator for Nodes<'t> {
    type Item = Node<'t>;

    fn next(&mut self) -> Option<Node<'t>> {
        let node = self.directory().or_else(|| self.file())?;
        self.next = self.next.saturating_add(1);
        Some(node)
    }
}

/// A name of a file in the final tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<'t> {
    /// The path without a slash in front; empty for the root directory.
    pub path: Vec<u8>,
    /// The file.
    pub node: Node<'t>,
    /// The number of the file: all names of one file have the same number, and are consecutive.
    pub number: usize,
    /// The target of a symlink.
    pub target: Option<&'t [u8]>,
}

/// The names of a tree: first those of the directories, each after its parent, then the others.
#[derive(Debug, Clone)]
pub struct Names<'t> {
    tree: &'t Tree,
    /// The index of the next name, with the directories first.
    next: usize,
    /// The index of the current file, and its source.
    file: Option<(usize, Source)>,
}

impl Tree {
    /// Returns all names of the final tree.
    pub fn names(&self) -> Names<'_> {
        Names {
            tree: self,
            next: 0,
            file: None,
        }
    }

    fn directory_path(&self, index: u32) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = usize::try_from(index).unwrap_or(usize::MAX);
        while let Some(directory) = self.sealed.directories.get(at).filter(|_| at > 0) {
            names.push(&*directory.name);
            at = usize::try_from(directory.parent).unwrap_or(0);
        }
        names.reverse();
        names.join(&b'/')
    }
}

impl<'t> Names<'t> {
    fn directory(&self) -> Option<Named<'t>> {
        Some(Named {
            node: self.tree.directory_node(self.next)?,
            path: self.tree.directory_path(u32::try_from(self.next).ok()?),
            number: self.next,
            target: None,
        })
    }

    fn file(&mut self) -> Option<Named<'t>> {
        let sealed = &self.tree.sealed;
        let directories = sealed.directories.len();
        let name = sealed.names.get(self.next.checked_sub(directories)?)?;
        let index = match self.file {
            Some((index, source)) if source == name.source => index,
            Some((index, _)) => index.saturating_add(1),
            None => 0,
        };
        self.file = Some((index, name.source));
        let mut path = self.tree.directory_path(name.directory);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&name.bytes);
        let target = match &sealed.files.get(index)?.body {
            Body::Symlink(target) => Some(&**target),
            _ => None,
        };
        Some(Named {
            node: self.tree.file_node(index)?,
            path,
            number: directories.saturating_add(index),
            target,
        })
    }
}

impl<'t> Iterator for Names<'t> {
    type Item = Named<'t>;

    fn next(&mut self) -> Option<Named<'t>> {
        let named = self.directory().or_else(|| self.file())?;
        self.next = self.next.saturating_add(1);
        Some(named)
    }
}
