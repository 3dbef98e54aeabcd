//! The record of used pages. No page can be used twice: this rules out loops, and reading the same
//! page for many pointers.

use diskfs_block::bytes::index;
use diskfs_block::{Error, Result};

/// The maximum number of pages, more than any database of packages has: 32 GiB of the smallest
/// ones. Their bits take 8 MiB.
const MAX_PAGES: u32 = 1 << 26;

/// A bit for each page, which is set if the page has been used.
#[derive(Debug)]
pub(crate) struct Visited {
    bits: Vec<u64>,
    pages: u32,
}

impl Visited {
    /// Returns a record for pages 0 to `pages - 1`, none of them used.
    pub(crate) fn new(pages: u32) -> Self {
        Self {
            bits: vec![0; index(pages.div_ceil(64))],
            pages,
        }
    }

    /// Marks a page as used.
    ///
    /// # Errors
    /// `Corrupt` if there is no such page, or it has been used already.
    pub(crate) fn visit(&mut self, page: u32) -> Result<()> {
        let bit = 1_u64.wrapping_shl(page);
        let word = self.bits.get_mut(index(page.wrapping_shr(6)));
        let word = word.filter(|_| page < self.pages).ok_or_else(|| {
            let reason = format!(
                "invalid page number {page}: the file has {} pages",
                self.pages
            );
            Error::corrupt(reason)
        })?;
        if *word & bit != 0 {
            return Err(Error::corrupt(format!(
                "invalid page number: page {page} is used twice"
            )));
        }
        *word |= bit;
        Ok(())
    }
}

/// Returns the number of pages of a file.
///
/// # Errors
/// `Unsupported` if there are more than [`MAX_PAGES`].
pub(crate) fn page_count(size_bytes: u64, page_bytes: usize) -> Result<u32> {
    let pages = size_bytes.checked_div(diskfs_block::bytes::len_u64(page_bytes));
    let pages = pages.and_then(|pages| u32::try_from(pages).ok());
    pages.filter(|pages| *pages <= MAX_PAGES).ok_or_else(|| {
        let reason =
            format!("database is too large: {size_bytes} bytes, at most {MAX_PAGES} pages");
        Error::unsupported(reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_each() {
        let mut visited = Visited::new(130);
        for page in 0..130 {
            visited.visit(page).unwrap();
        }
        for page in [0, 64, 129, 130, u32::MAX] {
            assert!(visited.visit(page).is_err());
        }
        assert_eq!(page_count(8191, 4096).unwrap(), 1);
        assert!(page_count(u64::MAX, 65536).is_err());
    }
}
