//! Lossless conversion between bytes and text, and lines of a text.
//!
//! Files of old guests may contain names in Latin-1, and an edit of one line must preserve all
//! others exactly. Therefore a byte that is not valid UTF-8 becomes a character at the end of the
//! last private-use plane, which no real text uses. If a text does contain such a character, the
//! bytes of its UTF-8 form are converted in the same way.

/// The offset of the stand-in characters. The first one is this plus 0x80, the first byte that is
/// not ASCII.
const FIRST: u32 = 0x0010_ff00;

/// Converts bytes to text, from which [`encode`] restores the same bytes.
pub fn decode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for (real, odd) in parts(chunk.valid()) {
            text.push_str(real);
            if let Some(odd) = odd {
                push_bytes(&mut text, odd.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        push_bytes(&mut text, chunk.invalid());
    }
    text
}

/// Converts a text back to bytes.
pub fn encode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for (real, stand_in) in parts(text) {
        bytes.extend_from_slice(real.as_bytes());
        let byte = |char| u8::try_from(u32::from(char).wrapping_sub(FIRST)).ok();
        bytes.extend(stand_in.and_then(byte));
    }
    bytes
}

/// Splits a text after each stand-in character.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<char>)> {
    text.split_inclusive(is_stand_in).map(|part| {
        let mut chars = part.chars();
        match chars.next_back().filter(|last| is_stand_in(*last)) {
            Some(last) => (chars.as_str(), Some(last)),
            None => (part, None),
        }
    })
}

fn is_stand_in(char: char) -> bool {
    (FIRST | 0x80..=FIRST | 0xff).contains(&u32::from(char))
}

/// Adds stand-in characters for bytes, none of which is ASCII.
fn push_bytes(text: &mut String, bytes: &[u8]) {
    let codes = bytes.iter().map(|byte| FIRST | u32::from(*byte));
    text.extend(codes.filter_map(char::from_u32));
}

/// Returns the text with one more line at the end, whether or not its last line ended with a
/// newline.
pub fn with_line(mut text: String, line: &str) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
    text
}

/// A line of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The line number, counted from 1.
    pub(crate) number: usize,
    /// The line without its end.
    pub(crate) body: &'a str,
    /// The line end: `\n` or `\r\n`; the last line may have none.
    pub(crate) end: &'a str,
}

/// Returns the lines of a text.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let lines = (1..).zip(text.split_inclusive('\n'));
    lines.map(|(number, line)| {
        let body = line.strip_suffix('\n').unwrap_or(line);
        let body = body.strip_suffix('\r').unwrap_or(body);
        let (body, end) = line.split_at_checked(body.len()).unwrap_or((line, ""));
        Line { number, body, end }
    })
}

/// The change of a line.
#[derive(Debug)]
pub(crate) enum Edit {
    Keep,
    Remove,
    /// Replaces the body of the line.
    Replace(String),
}

/// Returns the text with its lines edited.
pub(crate) fn rewrite(text: &str, mut edit: impl FnMut(Line<'_>) -> Edit) -> String {
    let mut out = String::with_capacity(text.len());
    for line in lines(text) {
        match edit(line) {
            Edit::Keep => out.extend([line.body, line.end]),
            Edit::Remove => {}
            Edit::Replace(body) => out.extend([&*body, line.end]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates bytes around the stand-in characters, whose UTF-8 is `f4 8f be 80` to
    /// `f4 8f bf bf`.
    fn odd_bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop::sample::select(&b"\xf4\x8f\xbe\xbf\x80\xe4a\n\r"[..]);
        prop::collection::vec(byte, 0..24)
    }

    proptest! {
        #[test]
        fn nothing_is_lost(bytes: Vec<u8>, odd in odd_bytes()) {
            for bytes in [bytes, odd] {
                let text = decode(&bytes);
                prop_assert_eq!(encode(&text), &bytes[..]);
                prop_assert_eq!(rewrite(&text, |_| Edit::Keep), text);
            }
        }
    }

    #[test]
    fn what_is_text_stays_it() {
        assert_eq!(decode("Jörg".as_bytes()), "Jörg");
        let latin = b"J\xf6rg:x";
        let text = decode(latin);
        assert!(text.ends_with("rg:x"));
        assert_eq!(encode(&text), latin);
        let stand_in = "\u{10fff6}";
        assert_eq!(encode(&decode(stand_in.as_bytes())), stand_in.as_bytes());
    }

    #[test]
    fn lines_have_ends() {
        let bodies: Vec<_> = lines("a\r\n\nb\rc\r")
            .map(|line| (line.body, line.end))
            .collect();
        assert_eq!(bodies, [("a", "\r\n"), ("", "\n"), ("b\rc", "\r")]);
    }

    #[test]
    fn a_line_more() {
        assert_eq!(with_line("a".to_owned(), "b"), "a\nb\n");
        assert_eq!(with_line(String::new(), "b"), "b\n");
    }
}
