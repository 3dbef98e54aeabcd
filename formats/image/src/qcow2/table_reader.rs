//! Sequential reading of a table with entries of varying length.

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::units::HostOffset;

/// The number of bytes to read at once: a table of a few snapshots or bitmaps needs one read.
const WINDOW_BYTES: u64 = 4096;

/// A reader of a table through a window, so that a table needs no more memory than its longest
/// entry.
#[derive(Debug)]
pub(crate) struct TableReader<'a> {
    file: &'a dyn BlockRead,
    what: &'static str,
    start: HostOffset,
    at: HostOffset,
    max_bytes: u64,
    window: Vec<u8>,
    window_at: HostOffset,
}

impl<'a> TableReader<'a> {
    /// Creates a reader for the table at `start`, of at most `max_bytes`.
    pub(crate) const fn new(
        file: &'a dyn BlockRead,
        start: HostOffset,
        max_bytes: u64,
        what: &'static str,
    ) -> Self {
        Self {
            file,
            what,
            start,
            at: start,
            max_bytes,
            window: Vec::new(),
            window_at: start,
        }
    }

    /// Returns the offset of the next byte.
    pub(crate) const fn at(&self) -> HostOffset {
        self.at
    }

    /// Returns the next `len_bytes` and advances past them.
    pub(crate) fn take(&mut self, len_bytes: u64) -> Result<&[u8]> {
        let at = self.at;
        let end = at.plus(len_bytes);
        if end.0.saturating_sub(self.start.0) > self.max_bytes {
            let reason = format!(
                "{} is too large: at most {} bytes",
                self.what, self.max_bytes
            );
            return Err(Error::corrupt(reason).at(at.0));
        }
        if end.0 > self.file.size_bytes() {
            let reason = format!(
                "{} extends to {end}, past the end of the file ({:#x})",
                self.what,
                self.file.size_bytes()
            );
            return Err(Error::corrupt(reason).at(at.0));
        }
        if end > self.window_at.plus(to_u64(self.window.len())) {
            let left = self.file.size_bytes().saturating_sub(at.0);
            let wanted = len_bytes.max(WINDOW_BYTES).min(left);
            self.window.resize(to_usize(wanted), 0);
            self.window_at = at;
            self.file.read_at(at.0, &mut self.window)?;
        }
        self.at = end;
        let start = to_usize(at.0.saturating_sub(self.window_at.0));
        self.window
            .get(start..start.saturating_add(to_usize(len_bytes)))
            .ok_or_else(|| Error::invalid("read past the end of a table's window").at(at.0))
    }

    /// Skips to the next multiple of 8 from the table's start.
    pub(crate) fn align(&mut self) -> Result<()> {
        let len_bytes = self.at.0.saturating_sub(self.start.0);
        let padding = len_bytes.next_multiple_of(8).saturating_sub(len_bytes);
        self.take(padding).map(|_| ())
    }
}
