//! What is found in a file, piece by piece.

use std::ops::Range;

use crate::cli::session::Located;

/// One thing that a search says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    Line(Line),
    /// It is binary, and matches.
    Binary,
    /// The last one of each file.
    End {
        /// How many lines match, as far as they were counted.
        selected: u64,
    },
}

/// A line that is to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// Without its end.
    pub(super) text: Vec<u8>,
    /// It is one of those searched for, and not only beside one.
    pub(super) selected: bool,
    /// What of it matches.
    pub(super) spans: Vec<Range<usize>>,
    /// Lines were left out before it, or it is the first.
    pub(super) begins_group: bool,
}

impl Record {
    pub(super) fn is_match(&self) -> bool {
        matches!(self, Self::End { selected } if *selected > 0)
    }

    /// What it takes, about.
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

/// A record with the file that it is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) place: &'a Located,
    /// In the image.
    pub(super) path: &'a [u8],
    pub(super) record: &'a Record,
}
