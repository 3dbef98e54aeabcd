//! `authorized_keys` in the format of sshd(8): options, the algorithm, the key in base64 (RFC 4253,
//! section 6.6) and a comment. `.pub` files have the same lines without options.

use base64ct::{Base64, Encoding};

use crate::text::{Edit, lines, rewrite, with_line};

/// A file of SSH public keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizedKeys {
    text: String,
}

/// A key on its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key<'a> {
    /// The options, as `no-pty,command="..."`.
    pub options: Option<&'a str>,
    /// The algorithm, as `ssh-ed25519`.
    pub algorithm: &'a str,
    /// The key itself.
    pub blob: Vec<u8>,
    /// The comment, which may be empty.
    pub comment: &'a str,
}

impl<'a> Key<'a> {
    /// Parses a line. Returns `None` for a line that sshd skips: a comment, or a line without a
    /// complete key.
    pub fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim_matches(is_blank);
        if line.starts_with('#') {
            return None;
        }
        Self::without_options(line).or_else(|| {
            let (options, rest) = line.split_at_checked(end_of_options(line)?)?;
            let key = Self::without_options(rest.trim_start_matches(is_blank))?;
            Some(Self {
                options: Some(options),
                ..key
            })
        })
    }

    /// Parses a line that begins with an algorithm, as in a `.pub` file.
    pub fn without_options(line: &'a str) -> Option<Self> {
        let (algorithm, rest) = line.split_once(is_blank)?;
        let rest = rest.trim_start_matches(is_blank);
        let (encoded, comment) = rest.split_once(is_blank).unwrap_or((rest, ""));
        let blob = Base64::decode_vec(encoded).ok()?;
        is_well_formed(&blob, algorithm).then(|| Self {
            options: None,
            algorithm,
            blob,
            comment: comment.trim_matches(is_blank),
        })
    }

    /// Returns the fields of the key after the algorithm: integers and curve points, depending on
    /// the algorithm.
    pub fn fields(&self) -> impl Iterator<Item = &[u8]> {
        strings(&self.blob).map_while(Result::ok).skip(1)
    }
}

impl AuthorizedKeys {
    /// Creates the file from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the keys with their line numbers, counted from 1.
    pub fn keys(&self) -> impl Iterator<Item = (usize, Key<'_>)> {
        lines(&self.text).filter_map(|line| Some((line.number, Key::parse(line.body)?)))
    }

    /// Removes the lines of the keys for which `is_gone` returns true.
    pub fn remove(&mut self, is_gone: impl Fn(&Key<'_>) -> bool) {
        self.text = rewrite(&self.text, |line| match Key::parse(line.body) {
            Some(key) if is_gone(&key) => Edit::Remove,
            _ => Edit::Keep,
        });
    }

    /// Adds a line at the end.
    pub fn add(&mut self, line: &str) {
        self.text = with_line(std::mem::take(&mut self.text), line);
    }
}

/// Returns the end of the options: the first blank outside of quotes. A backslash only has a
/// meaning before a quote, whatever precedes it (`sshkey_advance_past_options` of OpenSSH).
fn end_of_options(line: &str) -> Option<usize> {
    let mut is_quoted = false;
    let mut before = ' ';
    for (at, char) in line.char_indices() {
        match char {
            '"' if before != '\\' => is_quoted = !is_quoted,
            _ if is_blank(char) && !is_quoted => return Some(at),
            _ => {}
        }
        before = char;
    }
    None
}

/// Returns true if a key consists only of strings (RFC 4251, section 5), of which the first one is
/// the algorithm.
fn is_well_formed(blob: &[u8], algorithm: &str) -> bool {
    let is_first = |(index, string): (usize, Result<&[u8], ()>)| {
        string.is_ok_and(|string| index > 0 || string == algorithm.as_bytes())
    };
    strings(blob).enumerate().all(is_first) && strings(blob).count() >= 2
}

/// Returns the strings of a key. If the bytes end too early, the last item is an error.
fn strings(blob: &[u8]) -> impl Iterator<Item = Result<&[u8], ()>> {
    let mut rest = blob;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let string = string(rest);
        rest = string.map_or(&[], |(_, rest)| rest);
        Some(string.map(|(string, _)| string).ok_or(()))
    })
}

fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    rest.split_at_checked(len)
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHw5jFmJ8u0oD5nB6wQ1zvO7pV0cY8aJ1mWq2xT3rKfL";

    #[test]
    fn keys_are_found_behind_options() {
        let key = Key::parse(KEY).unwrap();
        assert_eq!(key.fields().map(<[u8]>::len).collect::<Vec<_>>(), [32]);
        for options in [
            "no-pty",
            "command=\"echo \\\"a b\\\"\",no-pty",
            "from=\"10.0.0.0/8 ssh-rsa AAAA\"",
            "command=\"a\\\\\" b\"",
        ] {
            let line = format!(" \t{options}  {KEY}\tann@x y ");
            let found = Key::parse(&line).unwrap();
            assert_eq!((found.options, &found.blob), (Some(options), &key.blob));
            assert_eq!((found.algorithm, found.comment), ("ssh-ed25519", "ann@x y"));
        }
        let no_keys = [
            &*format!("# {KEY}"),
            &KEY.replace("ssh-ed25519", "ssh-rsa"),
            &KEY[..60],
            &KEY.replace(' ', ""),
            &format!("command=\"open {KEY}"),
            "",
            "ssh-rsa",
            "ssh-rsa AAAA",
            "ssh-rsa !!!!",
        ];
        for line in no_keys {
            assert_eq!(Key::parse(line), None, "{line}");
        }
    }

    #[test]
    fn other_lines_stay() {
        let text = format!("# {KEY}\r\n\nno-pty {KEY} old\r\nwhat is this");
        let mut keys = AuthorizedKeys::new(text);
        assert_eq!(keys.keys().map(|(line, _)| line).collect::<Vec<_>>(), [3]);
        keys.remove(|key| key.comment == "old");
        keys.add(KEY);
        let expected = format!("# {KEY}\r\n\nwhat is this\n{KEY}\n");
        assert_eq!(keys.text(), expected);
    }

    proptest! {
        #[test]
        fn any_text(text: String, tail in "[A-Za-z0-9+/=]{0,80}") {
            let mut keys = AuthorizedKeys::new(format!("{text}\nssh-rsa {tail}"));
            let before = keys.clone();
            keys.remove(|_| false);
            prop_assert_eq!(keys, before);
        }
    }
}
