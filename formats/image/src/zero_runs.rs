//! Runs of zeroes in a buffer.

use diskfs_block::bytes::is_zero;

/// Consecutive units of a buffer that are all zero, or all not.
pub(crate) struct Run<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) is_zero: bool,
}

/// Divides a buffer into runs of units.
pub(crate) fn runs(buffer: &[u8], unit: usize) -> impl Iterator<Item = Run<'_>> {
    let mut rest = buffer;
    std::iter::from_fn(move || {
        let mut units = rest.chunks(unit.max(1));
        let first = units.next()?;
        let is_zero_run = is_zero(first);
        let same = units.take_while(|unit| is_zero(unit) == is_zero_run);
        let len = same.fold(first.len(), |len, unit| len.saturating_add(unit.len()));
        let (bytes, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(Run {
            bytes,
            is_zero: is_zero_run,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_maximal_and_cover_the_buffer() {
        let mut buffer = vec![0; 10_000];
        buffer[5000] = 1;
        buffer[9999] = 1;
        let runs: Vec<_> = runs(&buffer, 1000)
            .map(|run| (run.bytes.len(), run.is_zero))
            .collect();
        let expected = [(5000, true), (1000, false), (3000, true), (1000, false)];
        assert_eq!(runs, expected);
    }
}
