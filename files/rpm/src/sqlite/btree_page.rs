//! Pages of a table's b-tree (section 1.6, "B-tree Pages").

use diskfs_block::bytes::{array, index, len_u64, part};
use diskfs_block::{Error, Result};

use super::database_header::HEADER_BYTES;
use super::varint::varint;

/// A page of a table's b-tree.
#[derive(Debug)]
pub(super) enum BtreePage {
    /// An interior page: the numbers of its child pages in order.
    Interior(Vec<u32>),
    /// A leaf page: rows.
    Leaf(Leaf),
}

/// A page of rows.
#[derive(Debug)]
pub(super) struct Leaf {
    page: u32,
    bytes: Vec<u8>,
    /// The offset of the pointers to cells.
    pointers: usize,
    count: u16,
}

/// The cell of a row: its key, and the location and length of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    /// The row's key.
    pub(super) row_id: i64,
    pub(super) payload_bytes: u64,
    /// The part of the record that is in this page.
    pub(super) local: std::ops::Range<usize>,
    /// The first overflow page of the rest; 0 if there is none.
    pub(super) overflow: u32,
}

impl BtreePage {
    /// Parses page `page`; `bytes` are its usable bytes.
    pub(super) fn from_bytes(page: u32, bytes: Vec<u8>) -> Result<Self> {
        let start = if page == 1 { HEADER_BYTES } else { 0 };
        let field = |at: usize| array(&bytes, start.saturating_add(at)).map(u16::from_be_bytes);
        let count = field(3).unwrap_or(0);
        match bytes.get(start) {
            Some(0x05) => interior(page, &bytes, start, count).map(Self::Interior),
            Some(0x0d) => Ok(Self::Leaf(Leaf {
                page,
                bytes,
                pointers: start.saturating_add(8),
                count,
            })),
            other => {
                let kind = other.copied().unwrap_or_default();
                let reason =
                    format!("invalid page {page}: type {kind} is not that of a table page");
                Err(Error::corrupt(reason))
            }
        }
    }
}

fn interior(page: u32, bytes: &[u8], start: usize, count: u16) -> Result<Vec<u32>> {
    let child = |at: usize| array(bytes, at).map(u32::from_be_bytes);
    let pointers = start.saturating_add(12);
    let left = (0..count).map(|cell| child(pointer(bytes, pointers, cell)?));
    let right = child(start.saturating_add(8));
    let children: Option<Vec<u32>> = left.chain([right]).collect();
    children.ok_or_else(|| outside(page))
}

/// Returns the offset of a cell.
fn pointer(bytes: &[u8], pointers: usize, cell: u16) -> Option<usize> {
    let at = pointers.checked_add(usize::from(cell).checked_mul(2)?)?;
    array(bytes, at).map(|field| usize::from(u16::from_be_bytes(field)))
}

fn outside(page: u32) -> Error {
    Error::corrupt(format!("invalid page {page}: a pointer leads out of it"))
}

impl Leaf {
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    pub(super) fn page(&self) -> u32 {
        self.page
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn cell(&self, number: u16) -> Result<Cell> {
        self.find(number).ok_or_else(|| outside(self.page))
    }

    fn find(&self, number: u16) -> Option<Cell> {
        let mut at = pointer(&self.bytes, self.pointers, number)?;
        let mut next = || {
            let (value, taken) = varint(self.bytes.get(at..)?)?;
            at = at.checked_add(taken)?;
            Some(value)
        };
        let payload_bytes = next()?;
        let row_id = next()?.cast_signed();
        let len = local_bytes(payload_bytes, self.bytes.len())?;
        part(&self.bytes, at, len)?;
        let end = at.checked_add(len)?;
        let overflow = if payload_bytes > len_u64(len) {
            u32::from_be_bytes(array(&self.bytes, end)?)
        } else {
            0
        };
        Some(Cell {
            row_id,
            payload_bytes,
            local: at..end,
            overflow,
        })
    }
}

/// Returns the number of a payload's bytes in the leaf itself (section 1.6, "Cell payload overflow
/// pages").
fn local_bytes(payload_bytes: u64, usable: usize) -> Option<usize> {
    let all = index(payload_bytes);
    if all <= usable.checked_sub(35)? {
        return Some(all);
    }
    let least = usable.checked_sub(12)?.checked_mul(32)?.checked_div(255)?;
    let least = least.checked_sub(23)?;
    let rest = all
        .checked_sub(least)?
        .checked_rem(usable.checked_sub(4)?)?;
    let wanted = least.checked_add(rest)?;
    let fits = wanted <= usable.checked_sub(35)?;
    Some(if fits { wanted } else { least })
}
