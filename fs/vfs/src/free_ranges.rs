//! The free space of a filesystem, as ranges of its device.

use std::iter::Peekable;
use std::ops::Range;

use crate::Result;

/// Ranges in bytes of a filesystem's device, in ascending order; the iterator ends after the first
/// error.
pub type FreeRanges<'a> = Box<dyn Iterator<Item = Result<Range<u64>>> + Send + 'a>;

/// Joins ranges that directly follow each other.
pub fn join_ranges<'a>(
    ranges: impl Iterator<Item = Result<Range<u64>>> + Send + 'a,
) -> FreeRanges<'a> {
    Box::new(Joined {
        ranges: ranges.peekable(),
    })
}

struct Joined<I: Iterator> {
    ranges: Peekable<I>,
}

impl<I: Iterator<Item = Result<Range<u64>>>> Iterator for Joined<I> {
    type Item = Result<Range<u64>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut joined = match self.ranges.next()? {
            Ok(range) => range,
            error => return Some(error),
        };
        let follows = |end: u64| {
            move |next: &Result<Range<u64>>| next.as_ref().is_ok_and(|next| next.start == end)
        };
        while let Some(Ok(next)) = self.ranges.next_if(follows(joined.end)) {
            joined.end = next.end;
        }
        Some(Ok(joined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, ErrorKind};

    #[test]
    fn adjacent_ranges_are_joined_up_to_an_error() {
        let error = || Err(Error::new(ErrorKind::Io, "failed"));
        let ranges = [Ok(0..4), Ok(4..5), Ok(6..7), error()];
        let joined: Vec<_> = join_ranges(ranges.into_iter()).collect();
        assert_eq!(joined.len(), 3);
        assert_eq!(joined[0].as_ref().unwrap(), &(0..5));
        assert_eq!(joined[1].as_ref().unwrap(), &(6..7));
        assert!(joined[2].is_err());
    }
}
