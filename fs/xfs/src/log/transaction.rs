//! A transaction, while it is reassembled from its regions.

use super::item::Item;
use super::lsn::Lsn;

/// The magic at the start of the transaction's header, `XFS_TRANS_HEADER_MAGIC`.
const HEADER_MAGIC: [u8; 4] = 0x5452_414e_u32.to_le_bytes();
/// The size of the transaction's header, `struct xfs_trans_header`.
const HEADER_BYTES: usize = 16;

/// The reason why an operation is invalid.
pub(super) type Reason = &'static str;

/// A transaction of the log.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The place of the record in which the transaction starts.
    pub(super) lsn: Lsn,
    header_bytes: usize,
    pub(super) items: Vec<Item>,
    /// The memory that its regions need.
    cost_bytes: u64,
}

impl Transaction {
    /// Starts a transaction, of which nothing is known yet but its place.
    pub(super) fn new(lsn: Lsn) -> Self {
        Self {
            lsn,
            header_bytes: 0,
            items: Vec::new(),
            cost_bytes: 0,
        }
    }

    /// Returns the memory that its regions need.
    pub(super) fn cost_bytes(&self) -> u64 {
        self.cost_bytes
    }

    /// Adds a region, or the transaction's header, which comes first.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.items.is_empty() && self.header_bytes < HEADER_BYTES {
            return self.start_header(bytes);
        }
        if self.items.last().is_none_or(Item::is_complete) {
            self.items.push(Item::default());
        }
        let Some(item) = self.items.last_mut() else {
            return Ok(());
        };
        if item.expected == 0 {
            item.expected =
                Item::count_in(bytes).ok_or("a log item has an invalid number of regions")?;
        }
        item.regions.push(bytes.to_vec());
        self.cost_bytes = self.cost_bytes.saturating_add(Item::cost_bytes(bytes));
        Ok(())
    }

    fn start_header(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        if !bytes.starts_with(&HEADER_MAGIC) {
            return Err("a transaction has a wrong magic");
        }
        if self.header_bytes != 0 || bytes.len() > HEADER_BYTES {
            return Err("a transaction has an invalid header");
        }
        self.header_bytes = bytes.len();
        Ok(())
    }

    /// Adds bytes to the last region, whose first part was in the record before.
    pub(super) fn continue_last(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        if self.header_bytes < HEADER_BYTES {
            self.header_bytes = self.header_bytes.saturating_add(bytes.len());
            return match self.header_bytes {
                HEADER_BYTES => Ok(()),
                _ => Err("a transaction has an invalid header"),
            };
        }
        let last = self
            .items
            .last_mut()
            .and_then(|item| item.regions.last_mut());
        let last = last.ok_or("an operation continues nothing")?;
        last.extend_from_slice(bytes);
        self.cost_bytes = self
            .cost_bytes
            .saturating_add(crate::bytes::len_u64(bytes.len()));
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.items.last().is_none_or(Item::is_complete)
    }
}
