//! The header `Range` (RFC 9110, section 14.2).

use std::ops::Range;

/// The largest number of ranges of one request.
const MAX_RANGES: usize = 32;

/// The parts of a file that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requested {
    /// The whole file, also for a header that is not valid: it must be ignored.
    Whole,
    /// The ranges of a list, in its order; at least one.
    Parts(Vec<Range<u64>>),
    /// No byte of the file.
    Nothing,
}

impl Requested {
    /// Parses the value of the header, for a file of this size.
    pub(crate) fn parse(value: &str, size_bytes: u64) -> Self {
        let Some((unit, list)) = value.split_once('=') else {
            return Self::Whole;
        };
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return Self::Whole;
        }
        let mut parts = Vec::new();
        for text in list.split(',').map(str::trim) {
            match parse_one(text, size_bytes) {
                None => return Self::Whole,
                Some(range) if range.is_empty() => {}
                Some(range) => parts.push(range),
            }
            if parts.len() > MAX_RANGES {
                return Self::Nothing;
            }
        }
        let asked = parts
            .iter()
            .map(|part| part.end.saturating_sub(part.start))
            .fold(0_u64, u64::saturating_add);
        match parts.is_empty() {
            true => Self::Nothing,
            // Overlapping ranges would make an answer longer than the file.
            false if parts.len() > 1 && asked > size_bytes => Self::Whole,
            false => Self::Parts(parts),
        }
    }
}

/// Parses `FIRST-LAST`, `FIRST-` or `-COUNT`. Returns an empty range if the file has no such bytes.
pub(crate) fn parse_one(text: &str, size_bytes: u64) -> Option<Range<u64>> {
    let (first, last) = text.split_once('-')?;
    if first.is_empty() {
        let count = number(last)?;
        return Some(size_bytes.saturating_sub(count)..size_bytes);
    }
    let first = number(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        number(last)?
    };
    if last < first {
        return None;
    }
    let end = last.saturating_add(1).min(size_bytes);
    Some(first.min(end)..end)
}

/// Parses digits alone: no sign.
fn number(text: &str) -> Option<u64> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits {
        return None;
    }
    // Larger than any file.
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_those_of_the_specification() {
        use Requested::{Nothing, Whole};
        let parts = |list: &[(u64, u64)]| {
            Requested::Parts(list.iter().map(|(start, end)| *start..*end).collect())
        };
        for (value, expected) in [
            ("bytes=0-499", parts(&[(0, 500)])),
            ("Bytes = 9999-", parts(&[(9999, 10_000)])),
            ("bytes=-500", parts(&[(9500, 10_000)])),
            ("bytes=-99999", parts(&[(0, 10_000)])),
            ("bytes=0-0,-1", parts(&[(0, 1), (9999, 10_000)])),
            ("bytes=500-600, 601-999", parts(&[(500, 601), (601, 1000)])),
            ("bytes=9000-99999999999999999999", parts(&[(9000, 10_000)])),
            ("bytes=10000-", Nothing),
            ("bytes=-0", Nothing),
            ("bytes=10000-,5-6", parts(&[(5, 7)])),
            ("bytes=0-,0-", Whole),
            ("bytes=5-4", Whole),
            ("bytes=", Whole),
            ("bytes=a-b", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=1", Whole),
            ("lines=1-2", Whole),
            ("bytes", Whole),
        ] {
            assert_eq!(Requested::parse(value, 10_000), expected, "{value}");
        }
        let many = format!("bytes={}", "0-0,".repeat(40) + "0-0");
        assert_eq!(Requested::parse(&many, 10_000), Nothing);
        assert_eq!(Requested::parse("bytes=0-", 0), Nothing);
    }

    proptest! {
        #[test]
        fn ranges_are_within_the_file(value in "(bytes=)?[0-9, =-]{0,40}", size in 0..1000_u64) {
            if let Requested::Parts(parts) = Requested::parse(&value, size) {
                assert!(!parts.is_empty());
                assert!(parts.iter().all(|part| part.start < part.end && part.end <= size));
            }
        }
    }
}
