//! Quantifiers of an atom: `*`, `+`, `?`, `{2}`, `{2,}`, `{2,3}`.

use std::fmt;

/// The largest count in PCRE.
const MAX_COUNT: usize = 65_535;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quantifier {
    least: usize,
    /// The maximum; `None` if there is no limit.
    most: Option<usize>,
}

impl Quantifier {
    /// Parses the quantifier at the start of `text`. Returns it with the text after it.
    pub(super) fn parse(text: &[u8]) -> Result<Option<(Self, &[u8])>, &'static str> {
        let Some((first, rest)) = text.split_first() else {
            return Ok(None);
        };
        let (least, most) = match first {
            b'*' => (0, None),
            b'+' => (1, None),
            b'?' => (0, Some(1)),
            b'{' => return Self::counted(rest),
            _ => return Ok(None),
        };
        Ok(Some((Self { least, most }, rest)))
    }

    /// Returns true if the text starts with a quantifier. Braces without numbers are literal.
    pub(super) fn is_at(text: &[u8]) -> bool {
        text.strip_prefix(b"{")
            .is_some_and(|rest| !matches!(Self::counted(rest), Ok(None)))
    }

    fn counted(text: &[u8]) -> Result<Option<(Self, &[u8])>, &'static str> {
        let Some(end) = text.iter().position(|byte| *byte == b'}') else {
            return Ok(None);
        };
        let Some((inner, rest)) = text.split_at_checked(end) else {
            return Ok(None);
        };
        let rest = rest.get(1..).unwrap_or_default();
        let (least, most) = match inner.iter().position(|byte| *byte == b',') {
            None => (inner, Some(inner)),
            Some(comma) => {
                let (least, most) = inner.split_at(comma);
                let most = most.get(1..).unwrap_or_default();
                (least, Some(most).filter(|most| !most.is_empty()))
            }
        };
        let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        if least.is_empty() && most.is_some_and(is_number) {
            // `{,n}` is a quantifier since PCRE2 10.43, and literal text before.
            return Err("unsupported pattern: `{,n}`");
        }
        if !is_number(least) || !most.is_none_or(is_number) {
            return Ok(None);
        }
        let quantifier = Self {
            least: number(least)?,
            most: most.map(number).transpose()?,
        };
        if quantifier.most.is_some_and(|most| most < quantifier.least) {
            return Err("invalid pattern: the repetition's numbers are reversed");
        }
        Ok(Some((quantifier, rest)))
    }

    /// Returns how many times the atom appears if the repetition is expanded.
    pub(super) fn copies(&self) -> usize {
        self.most.unwrap_or(self.least.saturating_add(1)).max(1)
    }
}

impl fmt::Display for Quantifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (0, None) => f.write_str("*"),
            (1, None) => f.write_str("+"),
            (0, Some(1)) => f.write_str("?"),
            (least, None) => write!(f, "{{{least},}}"),
            (least, Some(most)) if least == most => write!(f, "{{{least}}}"),
            (least, Some(most)) => write!(f, "{{{least},{most}}}"),
        }
    }
}

fn number(digits: &[u8]) -> Result<usize, &'static str> {
    let text = std::str::from_utf8(digits).ok();
    text.and_then(|text| text.parse().ok())
        .filter(|number| *number <= MAX_COUNT)
        .ok_or("invalid pattern: a repetition of more than 65535")
}
