//! A chain of entry arrays: that of the whole file, or that of a field value.

use diskfs_block::{Error, Result};

use crate::entry_array::EntryArray;
use crate::reader::Reader;

/// The maximum number of arrays in a chain. Each array is twice as large as the previous one, so
/// thirty have room for a billion entries.
const MAX_ARRAYS: usize = 256;

/// The valid part of a chain of entry arrays.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The arrays, each with the number of items before it.
    arrays: Vec<(u64, EntryArray)>,
    /// The number of items in use.
    pub(crate) count: u64,
    /// The error that ended the chain early.
    pub(crate) problem: Option<Error>,
}

impl Chain {
    /// Reads the chain whose first array is at `offset`, with up to `count` items.
    pub(crate) fn read(reader: &Reader, offset: u64, count: u64) -> Self {
        let mut chain = Self {
            arrays: Vec::new(),
            count: 0,
            problem: None,
        };
        chain.problem = chain.follow(reader, offset, count).err();
        if let Err(error) = chain.trim(reader) {
            chain.problem.get_or_insert(error);
        }
        chain
    }

    /// Follows the chain. Files only grow, so each array must be after the previous one, which
    /// rules out loops.
    fn follow(&mut self, reader: &Reader, offset: u64, count: u64) -> Result<()> {
        let mut at = offset;
        let mut end = 0;
        while at != 0 && self.count < count {
            if at < end {
                return Err(Error::corrupt(
                    "invalid chain of entry arrays: it leads to an earlier array",
                )
                .at(at));
            }
            if self.arrays.len() >= MAX_ARRAYS {
                let reason = format!("invalid chain of entry arrays: more than {MAX_ARRAYS}");
                return Err(Error::corrupt(reason).at(at));
            }
            let array = EntryArray::read(reader, at)?;
            self.arrays.push((self.count, array));
            self.count = self.count.saturating_add(array.capacity).min(count);
            (at, end) = (array.next, array.end);
        }
        Ok(())
    }

    /// Drops unused items at the end. The count of a file that was not closed may include entries
    /// that were never written; those have offset zero.
    fn trim(&mut self, reader: &Reader) -> Result<()> {
        let Some(last) = self.count.checked_sub(1) else {
            return Ok(());
        };
        if self.item(reader, last)? != 0 {
            return Ok(());
        }
        let (mut used, mut unused) = (0, last);
        while used < unused {
            let middle = used.midpoint(unused);
            if self.item(reader, middle)? == 0 {
                unused = middle;
            } else {
                used = middle.saturating_add(1);
            }
        }
        self.count = used;
        Ok(())
    }

    /// Returns item `number`; 0 if there is none.
    pub(crate) fn item(&self, reader: &Reader, number: u64) -> Result<u64> {
        let behind = self.arrays.partition_point(|(first, _)| *first <= number);
        let array = behind.checked_sub(1).and_then(|at| self.arrays.get(at));
        let Some((first, array)) = array else {
            return Ok(0);
        };
        array.item(reader, number.saturating_sub(*first))
    }
}
