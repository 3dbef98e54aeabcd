//! A guest's settings as text that loses nothing: bytes that are no UTF-8 stand as characters of a private plane.
//!
//! Files of old guests have names in Latin-1 in them. Whoever edits a line must give back the others as they were.

use std::fmt::Write;

/// Where the 128 bytes from 0x80 on stand: at the end of the last private plane, which nobody uses.
const FIRST: u32 = 0x0010_ff00;

/// The text of bytes; `None` when it could not be told from one that had such bytes.
pub(super) fn decode(bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        if chunk.valid().chars().any(is_stand_in) {
            return None;
        }
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push(char::from_u32(FIRST.saturating_add((*byte).into()))?);
        }
    }
    Some(text)
}

/// The bytes of a text.
pub(super) fn encode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for char in text.chars() {
        match u8::try_from(u32::from(char).wrapping_sub(FIRST)) {
            Ok(byte) if is_stand_in(char) => bytes.push(byte),
            _ => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

fn is_stand_in(char: char) -> bool {
    (FIRST | 0x80..=FIRST | 0xff).contains(&u32::from(char))
}

/// What begins a file that a step has made.
pub(super) const WRITTEN: &str = "# Written by diskfs deploy.";

/// `lines` as a text, each ended.
pub(super) fn of_lines<T: std::fmt::Display>(lines: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    for line in lines {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The text with one more line at its end, whether or not its last line was ended.
pub(super) fn with_line(mut text: String, line: &str) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
    text
}

/// Whether a line sets a variable, as shells and systemd's settings do.
pub(super) fn has_variable(text: &str, key: &str) -> bool {
    text.lines().any(|line| sets(line, key))
}

fn sets(line: &str, key: &str) -> bool {
    let rest = line.trim_start().strip_prefix(key);
    rest.is_some_and(|rest| rest.starts_with('='))
}

/// The text with the variable set: in its last line that does, which is the one that counts, or in a new one.
pub(super) fn with_variable(text: &str, key: &str, value: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(at) = lines.iter().rposition(|line| sets(line, key)) else {
        return with_line(text.to_owned(), &format!("{key}={value}"));
    };
    let set = |(index, line): (usize, &&str)| {
        if index == at {
            let end = if line.ends_with('\n') { "\n" } else { "" };
            format!("{key}={value}{end}")
        } else {
            (*line).to_owned()
        }
    };
    lines.iter().enumerate().map(set).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_is_lost(bytes: Vec<u8>) {
            if let Some(text) = decode(&bytes) {
                prop_assert_eq!(encode(&text), bytes);
            }
        }
    }

    #[test]
    fn what_is_text_stays_it() {
        assert_eq!(decode("Jörg".as_bytes()).unwrap(), "Jörg");
        let latin = b"J\xf6rg:x";
        let text = decode(latin).unwrap();
        assert!(text.ends_with("rg:x"));
        assert_eq!(encode(&text), latin);
        assert_eq!(decode("\u{10fff6}".as_bytes()), None);
    }

    #[test]
    fn a_line_more() {
        assert_eq!(with_line("a".to_owned(), "b"), "a\nb\n");
        assert_eq!(with_line(String::new(), "b"), "b\n");
    }
}
