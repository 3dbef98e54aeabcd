//! Sets of bytes: `[^/]`, `[[:alnum:]_-]`, `\d`.

use std::fmt;

use super::unescaped;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Class([bool; 256]);

/// An element within brackets.
enum Item {
    Byte(u8),
    Class(Box<Class>),
}

impl Class {
    fn of(is_in: impl Fn(u8) -> bool) -> Self {
        let mut bytes = [false; 256];
        for (byte, slot) in (0..=u8::MAX).zip(&mut bytes) {
            *slot = is_in(byte);
        }
        Self(bytes)
    }

    /// Returns the class of an escape like `\d`; `None` for other letters.
    pub(super) fn named_by(letter: u8) -> Option<Self> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        Some(match letter {
            b'd' => Self::of(|byte| byte.is_ascii_digit()),
            b'D' => Self::of(|byte| !byte.is_ascii_digit()),
            b's' => Self::of(crate::lines::is_space),
            b'S' => Self::of(|byte| !crate::lines::is_space(byte)),
            b'w' => Self::of(is_word),
            b'W' => Self::of(|byte| !is_word(byte)),
            _ => return None,
        })
    }

    /// Returns the class of a POSIX name, such as `alnum` in `[:alnum:]`.
    fn posix(name: &[u8]) -> Option<Self> {
        let is_in: fn(&u8) -> bool = match name {
            b"alnum" => u8::is_ascii_alphanumeric,
            b"alpha" => u8::is_ascii_alphabetic,
            b"ascii" => u8::is_ascii,
            b"blank" => |byte| matches!(byte, b' ' | b'\t'),
            b"cntrl" => u8::is_ascii_control,
            b"digit" => u8::is_ascii_digit,
            b"graph" => u8::is_ascii_graphic,
            b"lower" => u8::is_ascii_lowercase,
            b"print" => |byte| byte.is_ascii_graphic() || *byte == b' ',
            b"punct" => u8::is_ascii_punctuation,
            b"space" => |byte| crate::lines::is_space(*byte),
            b"upper" => u8::is_ascii_uppercase,
            b"word" => |byte| byte.is_ascii_alphanumeric() || *byte == b'_',
            b"xdigit" => u8::is_ascii_hexdigit,
            _ => return None,
        };
        Some(Self::of(|byte| is_in(&byte)))
    }

    /// Parses the text after `[`. Returns the class and the text after its `]`.
    pub(super) fn parse(text: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        let (is_negated, mut rest) = match text.strip_prefix(b"^") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut class = Self([false; 256]);
        let mut is_first = true;
        loop {
            rest = match rest.strip_prefix(b"]") {
                Some(rest) if !is_first => {
                    let class = if is_negated { class.negated() } else { class };
                    return Ok((class, rest));
                }
                _ => class.add_next(rest)?,
            };
            is_first = false;
        }
    }

    /// Adds the next element, a range or a single one. Returns the text after it.
    fn add_next<'a>(&mut self, text: &'a [u8]) -> Result<&'a [u8], &'static str> {
        let (item, rest) = item(text)?;
        let is_range = rest.first() == Some(&b'-') && rest.get(1).is_some_and(|byte| *byte != b']');
        let first = match item {
            Item::Class(_) if is_range => {
                return Err("invalid pattern: a range starts with a class");
            }
            Item::Class(class) => {
                self.add(|byte| class.has(byte));
                return Ok(rest);
            }
            Item::Byte(byte) => byte,
        };
        if !is_range {
            self.add(|byte| byte == first);
            return Ok(rest);
        }
        let (Item::Byte(last), rest) = self::item(rest.get(1..).unwrap_or_default())? else {
            return Err("invalid pattern: a range ends with a class");
        };
        if last < first {
            return Err("invalid pattern: the range is reversed");
        }
        self.add(|byte| (first..=last).contains(&byte));
        Ok(rest)
    }

    fn add(&mut self, is_in: impl Fn(u8) -> bool) {
        for (byte, slot) in (0..=u8::MAX).zip(&mut self.0) {
            *slot |= is_in(byte);
        }
    }

    fn has(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte)).copied().unwrap_or_default()
    }

    fn negated(&self) -> Self {
        Self(self.0.map(|is_in| !is_in))
    }
}

/// Parses a byte or a class within brackets. Returns it with the text after it.
fn item(text: &[u8]) -> Result<(Item, &[u8]), &'static str> {
    let (first, rest) = text.split_first().ok_or("invalid pattern: missing `]`")?;
    match (first, rest.first()) {
        (b'[', Some(b':')) => named(rest),
        (b'[', Some(b'.' | b'=')) => Err("unsupported pattern: collating element"),
        (b'\\', None) => Err("invalid pattern: it ends with a backslash"),
        (b'\\', Some(letter)) => {
            let rest = rest.get(1..).unwrap_or_default();
            let item = match (letter, Class::named_by(*letter)) {
                (_, Some(class)) => Item::Class(Box::new(class)),
                (b'b', None) => Item::Byte(0x08),
                (letter, None) => Item::Byte(unescaped(*letter)?),
            };
            Ok((item, rest))
        }
        (byte, _) => Ok((Item::Byte(*byte), rest)),
    }
}

/// Parses `:alpha:]` or `:^alpha:]`. In any other text, the bracket before it is literal.
fn named(text: &[u8]) -> Result<(Item, &[u8]), &'static str> {
    let inner = text.get(1..).unwrap_or_default();
    let is_end = |byte: &u8| !byte.is_ascii_lowercase() && *byte != b'^';
    let end = inner.iter().position(is_end).unwrap_or(inner.len());
    let Some((name, rest)) = inner.split_at_checked(end) else {
        return Ok((Item::Byte(b'['), text));
    };
    let Some(rest) = rest.strip_prefix(b":]") else {
        return Ok((Item::Byte(b'['), text));
    };
    let (is_negated, name) = match name.strip_prefix(b"^") {
        Some(name) => (true, name),
        None => (false, name),
    };
    let class = Class::posix(name).ok_or("invalid pattern: unknown character class")?;
    let class = if is_negated { class.negated() } else { class };
    Ok((Item::Class(Box::new(class)), rest))
}

impl fmt::Display for Class {
    /// Writes the class in the syntax of the crate `regex`, without Unicode.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = None;
        let mut is_empty = true;
        f.write_str("[")?;
        for byte in 0..=u8::MAX {
            if !self.has(byte) {
                continue;
            }
            let start = *first.get_or_insert(byte);
            let is_last = byte.checked_add(1).is_none_or(|next| !self.has(next));
            if is_last {
                write!(f, r"\x{start:02x}-\x{byte:02x}")?;
                first = None;
            }
            is_empty = false;
        }
        f.write_str(if is_empty { r"^\x00-\xff]" } else { "]" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(class: &str) -> String {
        let (class, rest) = Class::parse(class.as_bytes()).expect(class);
        assert_eq!(rest, b"");
        let bytes = (0..=u8::MAX).filter(|byte| class.has(*byte));
        bytes.map(char::from).collect()
    }

    #[test]
    fn classes() {
        assert_eq!(bytes("a-cx]"), "abcx");
        assert_eq!(bytes("]a]"), "]a");
        assert_eq!(bytes("a-]"), "-a");
        assert_eq!(bytes("-a]"), "-a");
        assert_eq!(bytes("[a&&~]"), "&[a~");
        assert_eq!(bytes("[:x]"), ":[x");
        assert_eq!(bytes("[:digit:]x]"), "0123456789x");
        assert_eq!(bytes(r"\d\]\-]"), "-0123456789]");
        assert_eq!(bytes(r"+--]"), "+,-");
        assert_eq!(bytes("^]a]").chars().count(), 254);
    }

    #[test]
    fn a_class_is_written_in_ranges() {
        let (class, _) = Class::parse(b"^/]").unwrap();
        assert_eq!(class.to_string(), r"[\x00-\x2e\x30-\xff]");
        let (class, _) = Class::parse(br"^\d\D]").unwrap();
        assert_eq!(class.to_string(), r"[^\x00-\xff]");
    }
}
