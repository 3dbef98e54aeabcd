//! Shell patterns, as in `find -name`.

mod expand;

use crate::{Error, ErrorKind, Result};
pub use expand::{expand, is_pattern};

/// The length limit of a pattern in bytes, the same as that of a path. It bounds the work of one
/// match.
const PATTERN_MAX_BYTES: usize = crate::path::PATH_MAX_BYTES;

/// The treatment of upper and lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Letters of different case differ.
    Sensitive,
    /// ASCII letters of different case are equal.
    Insensitive,
}

/// A shell pattern (glob(7)): `*`, `?`, `[a-z]`, `[!a-z]`, `[[:digit:]]`, and `\` before a literal
/// character.
///
/// A pattern matches a whole name, with the defaults of fnmatch(3): `*` and `?` also match a slash
/// and a leading dot. `?` and brackets match one UTF-8 character, or one byte of invalid UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    tokens: Vec<Token>,
    case: Case,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(u32),
    AnyChar,
    AnyString,
    Set { ranges: Vec<Range>, negated: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Range {
    Chars(u32, u32),
    Class(Class),
}

/// The POSIX character classes, for ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Alnum,
    Alpha,
    Blank,
    Cntrl,
    Digit,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
    Xdigit,
}

impl Pattern {
    /// Parses a pattern. A `[` without its `]` is literal.
    ///
    /// # Errors
    /// `Invalid` for a pattern that is too long.
    pub fn new(pattern: impl AsRef<[u8]>, case: Case) -> Result<Self> {
        let mut rest = pattern.as_ref();
        if rest.len() > PATTERN_MAX_BYTES {
            let reason = format!("the pattern is too long, at most {PATTERN_MAX_BYTES} bytes");
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let mut tokens = Vec::new();
        while let Some((token, after)) = Token::parse(rest) {
            let repeated = token == Token::AnyString && tokens.last() == Some(&token);
            if !repeated {
                tokens.push(token);
            }
            rest = after;
        }
        Ok(Self { tokens, case })
    }

    /// Returns true if the pattern matches the whole of `name`.
    pub fn matches(&self, name: impl AsRef<[u8]>) -> bool {
        let mut name = name.as_ref();
        let mut tokens = self.tokens.as_slice();
        // The state to retry from if the tokens after the last `*` don't match here.
        let mut retry: Option<(&[Token], &[u8])> = None;
        loop {
            match tokens.split_first() {
                Some((Token::AnyString, after)) => {
                    retry = Some((after, name));
                    tokens = after;
                    continue;
                }
                Some((token, after)) => {
                    if let Some((char, rest)) = next_char(name)
                        && token.matches(char, self.case)
                    {
                        (tokens, name) = (after, rest);
                        continue;
                    }
                }
                None if name.is_empty() => return true,
                None => {}
            }
            let Some((after_star, from)) = retry else {
                return false;
            };
            let Some((_, rest)) = next_char(from) else {
                return false;
            };
            retry = Some((after_star, rest));
            (tokens, name) = (after_star, rest);
        }
    }
}

/// The base above all of Unicode to which bytes of invalid UTF-8 are mapped.
const RAW_BYTE: u32 = 0x0011_0000;

/// Returns the first character, and the bytes after it.
fn next_char(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((u32::from(first), rest));
    }
    for len in 2..=4 {
        if let Some((head, tail)) = bytes.split_at_checked(len)
            && let Ok(text) = std::str::from_utf8(head)
            && let Some(char) = text.chars().next()
        {
            return Some((u32::from(char), tail));
        }
    }
    Some((RAW_BYTE | u32::from(first), rest))
}

impl Token {
    fn parse(pattern: &[u8]) -> Option<(Self, &[u8])> {
        let (char, rest) = next_char(pattern)?;
        let token = match u8::try_from(char) {
            Ok(b'*') => Self::AnyString,
            Ok(b'?') => Self::AnyChar,
            Ok(b'\\') => {
                // A backslash at the end is literal.
                let (char, rest) = next_char(rest).unwrap_or((char, rest));
                return Some((Self::Char(char), rest));
            }
            Ok(b'[') => {
                return Some(parse_set(rest).unwrap_or((Self::Char(char), rest)));
            }
            _ => Self::Char(char),
        };
        Some((token, rest))
    }

    fn matches(&self, char: u32, case: Case) -> bool {
        let holds = |char| match self {
            Self::Char(wanted) => *wanted == char,
            Self::AnyChar => true,
            Self::AnyString => false,
            Self::Set { ranges, negated } => {
                ranges.iter().any(|range| range.contains(char)) != *negated
            }
        };
        if case == Case::Sensitive {
            return holds(char);
        }
        let (lower, upper) = both_cases(char);
        match self {
            Self::Set { negated: true, .. } => holds(lower) && holds(upper),
            _ => holds(lower) || holds(upper),
        }
    }
}

fn both_cases(char: u32) -> (u32, u32) {
    u8::try_from(char).map_or((char, char), |byte| {
        (
            u32::from(byte.to_ascii_lowercase()),
            u32::from(byte.to_ascii_uppercase()),
        )
    })
}

/// Parses the characters after a `[`; `None` without a closing bracket.
fn parse_set(after_bracket: &[u8]) -> Option<(Token, &[u8])> {
    let mut rest = after_bracket;
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    if negated {
        rest = rest.get(1..)?;
    }
    let mut ranges = Vec::new();
    loop {
        // A `]` in the first place is an ordinary member.
        if let Some(after) = rest.strip_prefix(b"]")
            && !ranges.is_empty()
        {
            return Some((Token::Set { ranges, negated }, after));
        }
        let (range, after) = Range::parse(rest)?;
        ranges.push(range);
        rest = after;
    }
}

impl Range {
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        if let Some((class, rest)) = Class::parse(bytes) {
            return Some((Self::Class(class), rest));
        }
        let (first, rest) = set_char(bytes)?;
        if let Some(after_dash) = rest.strip_prefix(b"-")
            && !after_dash.starts_with(b"]")
            && let Some((last, rest)) = set_char(after_dash)
        {
            return Some((Self::Chars(first, last), rest));
        }
        Some((Self::Chars(first, first), rest))
    }

    fn contains(&self, char: u32) -> bool {
        match self {
            Self::Chars(first, last) => (*first..=*last).contains(&char),
            Self::Class(class) => u8::try_from(char).is_ok_and(|byte| class.contains(byte)),
        }
    }
}

/// Parses a member of a set, possibly after a backslash.
fn set_char(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let escaped = bytes.strip_prefix(b"\\").filter(|rest| !rest.is_empty());
    next_char(escaped.unwrap_or(bytes))
}

impl Class {
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let inner = bytes.strip_prefix(b"[:")?;
        let end = inner.windows(2).position(|pair| pair == b":]")?;
        let (name, rest) = inner.split_at_checked(end)?;
        let class = match name {
            b"alnum" => Self::Alnum,
            b"alpha" => Self::Alpha,
            b"blank" => Self::Blank,
            b"cntrl" => Self::Cntrl,
            b"digit" => Self::Digit,
            b"graph" => Self::Graph,
            b"lower" => Self::Lower,
            b"print" => Self::Print,
            b"punct" => Self::Punct,
            b"space" => Self::Space,
            b"upper" => Self::Upper,
            b"xdigit" => Self::Xdigit,
            _ => return None,
        };
        Some((class, rest.get(2..)?))
    }

    fn contains(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Alpha => byte.is_ascii_alphabetic(),
            Self::Blank => byte == b' ' || byte == b'\t',
            Self::Cntrl => byte.is_ascii_control(),
            Self::Digit => byte.is_ascii_digit(),
            Self::Graph => byte.is_ascii_graphic(),
            Self::Lower => byte.is_ascii_lowercase(),
            Self::Print => byte.is_ascii_graphic() || byte == b' ',
            Self::Punct => byte.is_ascii_punctuation(),
            // isspace(3) includes the vertical tab, Rust does not.
            Self::Space => byte.is_ascii_whitespace() || byte == 0x0b,
            Self::Upper => byte.is_ascii_uppercase(),
            Self::Xdigit => byte.is_ascii_hexdigit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern, Case::Sensitive)
            .unwrap()
            .matches(name)
    }

    #[test]
    fn matches_as_fnmatch_does() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("abc", &["abc"], &["ab", "abcd", ""]),
            ("*", &["", "a", ".x", "a/b"], &[]),
            ("*.c", &["x.c", ".c"], &["x.h", "x.cc"]),
            ("a*b*c", &["abc", "aXbYc", "abbcbc"], &["ab", "acb"]),
            ("**a**", &["a", "xax"], &["", "b"]),
            ("?", &["a", "\u{e4}", "."], &["", "ab"]),
            ("[abc]", &["a", "c"], &["d", "", "ab"]),
            ("[!abc]", &["d", "\u{e4}"], &["a", ""]),
            ("[^abc]", &["d"], &["a"]),
            ("[a-c-]", &["b", "-"], &["d"]),
            ("[]x]", &["]", "x"], &["y"]),
            ("[!]x]", &["y"], &["]"]),
            ("[[:digit:]_]", &["7", "_"], &["a", ":"]),
            ("[[:nothing:]]", &["n]", ":]"], &["z"]),
            ("\\*", &["*"], &["a", "\\*"]),
            ("[\\]]", &["]"], &["\\"]),
            ("[ab", &["[ab"], &["a"]),
            ("a\\", &["a\\"], &["a"]),
            ("[\u{e0}-\u{ff}]", &["\u{e4}"], &["a", "\u{100}"]),
        ] {
            for name in yes {
                assert!(matches(pattern, name), "{pattern} {name}");
            }
            for name in no {
                assert!(!matches(pattern, name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_count_one_by_one() {
        let one = Pattern::new("?", Case::Sensitive).unwrap();
        assert!(one.matches(b"\xff"));
        assert!(!one.matches(b"\xff\xfe"));
        let exact = Pattern::new(b"a\xff*", Case::Sensitive).unwrap();
        assert!(exact.matches(b"a\xffz"));
        assert!(!exact.matches(b"a\xfez"));
    }

    #[test]
    fn case_can_be_left_out() {
        let pattern = Pattern::new("ReadMe[.a-z]*", Case::Insensitive).unwrap();
        assert!(pattern.matches("README.TXT"));
        assert!(pattern.matches("readmeZ"));
        assert!(!pattern.matches("readme1"));
        let none_of = Pattern::new("[!a]", Case::Insensitive).unwrap();
        assert!(!none_of.matches("A"));
    }

    #[test]
    fn many_stars_end_in_reasonable_time() {
        let pattern = Pattern::new("*a".repeat(500) + "b", Case::Sensitive).unwrap();
        assert!(!pattern.matches("a".repeat(4000)));
        assert!(Pattern::new("x".repeat(5000), Case::Sensitive).is_err());
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_a_name_matches_itself_escaped(name: Vec<u8>, pattern: Vec<u8>) {
            let _ = Pattern::new(&pattern, Case::Sensitive).unwrap().matches(&name);
            let escaped: Vec<u8> = name
                .iter()
                .flat_map(|&byte| {
                    let plain = !b"*?[\\".contains(&byte);
                    if plain { vec![byte] } else { vec![b'\\', byte] }
                })
                .collect();
            proptest::prop_assert!(Pattern::new(escaped, Case::Sensitive).unwrap().matches(&name));
        }
    }
}
