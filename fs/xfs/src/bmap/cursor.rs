//! A walk along the leaves of a tree of extents.
//!
//! The walk ends although an image may contain any tree: each level is one below its parent's, no
//! block is empty, and the extents are strictly ascending. A block that occurs twice breaks the
//! order at its first extent.

use crate::error::{Error, Result, corrupt};
use crate::extent::Extent;
use crate::inode::{ForkKind, Inode};
use crate::volume::Volume;

use super::Extents;
use super::node::Node;

/// The position in a tree: the nodes from the root to a leaf, each with the index of the next
/// record.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    volume: &'a Volume,
    inode: &'a Inode,
    kind: ForkKind,
    path: Vec<(Node, usize)>,
    /// The file block that the next extent may start at.
    after: u64,
    /// The file block that the first extent must end after.
    from: u64,
}

impl<'a> Cursor<'a> {
    /// Returns the extents that end after `from`.
    pub(crate) fn extents(
        volume: &'a Volume,
        inode: &'a Inode,
        kind: ForkKind,
        root: &[u8],
        from: u64,
    ) -> Result<Extents<'a>> {
        let root = Node::root(inode, root)?;
        let next = root.search(from);
        let mut cursor = Self {
            volume,
            inode,
            kind,
            path: vec![(root, next)],
            after: 0,
            from,
        };
        cursor.descend(Some(from))?;
        Ok(Extents::Tree(cursor))
    }

    /// Goes down to a leaf: to the one that contains `file_block`, or else to the first one.
    fn descend(&mut self, file_block: Option<u64>) -> Result<()> {
        while let Some((parent, next)) = self.path.last_mut() {
            let Some(level) = parent.level.checked_sub(1) else {
                return Ok(());
            };
            let child = parent.child(*next).ok_or_else(|| outside(parent))?;
            *next = next.saturating_add(1);
            let child = Node::read(self.volume, self.inode, self.kind, child, level)?;
            let next = match file_block {
                Some(file_block) if level > 0 => child.search(file_block),
                _ => 0,
            };
            self.path.push((child, next));
        }
        Ok(())
    }

    /// Returns the next extent of the leaves.
    fn step(&mut self) -> Option<Result<Extent>> {
        loop {
            let (node, next) = self.path.last_mut()?;
            if *next >= node.count {
                self.path.pop();
                continue;
            }
            if node.level > 0 {
                if let Err(e) = self.descend(None) {
                    return Some(Err(e));
                }
                continue;
            }
            let extent = node.extent(self.volume, *next, self.after)?;
            *next = next.saturating_add(1);
            return Some(extent);
        }
    }
}

fn outside(node: &Node) -> Error {
    corrupt(
        "invalid block of a tree of extents: too few records",
        node.at,
    )
}

impl Iterator for Cursor<'_> {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let extent = self.step()?;
            match extent {
                Ok(extent) => {
                    self.after = extent.end();
                    if extent.end() > self.from {
                        return Some(Ok(extent));
                    }
                }
                Err(e) => {
                    self.path.clear();
                    let inode = diskfs_vfs::InodeNumber(self.inode.number);
                    return Some(Err(e.in_inode(inode)));
                }
            }
        }
    }
}
