//! The search of one file.

use std::collections::VecDeque;

use diskfs::{Node, Result, SortedEntry};

use super::contents::{Lines, Piece};
use super::matcher::Matcher;
use super::record::{Line, Record};
use crate::cli::session::Located;
use crate::cli::show::name::join;

/// The maximum size of the lines that are kept as possible context before a match. Older ones are
/// not printed.
const BEFORE_MAX_BYTES: usize = 8 << 20;

/// The treatment of binary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    /// Report that they match, and print no lines.
    Report,
    /// Treat them as not matching.
    Skip,
    /// Treat them as text.
    Text,
}

/// The result that is wanted for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WantedResult {
    Lines,
    /// The number of matching lines.
    Count,
    /// Only whether any line matches.
    Any,
}

/// A search: what to search for, and how much to find.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) matcher: Matcher,
    /// Selects lines that do not match.
    pub(super) invert: bool,
    /// The number of context lines before a match; `after` is the number after it.
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) max_count: Option<u64>,
    pub(super) wanted_result: WantedResult,
    pub(super) binary: Binary,
    /// Also searches the decompressed contents of compressed files.
    pub(super) unpack: bool,
}

/// A consumer of records, which returns `false` if it wants no more.
type Emit<'a> = &'a mut dyn FnMut(Record) -> Result<bool>;

/// The next action after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineOutcome {
    Continue,
    /// The rest of the file does not matter.
    Done,
    /// The consumer wants no more records.
    Stop,
}

impl Search {
    /// Searches a file. Returns `false` if the consumer did not want all records.
    pub(super) fn file(
        &self,
        place: &Located,
        entry: &SortedEntry,
        emit: Emit<'_>,
    ) -> Result<bool> {
        let path = join(&place.path, &entry.path);
        let node = Node::new(place.filesystem.clone(), entry.metadata.inode, path);
        let mut lines = Lines::open(node.open_with(&entry.metadata)?, self.unpack)?;
        let mut progress = InFile::new(self);
        while let Some(piece) = lines.next()? {
            match progress.piece(piece, emit)? {
                LineOutcome::Continue => {}
                LineOutcome::Done => break,
                LineOutcome::Stop => return Ok(false),
            }
        }
        let selected = progress.selected;
        emit(Record::End { selected })
    }
}

/// The state of searching a file.
struct InFile<'a> {
    search: &'a Search,
    /// The number of the next line.
    number: u64,
    selected: u64,
    is_binary: bool,
    /// Lines, with their numbers, that are printed if a match follows.
    before: VecDeque<(u64, Vec<u8>)>,
    before_bytes: usize,
    /// The number of lines after the last match that are still to be printed.
    after: usize,
    /// The last line that was printed.
    shown: Option<u64>,
}

impl<'a> InFile<'a> {
    const fn new(search: &'a Search) -> Self {
        Self {
            search,
            number: 1,
            selected: 0,
            is_binary: false,
            before: VecDeque::new(),
            before_bytes: 0,
            after: 0,
            shown: None,
        }
    }

    /// Searches the lines of a piece.
    fn piece(&mut self, piece: Piece<'_>, emit: Emit<'_>) -> Result<LineOutcome> {
        let Piece { text, sees_zero } = piece;
        if self.search.binary != Binary::Text && sees_zero {
            self.is_binary = true;
        }
        if self.is_binary {
            if self.search.binary == Binary::Skip {
                self.selected = 0;
                return Ok(LineOutcome::Done);
            }
            // As in grep(1), zero bytes end lines in binary files.
            text.iter_mut()
                .filter(|byte| **byte == 0)
                .for_each(|byte| *byte = b'\n');
        }
        if self.may_skip(text) {
            let lines = text.split_inclusive(|byte| *byte == b'\n').count();
            self.number = self.number.saturating_add(lines as u64);
            return Ok(LineOutcome::Continue);
        }
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let next = self.line(line.strip_suffix(b"\n").unwrap_or(line), emit)?;
            if next != LineOutcome::Continue {
                return Ok(next);
            }
        }
        Ok(LineOutcome::Continue)
    }

    /// Returns true if none of these lines can be printed or counted.
    fn may_skip(&self, piece: &[u8]) -> bool {
        let search = self.search;
        !search.invert
            && self.after == 0
            && (search.before == 0 || !self.shows_lines())
            && !self.is_full()
            && !search.matcher.may_match(piece)
    }

    fn shows_lines(&self) -> bool {
        self.search.wanted_result == WantedResult::Lines && !self.is_binary
    }

    fn is_full(&self) -> bool {
        self.search
            .max_count
            .is_some_and(|max| self.selected >= max)
    }

    fn line(&mut self, line: &[u8], emit: Emit<'_>) -> Result<LineOutcome> {
        let number = self.number;
        self.number = self.number.saturating_add(1);
        let is_full = self.is_full();
        if !is_full && self.search.matcher.matches(line) != self.search.invert {
            return self.select(number, line, emit);
        }
        if self.after > 0 {
            self.after -= 1;
            if !self.show(number, line.to_vec(), None, emit)? {
                return Ok(LineOutcome::Stop);
            }
        } else if self.search.before > 0 && !is_full && self.shows_lines() {
            self.keep_context(number, line);
        }
        Ok(if is_full && self.after == 0 {
            LineOutcome::Done
        } else {
            LineOutcome::Continue
        })
    }

    fn select(&mut self, number: u64, line: &[u8], emit: Emit<'_>) -> Result<LineOutcome> {
        self.selected = self.selected.saturating_add(1);
        if self.search.wanted_result == WantedResult::Any {
            return Ok(LineOutcome::Done);
        }
        if self.is_binary && self.search.wanted_result == WantedResult::Lines {
            return Ok(if emit(Record::Binary)? {
                LineOutcome::Done
            } else {
                LineOutcome::Stop
            });
        }
        if self.shows_lines() {
            self.before_bytes = 0;
            for (number, line) in std::mem::take(&mut self.before) {
                if !self.show(number, line, None, emit)? {
                    return Ok(LineOutcome::Stop);
                }
            }
            let spans = if self.search.invert {
                Vec::new()
            } else {
                self.search.matcher.spans(line)
            };
            if !self.show(number, line.to_vec(), Some(spans), emit)? {
                return Ok(LineOutcome::Stop);
            }
            self.after = self.search.after;
        }
        Ok(if self.is_full() && self.after == 0 {
            LineOutcome::Done
        } else {
            LineOutcome::Continue
        })
    }

    fn keep_context(&mut self, number: u64, line: &[u8]) {
        self.before_bytes = self.before_bytes.saturating_add(line.len());
        self.before.push_back((number, line.to_vec()));
        while self.before.len() > self.search.before || self.before_bytes > BEFORE_MAX_BYTES {
            let Some((_, oldest)) = self.before.pop_front() else {
                return;
            };
            self.before_bytes = self.before_bytes.saturating_sub(oldest.len());
        }
    }

    /// Emits a line. A selected line has spans, a context line has `None`.
    fn show(
        &mut self,
        number: u64,
        text: Vec<u8>,
        spans: Option<Vec<std::ops::Range<usize>>>,
        emit: Emit<'_>,
    ) -> Result<bool> {
        let begins_group = self
            .shown
            .is_none_or(|shown| shown.saturating_add(1) != number);
        self.shown = Some(number);
        emit(Record::Line(Line {
            number,
            text,
            selected: spans.is_some(),
            spans: spans.unwrap_or_default(),
            begins_group,
        }))
    }
}
