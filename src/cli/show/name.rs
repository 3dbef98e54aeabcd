//! Output of names from an image, which may contain any bytes, to a terminal and in messages.

use std::borrow::Cow;

pub(crate) use diskfs::vfs::path::join;

/// The style in which names are written to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameStyle {
    /// Unchanged, for programs that read the output.
    Raw,
    /// With escapes such as `\n` or `\033` for nonprintable characters, so that a name cannot move
    /// the cursor or hide a line.
    Escaped,
    /// Quoted for a shell, as `ls` does on a terminal.
    Quoted,
}

impl NameStyle {
    /// Returns the name in this style.
    pub(crate) fn show(self, name: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Raw => Cow::Borrowed(name),
            Self::Escaped => escape(name),
            Self::Quoted => quote(name),
        }
    }
}

/// Returns true for a character to show as it is: a printable one that does not change the
/// direction of writing. Characters that `ls` and `git` do not escape have deceived readers before.
fn is_plain(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns && c != '\u{feff}'
}

fn is_plain_text(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|text| text.chars().all(is_plain))
}

/// Escapes nonprintable characters and the backslash.
pub(crate) fn escape(name: &[u8]) -> Cow<'_, [u8]> {
    if is_plain_text(name) && !name.contains(&b'\\') {
        return Cow::Borrowed(name);
    }
    let mut out = Vec::with_capacity(name.len() + 8);
    for part in name.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\\' => out.extend_from_slice(b"\\\\"),
                c if is_plain(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => c
                    .encode_utf8(&mut [0; 4])
                    .bytes()
                    .for_each(|byte| escape_byte(&mut out, byte)),
            }
        }
        part.invalid()
            .iter()
            .for_each(|byte| escape_byte(&mut out, *byte));
    }
    Cow::Owned(out)
}

fn escape_byte(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\r' => out.extend_from_slice(b"\\r"),
        byte => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
    }
}

/// Quotes a name for a shell if necessary.
fn quote(name: &[u8]) -> Cow<'_, [u8]> {
    let safe = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"@%+=:,./-_{}[]^~#".contains(&byte) || byte >= 0x80
    };
    if !name.is_empty() && is_plain_text(name) && name.iter().all(|byte| safe(*byte)) {
        return Cow::Borrowed(name);
    }
    if !is_plain_text(name) {
        let inner = escape(name);
        let inner = inner.iter().flat_map(|byte| match byte {
            b'\'' => b"\\'".to_vec(),
            byte => vec![*byte],
        });
        return Cow::Owned(b"$'".iter().copied().chain(inner).chain(*b"'").collect());
    }
    let inner = name.iter().flat_map(|byte| match byte {
        b'\'' => b"'\\''".to_vec(),
        byte => vec![*byte],
    });
    Cow::Owned(b"'".iter().copied().chain(inner).chain(*b"'").collect())
}

/// Makes a message that contains parts of an image safe to print: one line, without terminal
/// control characters.
pub(crate) fn message(text: &str) -> String {
    let shown = |c: char| {
        let plain = is_plain(c).then_some(c);
        let escaped = (!is_plain(c)).then(|| c.escape_default());
        plain.into_iter().chain(escaped.into_iter().flatten())
    };
    text.chars().flat_map(shown).collect()
}

/// Returns a path of the filesystem as text for messages.
pub(crate) fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(&escape(name)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(style: NameStyle, name: &[u8]) -> String {
        String::from_utf8(style.show(name).into_owned()).unwrap()
    }

    #[test]
    fn nothing_that_moves_the_cursor_gets_through() {
        let hostile = b"a\x1b[2Jb\nc\\\xff\xc2\x9b\xe2\x80\xae";
        let escaped = shown(NameStyle::Escaped, hostile);
        assert_eq!(escaped, r"a\033[2Jb\nc\\\377\302\233\342\200\256");
        let quoted = shown(NameStyle::Quoted, hostile);
        assert_eq!(quoted, r"$'a\033[2Jb\nc\\\377\302\233\342\200\256'");
        assert_eq!(NameStyle::Raw.show(hostile), Cow::Borrowed(&hostile[..]));
    }

    #[test]
    fn quotes_as_ls_does() {
        for (name, expected) in [
            ("plain-1.txt", "plain-1.txt"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("\u{e4}\u{f6}", "\u{e4}\u{f6}"),
            ("$x", "'$x'"),
            ("", "''"),
            ("it's\n", r"$'it\'s\n'"),
        ] {
            assert_eq!(shown(NameStyle::Quoted, name.as_bytes()), expected);
        }
    }

    #[test]
    fn messages_stay_on_their_line() {
        assert_eq!(message("a\\b: \u{1b}[2J\nx"), "a\\b: \\u{1b}[2J\\nx");
    }
}
