//! What is wrong with a line.

use std::fmt;

/// One of the texts of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Text {
    /// `file_contexts`.
    FileContexts,
    /// `file_contexts.homedirs`.
    Homedirs,
    /// `file_contexts.local`.
    Local,
    /// `file_contexts.subs_dist`.
    SubsDist,
    /// `file_contexts.subs`.
    Subs,
}

impl Text {
    /// The file's name.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::FileContexts => "file_contexts",
            Self::Homedirs => "file_contexts.homedirs",
            Self::Local => "file_contexts.local",
            Self::SubsDist => "file_contexts.subs_dist",
            Self::Subs => "file_contexts.subs",
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_name())
    }
}

/// A line that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The text it is in.
    pub text: Text,
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}: {}", self.text, self.line, self.reason)
    }
}

/// So many are kept; the rest is counted.
const KEPT: usize = 1000;

/// The problems of a policy, the first of them with their reasons.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    pub(crate) kept: Vec<Problem>,
    pub(crate) count: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, text: Text, line: usize, reason: impl Into<String>) {
        self.count = self.count.saturating_add(1);
        if self.kept.len() < KEPT {
            let reason = reason.into();
            self.kept.push(Problem { text, line, reason });
        }
    }
}
