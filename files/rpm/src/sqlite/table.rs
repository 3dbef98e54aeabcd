//! Iteration over the rows of a table, in the order of their keys.

use std::fmt;

use diskfs_block::{Error, Result};

use super::btree_page::{BtreePage, Cell, Leaf};
use super::pager::Pager;
use crate::chain::Chain;

/// The maximum depth of a tree, SQLite's `BTCURSOR_MAX_DEPTH`: more levels than a tree of 2^31
/// pages has.
const MAX_DEPTH: usize = 20;

/// A walk over a table. Rows below a broken page are skipped, with one error.
#[derive(Debug)]
pub(super) struct Table {
    /// The pages to visit, each with its depth. The last one is visited next.
    pending: Vec<(u32, usize)>,
    leaf: Option<(Leaf, u16)>,
}

/// A row of a table.
pub(super) struct Row<'t> {
    leaf: &'t Leaf,
    cell: Cell,
}

impl Table {
    /// Returns a walk over the table with this root page.
    pub(super) fn at(root: u32) -> Self {
        Self {
            pending: vec![(root, 1)],
            leaf: None,
        }
    }

    /// Returns the next row.
    pub(super) fn next(&mut self, pager: &mut Pager<'_>) -> Option<Result<Row<'_>>> {
        while !self.has_cell() {
            let (page, depth) = self.pending.pop()?;
            if let Err(error) = self.enter(pager, page, depth) {
                return Some(Err(error));
            }
        }
        let (leaf, next) = self.leaf.as_mut()?;
        let number = *next;
        *next = next.saturating_add(1);
        let leaf = &*leaf;
        Some(leaf.cell(number).map(|cell| Row { leaf, cell }))
    }

    fn has_cell(&self) -> bool {
        let left = |(leaf, next): &(Leaf, u16)| *next < leaf.count();
        self.leaf.as_ref().is_some_and(left)
    }

    fn enter(&mut self, pager: &mut Pager<'_>, page: u32, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            let reason = format!("invalid tree: page {page} is on level {depth}");
            return Err(Error::corrupt(reason));
        }
        self.leaf = None;
        match BtreePage::from_bytes(page, pager.tree_page(page)?)? {
            BtreePage::Leaf(leaf) => self.leaf = Some((leaf, 0)),
            BtreePage::Interior(children) => {
                let below = depth.saturating_add(1);
                let children = children.into_iter().rev();
                self.pending.extend(children.map(|child| (child, below)));
            }
        }
        Ok(())
    }
}

impl Row<'_> {
    /// Returns the bytes of the row's record.
    pub(super) fn payload<'p, 'd>(&'p self, pager: &'p mut Pager<'d>) -> Chain<'p, Pager<'d>> {
        let local = self.leaf.bytes().get(self.cell.local.clone());
        let cell = &self.cell;
        let local = local.unwrap_or_default();
        Chain::new(pager, local, cell.overflow, cell.payload_bytes)
    }

    /// Returns the error with the row that it is about.
    pub(super) fn name_in(&self, error: &Error) -> Error {
        let reason = format!("{self}: {}", error.reason());
        Error::new(error.kind(), reason)
    }
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} in page {}", self.cell.row_id, self.leaf.page())
    }
}
