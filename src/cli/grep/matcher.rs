//! Patterns, as grep(1) takes them.

use std::ops::Range;

use diskfs::{Error, ErrorKind, Result};
use regex::bytes::{Regex, RegexBuilder};

/// How patterns are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Wanted {
    pub(super) fixed: bool,
    pub(super) ignore_case: bool,
    pub(super) words: bool,
    pub(super) lines: bool,
}

/// Says which lines match, in time that is linear in what is searched.
#[derive(Debug)]
pub(super) struct Matcher {
    /// Of a line by itself.
    line: Regex,
    /// Of many lines: where it finds nothing, no line matches. `None` where that is not so.
    any: Option<Regex>,
}

impl Matcher {
    /// Any of `patterns` may match.
    pub(super) fn new(patterns: &[String], wanted: Wanted) -> Result<Self> {
        let mut parts = Vec::new();
        for pattern in patterns.iter().flat_map(|pattern| pattern.split('\n')) {
            // By itself, so that a parenthesis too many can't close ours.
            let part = if wanted.fixed {
                regex::escape(pattern)
            } else {
                pattern.to_owned()
            };
            build(&part, wanted, Lines::One).map_err(|e| refused(pattern, &e))?;
            parts.push(format!("(?:{part})"));
        }
        let all = parts.join("|");
        let around = match (wanted.lines, wanted.words) {
            (true, _) => format!("^(?:{all})$"),
            (false, true) => format!(r"\b{{start-half}}(?:{all})\b{{end-half}}"),
            (false, false) => all,
        };
        let told = |e: regex::Error| refused(&patterns.join("\n"), &e);
        // These anchors are those of the line, and not of the lines around it.
        let is_anchored = around.contains(r"\A") || around.contains(r"\z");
        Ok(Self {
            line: build(&around, wanted, Lines::One).map_err(told)?,
            any: if is_anchored {
                None
            } else {
                Some(build(&around, wanted, Lines::Many).map_err(told)?)
            },
        })
    }

    pub(super) fn matches(&self, line: &[u8]) -> bool {
        self.line.is_match(line)
    }

    /// Whether one of these whole lines may match.
    pub(super) fn may_match(&self, lines: &[u8]) -> bool {
        self.any.as_ref().is_none_or(|any| any.is_match(lines))
    }

    /// What of a line matches, but for nothing at all.
    pub(super) fn spans(&self, line: &[u8]) -> Vec<Range<usize>> {
        let found = self.line.find_iter(line).map(|found| found.range());
        found.filter(|range| !range.is_empty()).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    One,
    Many,
}

fn build(pattern: &str, wanted: Wanted, lines: Lines) -> std::result::Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .case_insensitive(wanted.ignore_case)
        .multi_line(lines == Lines::Many)
        .build()
}

fn refused(pattern: &str, error: &regex::Error) -> Error {
    // The crate draws where it is, over several lines.
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    let why = last.strip_prefix("error: ").unwrap_or(last);
    let reason = format!("`{pattern}` is no regular expression: {why}");
    Error::new(ErrorKind::Invalid, reason).with_hint("with -F it is searched for as it stands")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Wanted = Wanted {
        fixed: false,
        ignore_case: false,
        words: false,
        lines: false,
    };

    fn matches(pattern: &str, wanted: Wanted, line: &str) -> bool {
        let matcher = Matcher::new(&[pattern.to_owned()], wanted).unwrap();
        let found = matcher.matches(line.as_bytes());
        let among = format!("x\n{line}\nx\n");
        assert!(!found || matcher.may_match(among.as_bytes()), "{pattern}");
        found
    }

    #[test]
    fn lines_match_as_grep_has_it() {
        let words = Wanted {
            words: true,
            ..PLAIN
        };
        let lines = Wanted {
            lines: true,
            ..PLAIN
        };
        let fixed = Wanted {
            fixed: true,
            ..PLAIN
        };
        for (pattern, wanted, line, expected) in [
            ("a.c", PLAIN, "xabcx", true),
            ("a.c", fixed, "xabcx", false),
            ("a.c", fixed, "xa.cx", true),
            ("^b|c$", PLAIN, "abc", true),
            ("foo", words, "foo_bar foo", true),
            ("foo", words, "foo_bar xfoo", false),
            ("-foo", words, "a -foo", true),
            ("a|ab", lines, "ab", true),
            ("b", lines, "ab", false),
            (r"\Ab", PLAIN, "b", true),
            ("x\ny", PLAIN, "only y", true),
            ("", PLAIN, "", true),
        ] {
            assert_eq!(matches(pattern, wanted, line), expected, "{pattern} {line}");
        }
    }

    #[test]
    fn refusals_say_why() {
        for pattern in ["(", "a)b(", "a{99999}{99999}", r"(a)\1"] {
            let error = Matcher::new(&[pattern.to_owned()], PLAIN).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(!error.reason().contains('\n'), "{error}");
        }
    }
}
