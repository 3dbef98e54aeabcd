//! Values that start in one page and continue in a chain of overflow pages, as in SQLite and
//! Berkeley DB.

use diskfs_block::bytes::{index, len_u64, part};
use diskfs_block::{Error, Result};

use crate::blob::{Blob, check_within};

/// Access to the overflow pages of a database.
pub(crate) trait OverflowPages {
    /// Uses a page as the next one of a chain. Each page can be used only once.
    ///
    /// # Errors
    /// `Corrupt` if it is not an overflow page or was used before; the errors of the device.
    fn overflow(&mut self, page: u32) -> Result<Overflow>;

    /// Returns `len` bytes at `offset` of a page that is part of a chain.
    ///
    /// # Errors
    /// The errors of the device.
    fn bytes(&mut self, page: u32, offset: usize, len: usize) -> Result<&[u8]>;
}

/// An overflow page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overflow {
    /// The offset of its contents in the page.
    pub(crate) start: usize,
    /// The length of its contents.
    pub(crate) len: usize,
    /// The next page; 0 after the last one.
    pub(crate) next: u32,
}

/// A page of the chain that has been found already.
#[derive(Debug, Clone, Copy)]
struct ChainPage {
    /// The offset in the whole value of the page's first byte.
    first: u64,
    page: u32,
    start: usize,
    len: usize,
}

/// The bytes of a value with overflow pages. Its pages are found when they are first needed.
pub(crate) struct Chain<'p, P> {
    pages: &'p mut P,
    local: &'p [u8],
    len_bytes: u64,
    links: Vec<ChainPage>,
    known_bytes: u64,
    next: u32,
}

impl<'p, P: OverflowPages> Chain<'p, P> {
    /// Returns a value of `len_bytes` bytes: first `local`, then the contents of the pages from
    /// `next` on.
    pub(crate) fn new(pages: &'p mut P, local: &'p [u8], next: u32, len_bytes: u64) -> Self {
        Self {
            pages,
            local,
            len_bytes,
            links: Vec::new(),
            known_bytes: len_u64(local.len()),
            next,
        }
    }

    /// Returns the contiguous bytes from `offset` on, at most `len`.
    fn piece(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        while self.known_bytes <= offset {
            self.follow()?;
        }
        if let Some(rest) = self.local.get(index(offset)..).filter(|it| !it.is_empty()) {
            return Ok(rest.get(..len).unwrap_or(rest));
        }
        let behind = self.links.partition_point(|link| link.first <= offset);
        let link = behind.checked_sub(1).and_then(|at| self.links.get(at));
        let link = *link.ok_or_else(ends_early)?;
        let within = index(offset.saturating_sub(link.first));
        let len = len.min(link.len.saturating_sub(within));
        self.pages
            .bytes(link.page, link.start.saturating_add(within), len)
    }

    fn follow(&mut self) -> Result<()> {
        if self.next == 0 {
            return Err(ends_early());
        }
        let page = self.next;
        let Overflow { start, len, next } = self.pages.overflow(page)?;
        // A chain of empty pages would otherwise cost a read of the whole file.
        if len == 0 {
            return Err(Error::corrupt(format!(
                "invalid overflow page {page}: it is empty"
            )));
        }
        let first = self.known_bytes;
        self.links.push(ChainPage {
            first,
            page,
            start,
            len,
        });
        self.known_bytes = first.saturating_add(len_u64(len));
        self.next = next;
        Ok(())
    }
}

fn ends_early() -> Error {
    Error::corrupt("invalid chain of overflow pages: it ends early")
}

impl<P: OverflowPages> Blob for Chain<'_, P> {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_within(offset, len_u64(buf.len()), self.len_bytes)?;
        let mut at = offset;
        let mut left = buf;
        while !left.is_empty() {
            let piece = self.piece(at, left.len())?;
            let (now, then) = left
                .split_at_mut_checked(piece.len())
                .ok_or_else(ends_early)?;
            if now.is_empty() {
                return Err(ends_early());
            }
            now.copy_from_slice(part(piece, 0, now.len()).unwrap_or_default());
            at = at.saturating_add(len_u64(now.len()));
            left = then;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of three bytes; each byte is the page's number.
    struct Threes;

    impl OverflowPages for Threes {
        fn overflow(&mut self, page: u32) -> Result<Overflow> {
            let next = if page == 4 { 0 } else { page + 1 };
            let (start, len) = (0, 3);
            Ok(Overflow { start, len, next })
        }

        fn bytes(&mut self, page: u32, offset: usize, len: usize) -> Result<&[u8]> {
            let pages: &[u8; 15] = &[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4];
            Ok(&pages[page as usize * 3..][offset..offset + len])
        }
    }

    #[test]
    fn any_part_in_any_order() {
        let whole = [9, 9, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4];
        for local in [&[9, 9][..], &[]] {
            let whole = &whole[2 - local.len()..];
            let mut pages = Threes;
            let mut chain = Chain::new(&mut pages, local, 1, whole.len() as u64);
            for from in (0..whole.len()).rev() {
                for to in from..=whole.len() {
                    let mut buf = vec![0; to - from];
                    chain.read_at(from as u64, &mut buf).unwrap();
                    assert_eq!(buf, &whole[from..to]);
                }
            }
            assert!(chain.read_at(0, &mut [0; 14]).is_err());
        }
    }

    #[test]
    fn a_chain_that_ends_early() {
        let mut pages = Threes;
        let mut chain = Chain::new(&mut pages, &[9], 3, 10);
        assert!(chain.read_at(1, &mut [0; 6]).is_ok());
        assert!(chain.read_at(1, &mut [0; 7]).is_err());
    }
}
