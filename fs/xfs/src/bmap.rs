//! The map of a fork: the extents of its blocks, from a list in the inode or from a tree.
//!
//! Source: "XFS Algorithms & Data Structures", sections "Extent List" and "B+tree Extent List".

mod cursor;
mod node;
mod read;

use std::sync::Arc;

pub(crate) use self::read::{Span, read, will_need};

use self::cursor::Cursor;
use crate::bytes::{index, len_u64};
use crate::error::Result;
use crate::extent::Extent;
use crate::inode::{Fork, ForkKind, Inode};
use crate::volume::Volume;

/// The maximum length of a list of extents that is decoded from a tree: 400 KiB, a fifth of the
/// cache for them. A longer map is read from its tree, whose blocks are cached, too.
const LIST_EXTENTS_MAX: u64 = 16 << 10;

/// Extents in the order of the file; the iterator ends after the first error.
#[derive(Debug)]
pub(crate) enum Extents<'a> {
    /// Extents of a list from this index on.
    List(Arc<[Extent]>, usize),
    /// Extents of a tree.
    Tree(Cursor<'a>),
    /// The error of starting, or nothing.
    Failed(Option<crate::error::Error>),
}

impl Extents<'_> {
    /// Returns the remaining extents if they are in a list.
    pub(crate) fn listed(&self) -> &[Extent] {
        match self {
            Self::List(list, next) => list.get(*next..).unwrap_or_default(),
            Self::Tree(_) | Self::Failed(_) => &[],
        }
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::List(list, next) => {
                let extent = list.get(*next)?;
                *next = next.saturating_add(1);
                Some(Ok(*extent))
            }
            Self::Tree(cursor) => cursor.next(),
            Self::Failed(error) => error.take().map(Err),
        }
    }
}

/// Returns the extents of a fork that end after `file_block`. The first one may start before it.
pub(crate) fn extents_from<'a>(
    volume: &'a Volume,
    inode: &'a Inode,
    kind: ForkKind,
    file_block: u64,
) -> Extents<'a> {
    match try_extents(volume, inode, kind, file_block) {
        Ok(extents) => extents,
        Err(e) => Extents::Failed(Some(e)),
    }
}

fn try_extents<'a>(
    volume: &'a Volume,
    inode: &'a Inode,
    kind: ForkKind,
    file_block: u64,
) -> Result<Extents<'a>> {
    match inode.fork(kind) {
        Some(Fork::Extents(list)) => Ok(from_list(list, file_block)),
        Some(Fork::Tree { root, extents }) => {
            let cursor = |from| Cursor::extents(volume, inode, kind, root, from);
            if *extents > LIST_EXTENTS_MAX {
                return cursor(file_block);
            }
            let make = || decode(inode, cursor(0)?, *extents).map(Some);
            let list = volume
                .maps
                .get_or_insert_with(&(inode.number, kind), make)?;
            match list {
                Some(list) => Ok(from_list(&list, file_block)),
                None => cursor(file_block),
            }
        }
        _ => Ok(Extents::Failed(None)),
    }
}

fn from_list<'a>(list: &Arc<[Extent]>, file_block: u64) -> Extents<'a> {
    let next = list.partition_point(|extent| extent.end() <= file_block);
    Extents::List(Arc::clone(list), next)
}

/// Decodes a whole tree, which must have the number of extents that the inode says.
fn decode(inode: &Inode, cursor: Extents<'_>, expected: u64) -> Result<Arc<[Extent]>> {
    // Bounded by LIST_EXTENTS_MAX, and allocated only as extents are found.
    let limit = index(expected).saturating_add(1);
    let list = cursor.take(limit).collect::<Result<Vec<_>>>()?;
    if len_u64(list.len()) != expected {
        let what = format!("its tree of extents does not have {expected} extents");
        return Err(inode.corrupt(format!("invalid inode: {what}")));
    }
    Ok(list.into())
}
