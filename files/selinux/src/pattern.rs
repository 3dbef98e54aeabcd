//! Translation of patterns: from PCRE, the syntax of policies, to the syntax of the crate `regex`.
//!
//! The two syntaxes look alike, but differ in details (`a++`, `[[a]`, `\<`, `x{`). So each pattern
//! is parsed here, and written anew according to its meaning. Features that are not regular
//! (look-around, back references, atomic groups) are refused, and so are those that no policy uses
//! (flags, named groups, Unicode properties).

mod class;
mod quantifier;

use std::fmt::Write as _;

use class::Class;
use quantifier::Quantifier;

/// The maximum nesting of groups.
const MAX_DEPTH: usize = 32;

/// The maximum number of atoms of a pattern with all repetitions expanded. Real patterns have some
/// dozens.
const MAX_ATOMS: usize = 4096;

/// A parsed pattern.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The pattern in the syntax of the crate `regex`, for bytes, without anchors.
    pub(crate) regex: String,
    /// The literal start of every match.
    pub(crate) prefix: Vec<u8>,
    /// The number of bytes of the pattern that stand for the prefix.
    pub(crate) prefix_len: usize,
    /// The number of atoms, with all repetitions expanded.
    pub(crate) atoms: usize,
}

impl Pattern {
    pub(crate) fn parse(pattern: &str) -> Result<Self, &'static str> {
        let mut parser = Parser::new(pattern.as_bytes());
        let atoms = parser.alternatives(0)?;
        if parser.peek().is_some() {
            return Err("invalid pattern: unmatched `)`");
        }
        Ok(Self {
            regex: parser.regex,
            prefix: parser.prefix,
            prefix_len: parser.prefix_len,
            atoms,
        })
    }
}

struct Parser<'a> {
    rest: &'a [u8],
    len: usize,
    regex: String,
    prefix: Vec<u8>,
    prefix_len: usize,
    /// True if everything so far is part of the prefix.
    in_prefix: bool,
}

/// An element of a pattern.
enum Atom {
    Literal(u8),
    /// An element that matches bytes, with its number of atoms.
    Other(usize),
    /// An element that matches no bytes. It cannot be repeated.
    Assertion,
}

impl<'a> Parser<'a> {
    const fn new(pattern: &'a [u8]) -> Self {
        Self {
            rest: pattern,
            len: pattern.len(),
            regex: String::new(),
            prefix: Vec::new(),
            prefix_len: 0,
            in_prefix: true,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Skips `word` if it comes next. Returns true if it did.
    fn skip(&mut self, word: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Parses alternatives up to the end or the closing parenthesis. Returns the number of atoms.
    fn alternatives(&mut self, depth: usize) -> Result<usize, &'static str> {
        let mut atoms = self.sequence(depth)?;
        while self.skip(b"|") {
            if depth == 0 {
                self.prefix.clear();
                self.prefix_len = 0;
            }
            self.in_prefix = false;
            self.regex.push('|');
            atoms = atoms
                .saturating_add(self.sequence(depth)?)
                .saturating_add(1);
        }
        Ok(atoms)
    }

    fn sequence(&mut self, depth: usize) -> Result<usize, &'static str> {
        let mut atoms: usize = 0;
        while let Some(byte) = self.peek()
            && !matches!(byte, b'|' | b')')
        {
            atoms = atoms.saturating_add(self.piece(depth)?);
            if atoms > MAX_ATOMS {
                return Err("pattern is too large: more than 4096 atoms");
            }
        }
        Ok(atoms)
    }

    /// Parses an atom with its quantifier. Returns the number of atoms.
    fn piece(&mut self, depth: usize) -> Result<usize, &'static str> {
        let was_in_prefix = self.in_prefix;
        let atom = self.atom(depth)?;
        let quantifier = self.quantifier()?;
        match (&atom, &quantifier) {
            (Atom::Assertion, Some(_)) => return Err("invalid pattern: repeated assertion"),
            (Atom::Literal(byte), None) if was_in_prefix => {
                self.prefix.push(*byte);
                self.prefix_len = self.len.saturating_sub(self.rest.len());
            }
            _ => self.in_prefix = false,
        }
        if let Atom::Literal(byte) = atom {
            push_literal(&mut self.regex, byte);
        }
        let atoms = if let Atom::Other(atoms) = atom {
            atoms
        } else {
            1
        };
        let Some(quantifier) = quantifier else {
            return Ok(atoms);
        };
        // Infallible, because it writes to a string.
        let _ = write!(self.regex, "{quantifier}");
        Ok(atoms.saturating_mul(quantifier.copies()))
    }

    /// Parses an atom, and writes it unless it is a literal: whether that is part of the prefix
    /// depends on its quantifier.
    fn atom(&mut self, depth: usize) -> Result<Atom, &'static str> {
        let is_quantifier = Quantifier::is_at(self.rest);
        match self.next() {
            None => Err("invalid pattern: it ends early"),
            Some(b'*' | b'+' | b'?') => Err("invalid pattern: nothing to repeat"),
            Some(b'{') if is_quantifier => Err("invalid pattern: nothing to repeat"),
            Some(b'(') => self.group(depth),
            Some(b'[') => {
                let class = self.class()?;
                let _ = write!(self.regex, "{class}");
                Ok(Atom::Other(1))
            }
            Some(b'.') => Ok(self.written(".")),
            Some(b'^') => Ok(self.assertion(r"\A")),
            Some(b'$') => Ok(self.assertion(r"\z")),
            Some(b'\\') => self.escape(),
            Some(byte) => Ok(Atom::Literal(byte)),
        }
    }

    fn group(&mut self, depth: usize) -> Result<Atom, &'static str> {
        if !self.skip(b"?:") && matches!(self.peek(), Some(b'?' | b'*')) {
            return Err("unsupported pattern: special group");
        }
        if depth >= MAX_DEPTH {
            return Err("pattern is too large: groups nested more than 32 deep");
        }
        self.in_prefix = false;
        self.regex.push_str("(?:");
        let atoms = self.alternatives(depth.saturating_add(1))?;
        if !self.skip(b")") {
            return Err("invalid pattern: missing `)`");
        }
        self.regex.push(')');
        Ok(Atom::Other(atoms.max(1)))
    }

    fn escape(&mut self) -> Result<Atom, &'static str> {
        let byte = self
            .next()
            .ok_or("invalid pattern: it ends with a backslash")?;
        if let Some(class) = Class::named_by(byte) {
            let _ = write!(self.regex, "{class}");
            return Ok(Atom::Other(1));
        }
        Ok(match byte {
            b'b' => self.assertion(r"\b"),
            b'B' => self.assertion(r"\B"),
            b'A' => self.assertion(r"\A"),
            b'z' => self.assertion(r"\z"),
            byte => Atom::Literal(unescaped(byte)?),
        })
    }

    fn written(&mut self, regex: &str) -> Atom {
        self.regex.push_str(regex);
        Atom::Other(1)
    }

    fn assertion(&mut self, regex: &str) -> Atom {
        self.regex.push_str(regex);
        Atom::Assertion
    }

    fn class(&mut self) -> Result<Class, &'static str> {
        let (class, rest) = Class::parse(self.rest)?;
        self.rest = rest;
        Ok(class)
    }

    fn quantifier(&mut self) -> Result<Option<Quantifier>, &'static str> {
        let Some((quantifier, rest)) = Quantifier::parse(self.rest)? else {
            return Ok(None);
        };
        self.rest = rest;
        // A reluctant quantifier changes how much is matched, but not whether it matches.
        self.skip(b"?");
        if Quantifier::is_at(self.rest) || matches!(self.peek(), Some(b'*' | b'+' | b'?')) {
            return Err("unsupported pattern: possessive or repeated repetition");
        }
        Ok(Some(quantifier))
    }
}

/// Returns the byte that an escape stands for, inside and outside of brackets.
fn unescaped(byte: u8) -> Result<u8, &'static str> {
    match byte {
        b'n' => Ok(b'\n'),
        b't' => Ok(b'\t'),
        b'r' => Ok(b'\r'),
        b'f' => Ok(0x0c),
        b'e' => Ok(0x1b),
        b'a' => Ok(0x07),
        byte if byte.is_ascii_alphanumeric() => Err("unsupported pattern: unknown escape"),
        byte => Ok(byte),
    }
}

fn push_literal(regex: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_') {
        regex.push(char::from(byte));
    } else {
        let _ = write!(regex, r"\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(pattern: &str) -> String {
        Pattern::parse(pattern).expect(pattern).regex
    }

    fn prefix(pattern: &str) -> (String, usize) {
        let pattern = Pattern::parse(pattern).unwrap();
        (
            String::from_utf8(pattern.prefix).unwrap(),
            pattern.prefix_len,
        )
    }

    #[test]
    fn what_is_written_anew() {
        assert_eq!(regex(r"/a\.b(/.*)?"), r"/a\x2eb(?:/.*)?");
        assert_eq!(regex("/x(a|b)+?"), "/x(?:a|b)+");
        assert_eq!(regex("/(?:a){2,}{x"), r"/(?:a){2,}\x7bx");
        assert_eq!(regex("/a{2}b{1,3}"), "/a{2}b{1,3}");
        assert_eq!(regex("/x{a}{"), r"/x\x7ba\x7d\x7b");
        assert_eq!(regex(r"/\<\/]}"), r"/\x3c/\x5d\x7d");
        assert_eq!(regex("^/a$"), r"\A/a\z");
        assert_eq!(regex(""), "");
        assert_eq!(regex("a||b"), "a||b");
    }

    #[test]
    fn prefixes() {
        assert_eq!(prefix("/etc(/.*)?"), ("/etc".into(), 4));
        assert_eq!(prefix("/a\\.b/.*"), ("/a.b/".into(), 6));
        assert_eq!(prefix("/usr/xy?z"), ("/usr/x".into(), 6));
        assert_eq!(prefix("/usr/xy+z"), ("/usr/x".into(), 6));
        assert_eq!(prefix("/a|/b"), (String::new(), 0));
        assert_eq!(prefix("/a(b|c)d"), ("/a".into(), 2));
        assert_eq!(prefix("/a$b"), ("/a".into(), 2));
        assert_eq!(prefix("/a[b]c"), ("/a".into(), 2));
    }

    #[test]
    fn what_is_refused() {
        for pattern in [
            "(?=a)", "(?!a)", "(?<=a)", "(?<n>a)", "(?P<n>a)", "(?i)a", "(?>a)", "(*UTF)",
            r"(a)\1", r"\K", r"\Q", r"\x41", r"\pL", r"\R", "a++", "a*+", "a**", "a{2}{3}",
            "a{2}*", "*", "a|*", "(+)", "{2}", "(", ")", "a)", "a{,3}", "((a)", "[", "[]", "[a",
            "[z-a]", "\\", "a{3,2}", "a{70000}", "^*", "a{4097}", "[[:x:]]",
        ] {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn nested_counts_have_a_limit() {
        assert!(Pattern::parse("((a{9}){9}){9}").is_ok());
        assert!(Pattern::parse("((((a{9}){9}){9}){9}){9}").is_err());
        assert!(Pattern::parse("(((a{65535}){65535}){65535}){65535}").is_err());
        let deep = |depth| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(Pattern::parse(&deep(MAX_DEPTH)).is_ok());
        assert!(Pattern::parse(&deep(MAX_DEPTH + 1)).is_err());
        assert!(Pattern::parse(&deep(100_000)).is_err());
    }
}
