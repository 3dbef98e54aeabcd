//! The files of a tree with their sizes, from which the size of a filesystem follows.

use diskfs_vfs::FileType;

use super::Tree;
use super::inode::{Body, XattrSize};

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

impl<'t> Nodes<'t> {
    fn directory(&self) -> Option<Node<'t>> {
        let directory = self.tree.sealed.directories.get(self.next)?;
        Some(Node {
            file_type: FileType::Directory,
            size_bytes: 0,
            allocated_bytes: 0,
            links: directory.subdirectories.saturating_add(2),
            xattrs: &directory.xattrs,
            name_bytes: &directory.name_bytes,
        })
    }

    fn file(&self) -> Option<Node<'t>> {
        let sealed = &self.tree.sealed;
        let index = self.next.checked_sub(sealed.directories.len())?;
        let file = sealed.files.get(index)?;
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
