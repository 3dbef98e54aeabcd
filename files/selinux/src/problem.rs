//! The problems of single lines.

use std::fmt;

/// A text of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Text {
    /// The text `file_contexts`.
    FileContexts,
    /// The text `file_contexts.homedirs`.
    Homedirs,
    /// The text `file_contexts.local`.
    Local,
    /// The text `file_contexts.subs_dist`.
    SubsDist,
    /// The text `file_contexts.subs`.
    Subs,
}

impl Text {
    /// Returns the name of the file.
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

/// A line that was skipped, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The text with the line.
    pub text: Text,
    /// The line number, from 1.
    pub line: usize,
    /// The reason why the line was skipped.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}: {}", self.text, self.line, self.reason)
    }
}

/// The maximum number of problems to keep. Further ones are only counted.
const KEPT: usize = 1000;

/// The problems of a policy: the first of them, and their number.
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
