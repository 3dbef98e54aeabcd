//! Hash pages. A page has alternating keys and values, stored from its end towards its start.

use diskfs_block::bytes::part;
use diskfs_block::{Error, Result};

use super::pages::PAGE_HEADER_BYTES;
use crate::byte_order::ByteOrder;

/// The item type of data in the page, `H_KEYDATA`.
const KEYDATA: u8 = 1;
/// The item type of data in overflow pages, `H_OFFPAGE`.
const OFFPAGE: u8 = 3;

/// A page of keys and values.
#[derive(Debug)]
pub(super) struct HashPage {
    number: u32,
    order: ByteOrder,
    bytes: Vec<u8>,
}

/// A key or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item<'p> {
    /// Data in the page.
    OnPage(&'p [u8]),
    /// Data in overflow pages, starting with page `first`.
    OffPage { first: u32, len_bytes: u32 },
}

impl HashPage {
    pub(super) fn new(number: u32, order: ByteOrder, bytes: Vec<u8>) -> Self {
        Self {
            number,
            order,
            bytes,
        }
    }

    /// Returns the bucket's next page; 0 after its last one.
    pub(super) fn next(&self) -> u32 {
        self.order.u32(&self.bytes, 16).unwrap_or(0)
    }

    /// Returns the number of key-value pairs.
    pub(super) fn pairs(&self) -> usize {
        let items = self.order.u16(&self.bytes, 20).map_or(0, usize::from);
        items.div_ceil(2)
    }

    /// Returns a key and its value.
    pub(super) fn pair(&self, number: usize) -> Result<(Item<'_>, Item<'_>)> {
        let key = number.saturating_mul(2);
        Ok((self.item(key)?, self.item(key.saturating_add(1))?))
    }

    fn item(&self, number: usize) -> Result<Item<'_>> {
        let bytes = self.item_bytes(number);
        let bytes =
            bytes.ok_or_else(|| Error::corrupt("invalid item: it is not within its page"))?;
        match bytes.split_first() {
            Some((&KEYDATA, rest)) => Ok(Item::OnPage(rest)),
            Some((&OFFPAGE, _)) if bytes.len() == 12 => {
                let field = |at| self.order.u32(bytes, at).unwrap_or_default();
                Ok(Item::OffPage {
                    first: field(4),
                    len_bytes: field(8),
                })
            }
            kind => {
                let kind = kind.map_or(0, |(kind, _)| *kind);
                Err(Error::corrupt(format!("unsupported item type {kind}")))
            }
        }
    }

    /// Returns the bytes of an item, which ends where the previous item starts.
    fn item_bytes(&self, number: usize) -> Option<&[u8]> {
        let start = self.offset(number)?;
        let end = match number.checked_sub(1) {
            Some(before) => self.offset(before)?,
            None => self.bytes.len(),
        };
        part(&self.bytes, start, end.checked_sub(start)?)
    }

    fn offset(&self, number: usize) -> Option<usize> {
        let at = PAGE_HEADER_BYTES.checked_add(number.checked_mul(2)?)?;
        self.order.u16(&self.bytes, at).map(usize::from)
    }

    /// Returns the error with the pair that it is about.
    pub(super) fn name_in(&self, pair: usize, error: &Error) -> Error {
        let reason = format!("pair {pair} of page {}: {}", self.number, error.reason());
        Error::new(error.kind(), reason)
    }
}
