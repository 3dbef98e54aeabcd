//! A text log, read from its start.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};

use super::Line;
use super::line::{MAX_RECORD_BYTES, Style};

/// The limit on lines before the first one with a time; a log with more is treated as a log without
/// times.
const MAX_LEADING_LINES: usize = 1000;

/// The records of a text log, oldest first.
pub(super) struct Forward {
    text: BufReader<Box<dyn Read>>,
    style: Style,
    /// The records that were read and not returned yet.
    ready: VecDeque<Line>,
    /// The record that receives the following lines without a time.
    open: Option<Line>,
    is_at_end: bool,
    problem: Option<io::Error>,
}

impl Forward {
    pub(super) fn new(text: Box<dyn Read>, style: Style) -> Self {
        let mut forward = Self {
            text: BufReader::with_capacity(64 << 10, text),
            style,
            ready: VecDeque::new(),
            open: None,
            is_at_end: false,
            problem: None,
        };
        forward.begin();
        forward
    }

    /// Reads the lines before the first time. They get that time, the best known estimate.
    fn begin(&mut self) {
        let mut leading = Vec::new();
        while let Some(line) = self.line() {
            if let Some(first) = self.style.begin(&line) {
                self.open = Some(first);
                break;
            }
            leading.push(line);
            let size: usize = leading.iter().map(Vec::len).sum();
            if leading.len() >= MAX_LEADING_LINES || size >= MAX_RECORD_BYTES {
                break;
            }
        }
        let open = self.open.as_ref();
        let time = open.map_or(self.style.written_us, |open| open.realtime_us);
        let lines = leading.iter().map(|line| self.style.plain(time, line));
        self.ready = lines.collect();
    }

    /// Returns the next line without its end, cut if it is too long; `None` at the end or if
    /// reading fails.
    fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let mut is_there = false;
        while !self.is_at_end {
            let piece = match self.text.fill_buf() {
                Ok([]) => {
                    self.is_at_end = true;
                    break;
                }
                Ok(piece) => piece,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.problem = Some(error);
                    self.is_at_end = true;
                    break;
                }
            };
            is_there = true;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let text = &piece[..end.unwrap_or(piece.len())];
            let room = MAX_RECORD_BYTES.saturating_sub(line.len());
            line.extend_from_slice(&text[..text.len().min(room)]);
            let used = end.map_or(text.len(), |end| end + 1);
            self.text.consume(used);
            if end.is_some() {
                break;
            }
        }
        is_there.then_some(line)
    }

    pub(super) fn take_problem(&mut self) -> Option<io::Error> {
        self.problem.take()
    }

    pub(super) fn next(&mut self) -> Option<Line> {
        if let Some(line) = self.ready.pop_front() {
            return Some(line);
        }
        while let Some(text) = self.line() {
            match (self.style.begin(&text), &mut self.open) {
                (Some(line), open) => {
                    if let Some(before) = open.replace(line) {
                        return Some(before);
                    }
                }
                (None, Some(open)) if open.message.len() + text.len() < MAX_RECORD_BYTES => {
                    open.add(&text);
                }
                (None, Some(open)) => {
                    let next = self.style.plain(open.realtime_us, &text);
                    return Some(std::mem::replace(open, next));
                }
                // A log without times.
                (None, None) => return Some(self.style.plain(self.style.written_us, &text)),
            }
        }
        self.open.take()
    }
}
