//! A disk of zeroes.

use crate::device::{check_bounds, len_of};
use crate::{BlockRead, Extent, ExtentKind, Result};

/// A device that is empty: all of it reads as zeroes, and nothing stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zeroes {
    size_bytes: u64,
}

impl Zeroes {
    /// Returns a device of this size.
    #[must_use]
    pub const fn new(size_bytes: u64) -> Self {
        Self { size_bytes }
    }
}

impl BlockRead for Zeroes {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes)?;
        buf.fill(0);
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        check_bounds(offset, 1, self.size_bytes)?;
        Ok(Extent {
            len_bytes: self.size_bytes.saturating_sub(offset),
            kind: ExtentKind::Zero,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_zeroes_up_to_its_end() {
        let zeroes = Zeroes::new(1000);
        let mut buf = [1; 10];
        zeroes.read_at(990, &mut buf).unwrap();
        assert_eq!(buf, [0; 10]);
        assert!(zeroes.read_at(991, &mut buf).is_err());
        assert_eq!(zeroes.extent_at(400).unwrap().len_bytes, 600);
    }
}
