//! Patterns in the syntax of grep(1).

use std::ops::Range;

use diskfs::{Error, ErrorKind, Result};
use regex::bytes::{Regex, RegexBuilder};

/// The options that apply to patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct PatternOptions {
    pub(super) fixed: bool,
    pub(super) ignore_case: bool,
    pub(super) words: bool,
    pub(super) lines: bool,
}

/// A matcher of lines, in time linear in the searched text.
#[derive(Debug)]
pub(super) struct Matcher {
    /// The expression for a single line.
    line: Regex,
    /// The expression for many lines: if it does not match, no line matches. `None` if that does
    /// not hold for the patterns.
    any: Option<Regex>,
}

impl Matcher {
    /// Compiles a matcher for lines that match any of `patterns`.
    pub(super) fn new(patterns: &[String], options: PatternOptions) -> Result<Self> {
        let mut parts = Vec::new();
        for pattern in patterns.iter().flat_map(|pattern| pattern.split('\n')) {
            // Each pattern is checked alone, so that an unmatched parenthesis cannot close one of
            // ours.
            let part = if options.fixed {
                regex::escape(pattern)
            } else {
                pattern.to_owned()
            };
            build(&part, options, Lines::One).map_err(|e| refused(pattern, &e))?;
            parts.push(format!("(?:{part})"));
        }
        let all = parts.join("|");
        let around = match (options.lines, options.words) {
            (true, _) => format!("^(?:{all})$"),
            (false, true) => format!(r"\b{{start-half}}(?:{all})\b{{end-half}}"),
            (false, false) => all,
        };
        let invalid = |e: regex::Error| refused(&patterns.join("\n"), &e);
        // These anchors mean the line itself, and not the lines around it.
        let is_anchored = around.contains(r"\A") || around.contains(r"\z");
        Ok(Self {
            line: build(&around, options, Lines::One).map_err(invalid)?,
            any: if is_anchored {
                None
            } else {
                Some(build(&around, options, Lines::Many).map_err(invalid)?)
            },
        })
    }

    pub(super) fn matches(&self, line: &[u8]) -> bool {
        self.line.is_match(line)
    }

    /// Returns true if one of these whole lines may match.
    pub(super) fn may_match(&self, lines: &[u8]) -> bool {
        self.any.as_ref().is_none_or(|any| any.is_match(lines))
    }

    /// Returns the non-empty matches in a line.
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

fn build(
    pattern: &str,
    options: PatternOptions,
    lines: Lines,
) -> std::result::Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .case_insensitive(options.ignore_case)
        .multi_line(lines == Lines::Many)
        .build()
}

fn refused(pattern: &str, error: &regex::Error) -> Error {
    // The crate's message is a drawing of several lines that points to the error.
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    let why = last.strip_prefix("error: ").unwrap_or(last);
    let reason = format!("invalid regular expression `{pattern}`: {why}");
    Error::new(ErrorKind::Invalid, reason).with_hint("give -F to search for it as plain text")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: PatternOptions = PatternOptions {
        fixed: false,
        ignore_case: false,
        words: false,
        lines: false,
    };

    fn matches(pattern: &str, options: PatternOptions, line: &str) -> bool {
        let matcher = Matcher::new(&[pattern.to_owned()], options).unwrap();
        let found = matcher.matches(line.as_bytes());
        let among = format!("x\n{line}\nx\n");
        assert!(!found || matcher.may_match(among.as_bytes()), "{pattern}");
        found
    }

    #[test]
    fn lines_match_as_grep_has_it() {
        let words = PatternOptions {
            words: true,
            ..PLAIN
        };
        let lines = PatternOptions {
            lines: true,
            ..PLAIN
        };
        let fixed = PatternOptions {
            fixed: true,
            ..PLAIN
        };
        for (pattern, options, line, expected) in [
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
            assert_eq!(
                matches(pattern, options, line),
                expected,
                "{pattern} {line}"
            );
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
