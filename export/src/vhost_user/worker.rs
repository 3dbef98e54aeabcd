//! Execution of requests, one after the other.

use diskfs_block::{BlockWrite, Error, Result as BlockResult};

use crate::vhost_user::device::{Cursor, Malformed, TakenRequest};

use super::config::{LARGEST_REQUEST, LONGEST_RANGE, MOST_RANGES};
use super::request::{
    HEADER_BYTES, ID_BYTES, RANGE_BYTES, Range, Request, SECTOR_SIZE, Status, locate,
};
use super::{BlockDevice, Disk};

/// The size of the pieces of a longer request: small enough for the processor's cache.
const PIECE_BYTES: usize = 256 * 1024;

/// The state that a thread keeps between requests.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// The buffer between the device and the guest's memory. A guest may change its memory at any
    /// time, but a driver's buffer must not change meanwhile.
    buffer: Vec<u8>,
}

/// The reason why a request fails.
enum Failure {
    /// The request is invalid.
    Refused(&'static str),
    Memory(Malformed),
    Device(&'static str, Error),
    Unsupported,
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::Memory(malformed)
    }
}

type Outcome<T = ()> = Result<T, Failure>;

/// Converts the result of a device operation.
fn device<T>(operation: &'static str, result: BlockResult<T>) -> Outcome<T> {
    result.map_err(|error| Failure::Device(operation, error))
}

impl Worker {
    /// Executes a request and answers it. `writes_through` is true for a guest that never flushes.
    pub(super) fn answer(
        &mut self,
        device: &BlockDevice,
        taken: &mut TakenRequest<'_>,
        writes_through: bool,
    ) {
        let (status, written) = match self.carry_out(device, taken, writes_through) {
            Ok(written) => (Status::Done, written),
            Err(failure) => (failure.report(device, taken), 0),
        };
        finish(taken, status, written);
    }

    /// Executes a request. Returns the number of bytes written for the guest, without the status.
    fn carry_out(
        &mut self,
        device: &BlockDevice,
        taken: &TakenRequest<'_>,
        writes_through: bool,
    ) -> Outcome<u64> {
        let disk = &*device.disk();
        let mut reader = taken.reader();
        let mut header = [0; HEADER_BYTES];
        reader.read(&mut header)?;
        let room = taken.writable_bytes().checked_sub(1);
        let room = room.ok_or(Failure::Refused("invalid request: no room for the status"))?;
        let sent = taken.readable_bytes().saturating_sub(16);
        match Request::parse(header) {
            Request::Read { sector } => {
                self.read(disk, sector, room, taken.writer())?;
                return Ok(room);
            }
            Request::Id => return write_id(device, room, taken.writer()),
            Request::Write { sector } => self.write(writable(disk)?, sector, sent, reader)?,
            Request::Flush => return flush(disk).map(|()| 0),
            request @ (Request::Discard | Request::WriteZeroes) => {
                change_ranges(writable(disk)?, request, sent, reader)?;
            }
            Request::Unknown => return Err(Failure::Unsupported),
        }
        if writes_through {
            flush(disk)?;
        }
        Ok(0)
    }

    fn read(&mut self, disk: &Disk, sector: u64, len_bytes: u64, mut to: Cursor<'_>) -> Outcome {
        let disk = disk.reader();
        let mut offset = place(sector, len_bytes, disk.size_bytes())?;
        let mut left = len_bytes;
        while left > 0 {
            let piece = self.piece(left);
            device("read", disk.read_at(offset, piece))?;
            to.write(piece)?;
            advance(&mut offset, &mut left, piece);
        }
        Ok(())
    }

    fn write(
        &mut self,
        disk: &dyn BlockWrite,
        sector: u64,
        len_bytes: u64,
        mut from: Cursor<'_>,
    ) -> Outcome {
        let mut offset = place(sector, len_bytes, disk.size_bytes())?;
        let mut left = len_bytes;
        while left > 0 {
            let piece = self.piece(left);
            from.read(piece)?;
            device("write", disk.write_at(offset, piece))?;
            advance(&mut offset, &mut left, piece);
        }
        Ok(())
    }

    /// Returns the buffer for the next piece of the remaining bytes.
    fn piece(&mut self, left: u64) -> &mut [u8] {
        let len = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        self.buffer.get_mut(..len).unwrap_or_default()
    }
}

impl Failure {
    /// Converts a failure into the guest's status; the log has the details.
    fn report(self, device: &BlockDevice, taken: &TakenRequest<'_>) -> Status {
        match self {
            Self::Unsupported => return Status::Unsupported,
            Self::Refused(reason) => taken.log_fault(&reason),
            Self::Memory(malformed) => taken.log_fault(&malformed),
            Self::Device(operation, error) => device.failures.add(operation, error),
        }
        Status::Failed
    }
}

/// Writes the status and completes the request.
pub(super) fn finish(taken: &mut TakenRequest<'_>, status: Status, written: u64) {
    match taken.write_last(status.byte()) {
        Ok(()) => taken.set_written(written.saturating_add(1)),
        Err(malformed) => taken.log_fault(&malformed),
    }
}

fn advance(offset: &mut u64, left: &mut u64, piece: &[u8]) {
    let len = diskfs_block::len_of(piece);
    *offset = offset.saturating_add(len);
    *left = left.saturating_sub(len);
}

/// Returns the byte offset on the device.
fn place(sector: u64, len_bytes: u64, size_bytes: u64) -> Outcome<u64> {
    if len_bytes > LARGEST_REQUEST {
        return Err(Failure::Refused(
            "invalid request: larger than the limit that the guest was given",
        ));
    }
    let offset = locate(sector, len_bytes, size_bytes);
    offset.ok_or(Failure::Refused(
        "invalid request: sectors past the end of the device",
    ))
}

fn writable(disk: &Disk) -> Outcome<&dyn BlockWrite> {
    let writer = disk.writer();
    writer.ok_or(Failure::Refused(
        "invalid request: write to a read-only device",
    ))
}

/// Flushes the device, so that completed writes are durable.
fn flush(disk: &Disk) -> Outcome {
    disk.writer()
        .map_or(Ok(()), |disk| device("flush", disk.flush()))
}

fn write_id(device: &BlockDevice, room: u64, mut to: Cursor<'_>) -> Outcome<u64> {
    let mut id = [0; ID_BYTES];
    for (to, from) in id.iter_mut().zip(device.serial.bytes()) {
        *to = from;
    }
    let len = usize::try_from(room).map_or(ID_BYTES, |room| room.min(ID_BYTES));
    let id = id.get(..len).unwrap_or_default();
    to.write(id)?;
    Ok(diskfs_block::len_of(id))
}

/// Discards or zeroes the ranges that the guest lists.
fn change_ranges(
    disk: &dyn BlockWrite,
    request: Request,
    len_bytes: u64,
    mut from: Cursor<'_>,
) -> Outcome {
    let (count, rest) = (len_bytes / 16, len_bytes % 16);
    if rest != 0 || count == 0 || count > u64::from(MOST_RANGES) {
        return Err(Failure::Refused("invalid request: wrong number of ranges"));
    }
    for _ in 0..count {
        let mut bytes = [0; RANGE_BYTES];
        from.read(&mut bytes)?;
        change_range(disk, request, Range::parse(bytes))?;
    }
    Ok(())
}

fn change_range(disk: &dyn BlockWrite, request: Request, range: Range) -> Outcome {
    if range.has_unknown_flags(request) {
        return Err(Failure::Unsupported);
    }
    if range.sectors > LONGEST_RANGE {
        return Err(Failure::Refused(
            "invalid range: longer than the limit that the guest was given",
        ));
    }
    let len_bytes = u64::from(range.sectors).saturating_mul(SECTOR_SIZE.into());
    let offset = locate(range.sector, len_bytes, disk.size_bytes());
    let offset = offset.ok_or(Failure::Refused(
        "invalid range: sectors past the end of the device",
    ))?;
    match request {
        Request::Discard => device("discard", disk.discard(offset, len_bytes)),
        _ => device("write zeroes", disk.write_zeroes(offset, len_bytes)),
    }
}
