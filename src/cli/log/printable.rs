//! Conversion of values to printable text.

use crate::cli::show::name::message;

/// Returns true for text that journalctl writes unchanged: UTF-8 without control characters except
/// tabs.
pub(super) fn is_printable(value: &[u8]) -> bool {
    let is_plain = |c: char| c == '\t' || !c.is_control();
    std::str::from_utf8(value).is_ok_and(|text| text.chars().all(is_plain))
}

/// Returns true for such a text of several lines.
pub(super) fn is_printable_text(value: &[u8]) -> bool {
    value.split(|byte| *byte == b'\n').all(is_printable)
}

/// Converts a value to one line without terminal control characters.
pub(super) fn one_line(value: &[u8]) -> String {
    message(&String::from_utf8_lossy(value))
}

/// Splits a value into lines without terminal control characters. A tab becomes eight spaces, as in
/// journalctl.
pub(super) fn lines(value: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(value).replace('\t', "        ");
    let text = text.trim_end_matches(['\n', '\r']);
    text.split('\n')
        .map(|line| message(line.trim_end_matches('\r')))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_controls_the_terminal() {
        assert_eq!(
            lines(b"a\tb\n\x1b[2Jc\r\n\xff\n"),
            ["a        b", "\\u{1b}[2Jc", "\u{fffd}"]
        );
        assert_eq!(one_line(b"a\nb"), "a\\nb");
        assert!(
            is_printable("\u{e4}\t".as_bytes()) && !is_printable(b"a\nb") && !is_printable(b"\xff")
        );
        assert!(is_printable_text(b"a\nb") && !is_printable_text(b"a\x1b\nb"));
    }
}
