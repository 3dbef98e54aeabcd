//! The header `Content-Range` (RFC 9110, section 14.4).

/// The range of an answer, and the size of the whole object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentRange {
    /// The first byte and the last one; `None` if the server has no such range.
    pub(super) bytes: Option<(u64, u64)>,
    /// The size of the object; `None` if the server doesn't know it.
    pub(super) total_bytes: Option<u64>,
}

impl ContentRange {
    /// Parses `bytes 0-99/1234`, `bytes 0-99/*` or `bytes */1234`.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (unit, rest) = value.split_once(' ')?;
        let (range, total) = rest.split_once('/')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let bytes = if range == "*" {
            None
        } else {
            let (first, last) = range.split_once('-')?;
            Some((number(first)?, number(last)?))
        };
        let total_bytes = if total == "*" {
            None
        } else {
            Some(number(total)?)
        };
        let is_valid = match (bytes, total_bytes) {
            (Some((first, last)), Some(total)) => first <= last && last < total,
            (Some((first, last)), None) => first <= last,
            (None, total) => total.is_some(),
        };
        is_valid.then_some(Self { bytes, total_bytes })
    }
}

/// Parses digits alone: no sign.
fn number(text: &str) -> Option<u64> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_ranges_are_taken() {
        let of = |bytes, total_bytes| Some(ContentRange { bytes, total_bytes });
        for (text, expected) in [
            ("bytes 0-99/1234", of(Some((0, 99)), Some(1234))),
            ("Bytes 5-5/*", of(Some((5, 5)), None)),
            ("bytes */0", of(None, Some(0))),
            ("bytes */*", None),
            ("bytes 9-5/100", None),
            ("bytes 0-100/100", None),
            ("bytes +1-2/100", None),
            ("bytes 0-18446744073709551616/*", None),
            ("items 0-1/2", None),
            ("bytes", None),
        ] {
            assert_eq!(ContentRange::parse(text), expected, "{text}");
        }
    }
}
