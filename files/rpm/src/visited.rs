//! Which pages of a database have been used: none is used twice, or else what points in a circle had no
//! end, and many pointers to one page were more than the file holds.

use diskfs_block::bytes::index;
use diskfs_block::{Error, Result};

/// More pages than any database of packages has: 32 GiB of the smallest ones. Their bits take 8 MiB.
const MAX_PAGES: u32 = 1 << 26;

/// A bit for each page.
#[derive(Debug)]
pub(crate) struct Visited {
    bits: Vec<u64>,
    pages: u32,
}

impl Visited {
    /// For pages 0 to `pages - 1`.
    pub(crate) fn new(pages: u32) -> Self {
        Self {
            bits: vec![0; index(pages.div_ceil(64))],
            pages,
        }
    }

    /// Marks a page.
    ///
    /// # Errors
    /// `Corrupt` when there is none of that number, or it is marked already.
    pub(crate) fn visit(&mut self, page: u32) -> Result<()> {
        let bit = 1_u64.wrapping_shl(page);
        let word = self.bits.get_mut(index(page.wrapping_shr(6)));
        let word = word.filter(|_| page < self.pages).ok_or_else(|| {
            let reason = format!("page {page} is used, of {} that there are", self.pages);
            Error::corrupt(reason)
        })?;
        if *word & bit != 0 {
            return Err(Error::corrupt(format!("page {page} is used twice")));
        }
        *word |= bit;
        Ok(())
    }
}

/// How many pages a file of `size_bytes` has.
///
/// # Errors
/// `Unsupported` when there are more than [`MAX_PAGES`].
pub(crate) fn page_count(size_bytes: u64, page_bytes: usize) -> Result<u32> {
    let pages = size_bytes.checked_div(diskfs_block::bytes::len_u64(page_bytes));
    let pages = pages.and_then(|pages| u32::try_from(pages).ok());
    pages.filter(|pages| *pages <= MAX_PAGES).ok_or_else(|| {
        let reason = format!("a database of {size_bytes} bytes is larger than any of rpm");
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
