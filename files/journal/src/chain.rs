//! A chain of entry arrays: all of a file's, or those of a value.

use diskfs_block::{Error, Result};

use crate::entry_array::EntryArray;
use crate::reader::Reader;

/// No chain has more arrays: each is twice as large as the one before it, so that thirty hold a billion entries.
const MAX_ARRAYS: usize = 256;

/// The arrays of a chain, as far as it goes.
#[derive(Debug)]
pub(crate) struct Chain {
    /// With the number of items before each.
    arrays: Vec<(u64, EntryArray)>,
    /// How many items are in use.
    pub(crate) count: u64,
    /// What broke it.
    pub(crate) problem: Option<Error>,
}

impl Chain {
    /// The chain whose first array is at `offset`, with as many items as `count` says, if there are as many.
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

    /// Each array lies behind the one before it, for files only grow: so there is no way back.
    fn follow(&mut self, reader: &Reader, offset: u64, count: u64) -> Result<()> {
        let mut at = offset;
        let mut end = 0;
        while at != 0 && self.count < count {
            if at < end {
                return Err(Error::corrupt("a chain of entry arrays that goes back").at(at));
            }
            if self.arrays.len() >= MAX_ARRAYS {
                let reason = format!("a chain of more than {MAX_ARRAYS} entry arrays");
                return Err(Error::corrupt(reason).at(at));
            }
            let array = EntryArray::read(reader, at)?;
            self.arrays.push((self.count, array));
            self.count = self.count.saturating_add(array.capacity).min(count);
            (at, end) = (array.next, array.end);
        }
        Ok(())
    }

    /// A file that was not closed may count entries that did not get there: items are in use up to the first zero.
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

    /// The item of that number.
    pub(crate) fn item(&self, reader: &Reader, number: u64) -> Result<u64> {
        let behind = self.arrays.partition_point(|(first, _)| *first <= number);
        let array = behind.checked_sub(1).and_then(|at| self.arrays.get(at));
        let Some((first, array)) = array else {
            return Ok(0);
        };
        array.item(reader, number.saturating_sub(*first))
    }
}
