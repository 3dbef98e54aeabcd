//! Pages of the database, from the write-ahead log if it has them, otherwise from the main file.

use diskfs_block::bytes::{array, index, len_u64, part};
use diskfs_block::{BlockRead, Error, Result};

use super::database_header::DatabaseHeader;
use super::wal::Wal;
use crate::chain::{Overflow, OverflowPages};
use crate::visited::{Visited, page_count};
use crate::window::Window;

/// The size of the field before the contents of an overflow page: the number of the next page.
const NEXT_BYTES: usize = 4;

/// A reader of pages by their number, from 1.
#[derive(Debug)]
pub(super) struct Pager<'a> {
    header: DatabaseHeader,
    main: Window<'a>,
    wal: Option<(&'a Wal<'a>, Window<'a>)>,
    visited: Visited,
}

impl<'a> Pager<'a> {
    /// Returns a reader of all pages.
    ///
    /// # Errors
    /// `Unsupported` if there are more pages than any database of rpm has.
    pub(super) fn new(
        main: &'a dyn BlockRead,
        wal: Option<&'a Wal<'a>>,
        header: DatabaseHeader,
    ) -> Result<Self> {
        let in_main = page_count(main.size_bytes(), header.page_bytes)?;
        let pages = match wal {
            Some(wal) => bounded_page_count(wal.database_pages(), in_main, wal.page_count()),
            None => in_main,
        };
        Ok(Self {
            header,
            main: Window::new(main, header.page_bytes),
            wal: wal.map(|wal| (wal, Window::new(wal.device(), header.page_bytes))),
            // Page numbers start at 1.
            visited: Visited::new(pages.saturating_add(1)),
        })
    }

    /// Reads a page of a tree. Each page can be used only once.
    pub(super) fn tree_page(&mut self, number: u32) -> Result<Vec<u8>> {
        self.visit(number)?;
        let usable_bytes = self.header.usable_bytes;
        Ok(self.bytes(number, 0, usable_bytes)?.to_vec())
    }

    fn visit(&mut self, number: u32) -> Result<()> {
        if number == 0 {
            return Err(Error::corrupt("invalid pointer to page 0"));
        }
        self.visited.visit(number)
    }
}

/// Returns the number of pages. The log states it, but both files together cannot have more pages
/// than they contain.
fn bounded_page_count(stated: u32, in_main: u32, in_wal: u32) -> u32 {
    stated.min(in_main.saturating_add(in_wal))
}

impl OverflowPages for Pager<'_> {
    fn overflow(&mut self, page: u32) -> Result<Overflow> {
        self.visit(page)?;
        let next = array(self.bytes(page, 0, NEXT_BYTES)?, 0);
        Ok(Overflow {
            start: NEXT_BYTES,
            len: self.header.usable_bytes.saturating_sub(NEXT_BYTES),
            next: next.map_or(0, u32::from_be_bytes),
        })
    }

    /// Reads the whole page into the window, whichever part is needed.
    fn bytes(&mut self, page: u32, offset: usize, len: usize) -> Result<&[u8]> {
        let page_bytes = self.header.page_bytes;
        let before = u64::from(page.saturating_sub(1));
        let in_main = before.saturating_mul(len_u64(page_bytes));
        let in_wal = self.wal.as_mut().and_then(|(wal, window)| {
            let at = wal.offset_of(page)?;
            Some((at, window))
        });
        let (at, window) = in_wal.unwrap_or((in_main, &mut self.main));
        let whole = window.get(at, page_bytes)?;
        let past_end = || Error::corrupt(format!("invalid page {page}: it ends early"));
        part(whole, index(offset), len).ok_or_else(past_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_lies_takes_no_memory() {
        // Four billion pages would each take a bit of memory.
        assert_eq!(bounded_page_count(u32::MAX, 3, 2), 5);
        assert_eq!(bounded_page_count(4, 3, 2), 4);
    }
}
