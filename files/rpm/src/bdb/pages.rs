//! Pages of the file, by number: `PAGE`.

use diskfs_block::bytes::{index, len_u64, part};
use diskfs_block::{BlockRead, Error, Result};

use super::hash_page::HashPage;
use super::meta::HashMeta;
use crate::byte_order::ByteOrder;
use crate::chain::{Overflow, OverflowPages};
use crate::visited::Visited;
use crate::window::Window;

/// The size of a page header. The contents follow it.
pub(super) const PAGE_HEADER_BYTES: usize = 26;

/// The type of a page that was allocated, but never written, `P_INVALID`.
const INVALID: u8 = 0;
/// The type of hash pages of versions 8 and 9, `P_HASH_UNSORTED`.
const HASH_UNSORTED: u8 = 2;
/// The type of hash pages, `P_HASH`.
const HASH: u8 = 13;
/// The type of overflow pages, `P_OVERFLOW`.
const OVERFLOW: u8 = 7;

/// A reader of pages. It reads each page at most once.
#[derive(Debug)]
pub(super) struct Pages<'a> {
    order: ByteOrder,
    page_bytes: usize,
    window: Window<'a>,
    visited: Visited,
}

impl<'a> Pages<'a> {
    pub(super) fn new(device: &'a dyn BlockRead, meta: &HashMeta) -> Result<Self> {
        let mut visited = Visited::new(meta.pages);
        // Page 0 is the metadata page, which has been read already.
        visited.visit(0)?;
        Ok(Self {
            order: meta.order,
            page_bytes: meta.page_bytes,
            window: Window::new(device, meta.page_bytes),
            visited,
        })
    }

    /// Reads a page of a bucket; `None` for one that was never written.
    pub(super) fn hash_page(&mut self, number: u32) -> Result<Option<HashPage>> {
        self.visited.visit(number)?;
        let (order, page_bytes) = (self.order, self.page_bytes);
        let bytes = self.bytes(number, 0, page_bytes)?;
        match kind(bytes) {
            INVALID => Ok(None),
            HASH | HASH_UNSORTED if order.u32(bytes, 8) == Some(number) => {
                Ok(Some(HashPage::new(number, order, bytes.to_vec())))
            }
            kind => Err(invalid_page(number, kind)),
        }
    }
}

fn kind(page: &[u8]) -> u8 {
    page.get(25).copied().unwrap_or_default()
}

fn invalid_page(number: u32, kind: u8) -> Error {
    let reason = format!("invalid page {number}: its type {kind} or its number is wrong");
    Error::corrupt(reason)
}

impl OverflowPages for Pages<'_> {
    fn overflow(&mut self, page: u32) -> Result<Overflow> {
        self.visited.visit(page)?;
        let (order, page_bytes) = (self.order, self.page_bytes);
        let bytes = self.bytes(page, 0, page_bytes)?;
        let len = order.u16(bytes, 22).map_or(0, usize::from);
        let is_one = kind(bytes) == OVERFLOW && order.u32(bytes, 8) == Some(page);
        if !is_one || part(bytes, PAGE_HEADER_BYTES, len).is_none() {
            return Err(invalid_page(page, kind(bytes)));
        }
        Ok(Overflow {
            start: PAGE_HEADER_BYTES,
            len,
            next: order.u32(bytes, 16).unwrap_or(0),
        })
    }

    fn bytes(&mut self, page: u32, offset: usize, len: usize) -> Result<&[u8]> {
        let at = u64::from(page).saturating_mul(len_u64(self.page_bytes));
        let whole = self.window.get(at, self.page_bytes)?;
        let past_end = || Error::corrupt(format!("invalid page {page}: it ends early"));
        part(whole, index(offset), len).ok_or_else(past_end)
    }
}
