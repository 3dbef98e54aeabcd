//! The search of one file.

use std::collections::VecDeque;

use diskfs::{Node, Result, SortedEntry};

use super::contents::{Lines, Piece};
use super::matcher::Matcher;
use super::record::{Line, Record};
use crate::cli::session::Located;
use crate::cli::show::name::join;

/// What lines before a match are kept in case there is one; older ones are not shown then.
const BEFORE_MAX_BYTES: usize = 8 << 20;

/// What becomes of binary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    /// That they match is told, and no line shown.
    Tell,
    /// They don't match.
    Skip,
    /// They are texts.
    Text,
}

/// What of a file is to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matters {
    Lines,
    /// How many match.
    Count,
    /// Whether one does.
    Any,
}

/// What is searched for, and how much is to be found.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) matcher: Matcher,
    /// Lines that don't match.
    pub(super) invert: bool,
    /// Lines of context.
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) max_count: Option<u64>,
    pub(super) matters: Matters,
    pub(super) binary: Binary,
    /// Also in what is packed in a file.
    pub(super) unpack: bool,
}

/// Takes a record; `false` to have no more of them.
type Emit<'a> = &'a mut dyn FnMut(Record) -> Result<bool>;

/// How a file goes on behind a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Line,
    /// Nothing more is to be found.
    Done,
    /// Nobody wants more.
    Cut,
}

impl Search {
    /// Searches a file. Returns whether all that was found was taken.
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
                Next::Line => {}
                Next::Done => break,
                Next::Cut => return Ok(false),
            }
        }
        let selected = progress.selected;
        emit(Record::End { selected })
    }
}

/// How far the search of a file has come.
struct InFile<'a> {
    search: &'a Search,
    /// Of the next line.
    number: u64,
    selected: u64,
    is_binary: bool,
    /// Lines that may turn out to be before a match, with their numbers.
    before: VecDeque<(u64, Vec<u8>)>,
    before_bytes: usize,
    /// How many lines behind the last match are still shown.
    after: usize,
    /// The last line that was shown.
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

    /// Goes through the lines of a piece.
    fn piece(&mut self, piece: Piece<'_>, emit: Emit<'_>) -> Result<Next> {
        let Piece { text, sees_zero } = piece;
        if self.search.binary != Binary::Text && sees_zero {
            self.is_binary = true;
        }
        if self.is_binary {
            if self.search.binary == Binary::Skip {
                self.selected = 0;
                return Ok(Next::Done);
            }
            // As grep(1) has it: zero bytes end lines, too.
            text.iter_mut()
                .filter(|byte| **byte == 0)
                .for_each(|byte| *byte = b'\n');
        }
        if self.may_skip(text) {
            let lines = text.split_inclusive(|byte| *byte == b'\n').count();
            self.number = self.number.saturating_add(lines as u64);
            return Ok(Next::Line);
        }
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let next = self.line(line.strip_suffix(b"\n").unwrap_or(line), emit)?;
            if next != Next::Line {
                return Ok(next);
            }
        }
        Ok(Next::Line)
    }

    /// Whether nothing of these lines is to be shown.
    fn may_skip(&self, piece: &[u8]) -> bool {
        let search = self.search;
        !search.invert
            && self.after == 0
            && (search.before == 0 || !self.shows_lines())
            && !self.is_full()
            && !search.matcher.may_match(piece)
    }

    fn shows_lines(&self) -> bool {
        self.search.matters == Matters::Lines && !self.is_binary
    }

    fn is_full(&self) -> bool {
        self.search
            .max_count
            .is_some_and(|max| self.selected >= max)
    }

    fn line(&mut self, line: &[u8], emit: Emit<'_>) -> Result<Next> {
        let number = self.number;
        self.number = self.number.saturating_add(1);
        let is_full = self.is_full();
        if !is_full && self.search.matcher.matches(line) != self.search.invert {
            return self.select(number, line, emit);
        }
        if self.after > 0 {
            self.after -= 1;
            if !self.show(number, line.to_vec(), None, emit)? {
                return Ok(Next::Cut);
            }
        } else if self.search.before > 0 && !is_full && self.shows_lines() {
            self.keep(number, line);
        }
        Ok(if is_full && self.after == 0 {
            Next::Done
        } else {
            Next::Line
        })
    }

    fn select(&mut self, number: u64, line: &[u8], emit: Emit<'_>) -> Result<Next> {
        self.selected = self.selected.saturating_add(1);
        if self.search.matters == Matters::Any {
            return Ok(Next::Done);
        }
        if self.is_binary && self.search.matters == Matters::Lines {
            return Ok(if emit(Record::Binary)? {
                Next::Done
            } else {
                Next::Cut
            });
        }
        if self.shows_lines() {
            self.before_bytes = 0;
            for (number, line) in std::mem::take(&mut self.before) {
                if !self.show(number, line, None, emit)? {
                    return Ok(Next::Cut);
                }
            }
            let spans = if self.search.invert {
                Vec::new()
            } else {
                self.search.matcher.spans(line)
            };
            if !self.show(number, line.to_vec(), Some(spans), emit)? {
                return Ok(Next::Cut);
            }
            self.after = self.search.after;
        }
        Ok(if self.is_full() && self.after == 0 {
            Next::Done
        } else {
            Next::Line
        })
    }

    fn keep(&mut self, number: u64, line: &[u8]) {
        self.before_bytes = self.before_bytes.saturating_add(line.len());
        self.before.push_back((number, line.to_vec()));
        while self.before.len() > self.search.before || self.before_bytes > BEFORE_MAX_BYTES {
            let Some((_, oldest)) = self.before.pop_front() else {
                return;
            };
            self.before_bytes = self.before_bytes.saturating_sub(oldest.len());
        }
    }

    /// Shows a line: one that was selected has spans.
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
