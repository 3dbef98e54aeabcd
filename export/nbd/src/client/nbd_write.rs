//! The writing side of the device.

use std::collections::VecDeque;
use std::sync::PoisonError;

use diskfs_block::{
    BlockRead, BlockWrite, Error, ErrorKind, Result, check_bounds, len_of, write_zeroes_as_data,
};

use super::nbd::{IN_FLIGHT, MAX_ZEROES_BYTES, Nbd};
use crate::protocol::{Command, CommandFlags, TransmissionFlags};

impl Nbd {
    /// Fails unless the export may be written, and the range lies within it.
    fn check_write(&self, offset: u64, len_bytes: u64) -> Result<()> {
        if !self.is_writable() {
            let error = Error::new(ErrorKind::ReadOnly, "the server's export is read-only");
            return Err(error.in_file(self.name()));
        }
        check_bounds(offset, len_bytes, self.size_bytes())
    }

    /// Does changes, several at a time. All that were sent are over when it returns.
    fn change_all<'a>(
        &self,
        command: Command,
        parts: impl Iterator<Item = (u64, u64, &'a [u8])>,
    ) -> Result<()> {
        self.links.durability.written();
        self.allocation.invalidate();
        let mut in_flight = VecDeque::new();
        let mut result = Ok(());
        for (offset, len_bytes, payload) in parts {
            if in_flight.len() >= IN_FLIGHT
                && let Some(first) = in_flight.pop_front()
            {
                result = self.links.done(&first);
            }
            if result.is_err() {
                break;
            }
            let flags = CommandFlags::empty();
            match self
                .links
                .change(command, flags, (offset, len_bytes), payload)
            {
                Ok(sent) => in_flight.push_back(sent),
                Err(error) => result = Err(error),
            }
        }
        for sent in in_flight {
            result = result.and(self.links.done(&sent));
        }
        self.allocation.invalidate();
        self.links.durability.written();
        result
    }

    /// Writes a range that is aligned to the unit of requests.
    fn write_aligned(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let mut at = offset;
        let parts = buf.chunks(self.piece_bytes()).map(|part| {
            let start = at;
            at = at.saturating_add(len_of(part));
            (start, len_of(part), part)
        });
        self.change_all(Command::Write, parts)
    }

    /// Writes any range: the server's blocks at its edges are read before.
    fn write_unaligned(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let _edges = self.edges.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, mut whole) = self.widened(offset, len_of(buf))?;
        self.read_aligned(start, &mut whole)?;
        let skip = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
        let end = skip.saturating_add(buf.len());
        if let Some(part) = whole.get_mut(skip..end) {
            part.copy_from_slice(buf);
        }
        self.write_aligned(start, &whole)
    }

    /// Returns the aligned range within a range. It is empty if its end is not after its beginning.
    fn narrowed(&self, offset: u64, len_bytes: u64) -> (u64, u64) {
        let unit = self.unit();
        let end = offset.saturating_add(len_bytes);
        let start = offset.next_multiple_of(unit);
        (
            start,
            end.saturating_sub(end.checked_rem(unit).unwrap_or(0)),
        )
    }
}

/// Returns the parts of a range, each of at most [`MAX_ZEROES_BYTES`].
fn zeroes_parts(offset: u64, len_bytes: u64) -> impl Iterator<Item = (u64, u64, &'static [u8])> {
    let end = offset.saturating_add(len_bytes);
    let mut at = offset;
    std::iter::from_fn(move || {
        let len_bytes = end.saturating_sub(at).min(MAX_ZEROES_BYTES);
        let part = (at, len_bytes, &[][..]);
        at = at.saturating_add(len_bytes);
        (len_bytes > 0).then_some(part)
    })
}

impl BlockWrite for Nbd {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.check_write(offset, len_of(buf))?;
        if self.is_aligned(offset, len_of(buf)) {
            self.write_aligned(offset, buf)
        } else {
            self.write_unaligned(offset, buf)
        }
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.check_write(offset, len_bytes)?;
        let (start, end) = self.narrowed(offset, len_bytes);
        if !self.has(TransmissionFlags::SEND_WRITE_ZEROES) || start >= end {
            return write_zeroes_as_data(self, offset, len_bytes);
        }
        write_zeroes_as_data(self, offset, start.saturating_sub(offset))?;
        let inner = zeroes_parts(start, end.saturating_sub(start));
        self.change_all(Command::WriteZeroes, inner)?;
        let all_end = offset.saturating_add(len_bytes);
        write_zeroes_as_data(self, end, all_end.saturating_sub(end))
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.check_write(offset, len_bytes)?;
        let (start, end) = self.narrowed(offset, len_bytes);
        if !self.has(TransmissionFlags::SEND_TRIM) || start >= end {
            return Ok(());
        }
        let parts = zeroes_parts(start, end.saturating_sub(start));
        self.change_all(Command::Trim, parts)
    }

    fn flush(&self) -> Result<()> {
        if !self.is_writable() {
            return Ok(());
        }
        if !self.has(TransmissionFlags::SEND_FLUSH) {
            let reason = "cannot make writes durable: the NBD server has no flush";
            return Err(Error::unsupported(reason).in_file(self.name()));
        }
        self.links.driver.catch_up();
        if !self.links.durability.begin_flush() {
            let reason = "the NBD connection was lost after writes that were not flushed yet; \
                          the server may have lost them";
            return Err(Error::new(ErrorKind::Io, reason).in_file(self.name()));
        }
        let flags = CommandFlags::empty();
        let flushed = self
            .links
            .change(Command::Flush, flags, (0, 0), &[])
            .and_then(|sent| self.links.done(&sent));
        if flushed.is_err() {
            self.links.durability.written();
        }
        flushed
    }
}
