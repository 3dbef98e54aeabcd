//! A specification: which paths it is for.

use std::sync::{Arc, OnceLock};

use regex::bytes::{Regex, RegexBuilder};

use crate::pattern::Pattern;
use crate::{Context, FileKind};

/// What a compiled pattern may take. The parser's limit on atoms is reached before.
const MAX_REGEX_BYTES: usize = 2 << 20;

/// Memory for a lazy automaton, of which each pattern would have one: at this little the engine takes
/// one that needs none. A path is short, and few patterns are tried on it.
const MAX_DFA_BYTES: usize = 4 << 10;

/// What a path must be like.
#[derive(Debug)]
pub(crate) enum Matcher {
    /// `/etc/.*`: it begins so.
    Begins(Box<[u8]>),
    /// `/etc(/.*)?`: it is this, or below it.
    Below(Box<[u8]>),
    Regex(Box<Lazy>),
}

/// A pattern that is compiled when a path comes that begins like it.
#[derive(Debug)]
pub(crate) struct Lazy {
    prefix: Box<[u8]>,
    source: Box<str>,
    /// None within: it did not compile.
    compiled: OnceLock<Option<Regex>>,
}

/// A line of a policy.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) matcher: Matcher,
    pub(crate) target: Target,
}

/// What is labelled, and how.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) kind: Option<FileKind>,
    pub(crate) context: Option<Arc<Context>>,
}

impl Target {
    pub(crate) fn is_for(&self, kind: FileKind) -> bool {
        self.kind.is_none_or(|own| own == kind)
    }
}

impl Matcher {
    /// By a pattern, and the text that it was read from.
    pub(crate) fn new(pattern: Pattern, text: &str) -> Self {
        let prefix = pattern.prefix.into_boxed_slice();
        match text.get(pattern.prefix_len..) {
            Some(".*") => Self::Begins(prefix),
            Some("(/.*)?") => Self::Below(prefix),
            _ => Self::Regex(Box::new(Lazy {
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
                // A pattern's end is also before a last newline.
                rest.is_some_and(|rest| matches!(rest, [] | [b'/', ..] | b"\n"))
            }
            Self::Regex(lazy) => lazy.is_match(path),
        }
    }
}

impl Lazy {
    fn is_match(&self, path: &[u8]) -> bool {
        path.starts_with(&self.prefix) && self.regex().is_some_and(|regex| regex.is_match(path))
    }

    pub(crate) fn regex(&self) -> Option<&Regex> {
        let compiled = self.compiled.get_or_init(|| {
            // As libselinux has it: with alternatives, each anchor is of one of them. PCRE's `$` is also
            // before a last newline.
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

    fn lazy(text: &str) -> Option<Lazy> {
        let pattern = Pattern::parse(text).ok()?;
        Some(Lazy {
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

        /// What the parser takes the engine does, too, and a prefix is no more than a short cut.
        #[test]
        fn what_is_understood_compiles(
            text in r"[/ab.*+?(){}|^$,\[\]\\d:0-3-]{0,24}",
            path in "[/ab.d:0-3{}\n-]{0,12}",
        ) {
            if let Some(lazy) = lazy(&text) {
                let regex = lazy.regex().expect("it compiles");
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
