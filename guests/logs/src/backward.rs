//! A text log, read from its end.

use std::collections::VecDeque;
use std::fs::File as HostFile;
use std::io;
use std::os::unix::fs::FileExt;

use super::Line;
use super::line::{MAX_RECORD_BYTES, Style};
use diskfs_disk::File;

/// The size of a read.
const PIECE_BYTES: usize = 64 << 10;

/// A text with random access.
pub(super) enum Text {
    /// A file of the guest.
    Guest(File),
    /// The decompressed contents of a file.
    Unpacked(HostFile),
}

impl Text {
    fn size_bytes(&self) -> io::Result<u64> {
        match self {
            Self::Guest(file) => Ok(file.size_bytes()),
            Self::Unpacked(file) => Ok(file.metadata()?.len()),
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buf.len() {
            let at = offset + filled as u64;
            let read = match self {
                Self::Guest(file) => file.read_at(at, &mut buf[filled..])?,
                Self::Unpacked(file) => file.read_at(&mut buf[filled..], at)?,
            };
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
        }
        Ok(())
    }
}

/// The records of a text log, newest first.
pub(super) struct Backward {
    text: Text,
    style: Style,
    /// The offset in the file of the first byte in `kept`.
    start: u64,
    /// The bytes that were read and not returned yet, up to the end of the next line.
    kept: Vec<u8>,
    has_more: bool,
    /// The time of the record that was returned before this one. It is also the time of a line that
    /// has no time and no line with a time before it.
    newer_us: u64,
    /// Lines without a time, in file order, which belong to the next record.
    untimed: VecDeque<Vec<u8>>,
    problem: Option<io::Error>,
}

impl Backward {
    pub(super) fn new(text: Text, style: Style) -> io::Result<Self> {
        let size = text.size_bytes()?;
        let mut backward = Self {
            text,
            start: size,
            kept: Vec::new(),
            has_more: size > 0,
            newer_us: style.written_us,
            style,
            untimed: VecDeque::new(),
            problem: None,
        };
        backward.more()?;
        if backward.kept.last() == Some(&b'\n') {
            backward.kept.pop();
        }
        Ok(backward)
    }

    /// Reads the piece before `kept`.
    fn more(&mut self) -> io::Result<()> {
        let len = (PIECE_BYTES as u64).min(self.start);
        let mut piece = vec![0; usize::try_from(len).unwrap_or(PIECE_BYTES)];
        let start = self.start - len;
        self.text.read(start, &mut piece)?;
        // Of a line that is too long, the start is kept.
        self.kept.truncate(MAX_RECORD_BYTES);
        piece.append(&mut self.kept);
        (self.start, self.kept) = (start, piece);
        Ok(())
    }

    /// Returns the previous line; `None` at the start, or if reading fails.
    fn line(&mut self) -> Option<Vec<u8>> {
        let mut looked_at = self.kept.len();
        while self.has_more {
            let looked_for = &self.kept[..looked_at.min(self.kept.len())];
            if let Some(end) = looked_for.iter().rposition(|byte| *byte == b'\n') {
                let line = self.kept.split_off(end + 1);
                self.kept.pop();
                return Some(line);
            }
            if self.start == 0 {
                self.has_more = false;
                return Some(std::mem::take(&mut self.kept));
            }
            let before = self.start;
            if let Err(error) = self.more() {
                self.problem = Some(error);
                self.has_more = false;
            }
            looked_at = usize::try_from(before - self.start).unwrap_or(0);
        }
        None
    }

    /// Adds the error that ended the decompression early.
    pub(super) fn with_problem(mut self, problem: Option<io::Error>) -> Self {
        self.problem = problem;
        self
    }

    pub(super) fn take_problem(&mut self) -> Option<io::Error> {
        self.problem.take()
    }

    pub(super) fn next(&mut self) -> Option<Line> {
        let mut size: usize = self.untimed.iter().map(|text| text.len() + 1).sum();
        while let Some(text) = self.line() {
            if let Some(mut line) = self.style.begin(&text) {
                self.untimed.drain(..).for_each(|text| line.add(&text));
                self.newer_us = line.realtime_us;
                return Some(line);
            }
            size += text.len() + 1;
            self.untimed.push_front(text);
            // The lines exceed one record: perhaps the log has no times.
            if size > MAX_RECORD_BYTES {
                break;
            }
        }
        let text = self.untimed.pop_back()?;
        Some(self.style.plain(self.newer_us, &text))
    }
}
