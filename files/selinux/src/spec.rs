//! Specifications: the paths that they match, and their labels.

use std::sync::{Arc, OnceLock};

use regex::bytes::{Regex, RegexBuilder};

use crate::pattern::Pattern;
use crate::{Context, FileKind};

/// The maximum size of a compiled pattern in bytes. The parser's limit on atoms is always reached
/// first.
const MAX_REGEX_BYTES: usize = 2 << 20;

/// The memory for the lazy automaton of a pattern in bytes. With so little, the engine uses one
/// without such memory. That is enough, because paths are short and few patterns are tried on each.
const MAX_DFA_BYTES: usize = 4 << 10;

/// The condition for the paths of a specification.
#[derive(Debug)]
pub(crate) enum Matcher {
    /// The path starts with a prefix, as in `/etc/.*`.
    Begins(Box<[u8]>),
    /// The path is a directory or below it, as in `/etc(/.*)?`.
    Below(Box<[u8]>),
    Regex(Box<LazyPattern>),
}

/// A pattern that is compiled when it is first needed: when a path has its prefix.
#[derive(Debug)]
pub(crate) struct LazyPattern {
    prefix: Box<[u8]>,
    source: Box<str>,
    /// The compiled pattern; the inner value is `None` if it failed to compile.
    compiled: OnceLock<Option<Regex>>,
}

/// A specification: a line of a policy.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) matcher: Matcher,
    pub(crate) target: SpecTarget,
}

/// The file type and the label of a specification.
#[derive(Debug, Clone)]
pub(crate) struct SpecTarget {
    pub(crate) kind: Option<FileKind>,
    pub(crate) context: Option<Arc<Context>>,
}

impl SpecTarget {
    pub(crate) fn is_for(&self, kind: FileKind) -> bool {
        self.kind.is_none_or(|own| own == kind)
    }
}

impl Matcher {
    /// Chooses the matcher for a pattern, of which `text` is the source.
    pub(crate) fn new(pattern: Pattern, text: &str) -> Self {
        let prefix = pattern.prefix.into_boxed_slice();
        match text.get(pattern.prefix_len..) {
            Some(".*") => Self::Begins(prefix),
            Some("(/.*)?") => Self::Below(prefix),
            _ => Self::Regex(Box::new(LazyPattern {
                prefix,
                source: pattern.regex.into(),
                compiled: OnceLock::new(),
            })),
        }
    }

    pub(crate) fn is_match(&self, path: &[u8]) -> bool {
        match self {
            Self::Begins(prefix) => path.starts_with(prefix),
            Self::Below(prefix) => {
                let rest = path.strip_prefix(&**prefix);
                // The end of a pattern also matches before a last newline.
                rest.is_some_and(|rest| matches!(rest, [] | [b'/', ..] | b"\n"))
            }
            Self::Regex(lazy) => lazy.is_match(path),
        }
    }
}

impl LazyPattern {
    fn is_match(&self, path: &[u8]) -> bool {
        path.starts_with(&self.prefix) && self.regex().is_some_and(|regex| regex.is_match(path))
    }

    pub(crate) fn regex(&self) -> Option<&Regex> {
        let compiled = self.compiled.get_or_init(|| {
            // As in libselinux: with alternatives, the first anchor belongs to the first
            // alternative and the last anchor to the last. PCRE's `$` also matches before a last
            // newline.
            RegexBuilder::new(&format!(r"\A{}\n?\z", self.source))
                .unicode(false)
                .dot_matches_new_line(true)
                .size_limit(MAX_REGEX_BYTES)
                .dfa_size_limit(MAX_DFA_BYTES)
                .build()
                .ok()
        });
        compiled.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lazy(text: &str) -> Option<LazyPattern> {
        let pattern = Pattern::parse(text).ok()?;
        Some(LazyPattern {
            prefix: pattern.prefix.into(),
            source: pattern.regex.into(),
            compiled: OnceLock::new(),
        })
    }

    #[test]
    fn the_largest_patterns_compile() {
        for text in [
            "/[^/]{4000}",
            r"/(\W|[[:punct:]]){1000}",
            "/((a{9}|b){9}[^x]){9}",
            "/(a?){4000}",
            "/(a*){4000}",
            "/((a*)*)*b",
        ] {
            let lazy = lazy(text).expect(text);
            assert!(lazy.regex().is_some(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// The engine accepts every pattern that the parser accepts, and the prefix does not change
        /// the result.
        #[test]
        fn what_is_understood_compiles(
            text in r"[/ab.*+?(){}|^$,\[\]\\d:0-3-]{0,24}",
            path in "[/ab.d:0-3{}\n-]{0,12}",
        ) {
            if let Some(lazy) = lazy(&text) {
                let regex = lazy.regex().expect("the pattern compiles");
                let is_match = regex.is_match(path.as_bytes());
                prop_assert!(!is_match || path.as_bytes().starts_with(&lazy.prefix));
            }
        }

        #[test]
        fn short_cuts_change_nothing(
            text in r"[/ab.?\\]{0,6}(\(/\.\*\)\?|\.\*)",
            path in "[/ab.\n]{0,10}",
        ) {
            if let Some(lazy) = lazy(&text) {
                let pattern = Pattern::parse(&text).unwrap();
                let is_match = Matcher::new(pattern, &text).is_match(path.as_bytes());
                prop_assert_eq!(is_match, lazy.is_match(path.as_bytes()));
            }
        }
    }
}
