//! The results of searching a file.

use std::ops::Range;

use crate::cli::session::Located;

/// A single result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    Line(Line),
    /// The file is binary, and matches.
    Binary,
    /// The last record of each file.
    End {
        /// The number of matching lines, as far as they were counted.
        selected: u64,
    },
}

/// A line to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// The line number, from 1.
    pub(super) number: u64,
    /// The line without its newline.
    pub(super) text: Vec<u8>,
    /// True if the line matches; false for a context line.
    pub(super) selected: bool,
    /// The matching parts of the line.
    pub(super) spans: Vec<Range<usize>>,
    /// True for the first line, and for a line after skipped ones.
    pub(super) begins_group: bool,
}

impl Record {
    pub(super) fn is_match(&self) -> bool {
        matches!(self, Self::End { selected } if *selected > 0)
    }

    /// Returns the approximate memory that the record takes.
    pub(super) fn memory_bytes(&self) -> usize {
        let own = size_of::<Self>();
        match self {
            Self::Line(line) => {
                let spans = line.spans.len().saturating_mul(size_of::<Range<usize>>());
                own.saturating_add(line.text.len()).saturating_add(spans)
            }
            Self::Binary | Self::End { .. } => own,
        }
    }
}

/// A record with its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileRecord<'a> {
    pub(super) place: &'a Located,
    /// The path in the image.
    pub(super) path: &'a [u8],
    pub(super) record: &'a Record,
}
