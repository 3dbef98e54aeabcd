//! One request, done on a thread that may wait for the device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Result, write_zeroes_as_data};

use super::answer::Answer;
use super::export::Export;
use super::read;
use super::status::{self, Question};
use crate::protocol::{Command, CommandFlags, ErrorNumber, Headers};
use crate::stream::{Buffer, Buffers};

/// The number of runs that are looked at before a fast write of zeroes is refused.
const MAX_FAST_RUNS: usize = 256;

/// A request with its payload, whose range was checked.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) flags: CommandFlags,
    pub(super) offset: u64,
    pub(super) len_bytes: u64,
    /// The data of a write.
    pub(super) payload: Buffer,
    /// The metadata contexts of a block status.
    pub(super) contexts: Vec<u32>,
}

/// The result of a command that has no data.
enum Done {
    Success,
    Refused(ErrorNumber, &'static str),
}

impl Job {
    /// Does the request, and answers it. A panic of the device is a failure of the request.
    pub(super) fn run(self, export: &Export, buffers: &Arc<Buffers>, answer: Answer) {
        let (outbox, headers) = (Arc::clone(&answer.outbox), answer.headers);
        let (cookie, request_offset) = (answer.cookie, answer.request_offset);
        let done = catch_unwind(AssertUnwindSafe(|| self.answer(export, buffers, answer)));
        if done.is_err() {
            let answer = Answer {
                outbox,
                headers,
                cookie,
                request_offset,
                permits: Vec::new(),
            };
            answer.error(ErrorNumber::Io, "the server failed", None);
        }
    }

    fn answer(self, export: &Export, buffers: &Arc<Buffers>, answer: Answer) {
        match self.command {
            Command::Read => {
                let is_whole = self.flags.contains(CommandFlags::DF);
                let range = (self.offset, self.len_bytes);
                read::answer(export, range, is_whole, buffers, answer);
            }
            Command::BlockStatus => self.statuses(export, answer),
            _ => match self.act(export) {
                Ok(Done::Success) => answer.success(),
                Ok(Done::Refused(number, reason)) => answer.error(number, reason, None),
                Err(error) => {
                    tracing::warn!(export = export.name, "{error}");
                    answer.failure(&error);
                }
            },
        }
    }

    fn statuses(&self, export: &Export, answer: Answer) {
        let question = Question {
            offset: self.offset,
            len_bytes: self.len_bytes,
            is_for_one: self.flags.contains(CommandFlags::REQ_ONE),
        };
        match status::statuses(export, &self.contexts, question, answer.headers) {
            Ok(statuses) => answer.statuses(&statuses),
            Err(error) => answer.failure(&error),
        }
    }

    /// Does a command that has no data in its answer.
    fn act(&self, export: &Export) -> Result<Done> {
        if self.command == Command::Cache {
            export
                .device
                .reader()
                .will_need(self.offset, self.len_bytes);
            return Ok(Done::Success);
        }
        let Some(device) = export.device.writer() else {
            // Only a flush comes here, of which a read-only export needs nothing.
            return Ok(Done::Success);
        };
        if matches!(self.command, Command::Trim | Command::WriteZeroes) {
            export.data_run.forget();
        }
        match self.command {
            Command::Write => device.write_at(self.offset, &self.payload)?,
            Command::Trim => device.discard(self.offset, self.len_bytes)?,
            Command::WriteZeroes => {
                if let Done::Refused(number, reason) = self.write_zeroes(device)? {
                    return Ok(Done::Refused(number, reason));
                }
            }
            _ => {}
        }
        if self.command == Command::Flush || self.flags.contains(CommandFlags::FUA) {
            device.flush()?;
        }
        Ok(Done::Success)
    }

    fn write_zeroes(&self, device: &dyn BlockWrite) -> Result<Done> {
        let is_provisioned = self.flags.contains(CommandFlags::NO_HOLE);
        if self.flags.contains(CommandFlags::FAST_ZERO) {
            // A device doesn't say how fast it writes zeroes; only what is zeroes is surely fast.
            if is_provisioned || !is_zero(device, self.offset, self.len_bytes)? {
                let reason = "writing zeroes may not be fast";
                return Ok(Done::Refused(ErrorNumber::NotSupported, reason));
            }
        } else if is_provisioned {
            write_zeroes_as_data(device, self.offset, self.len_bytes)?;
        } else {
            device.write_zeroes(self.offset, self.len_bytes)?;
        }
        Ok(Done::Success)
    }
}

/// Returns true if few questions show that the range is zeroes.
fn is_zero(device: &dyn BlockRead, offset: u64, len_bytes: u64) -> Result<bool> {
    let end = offset.saturating_add(len_bytes);
    let mut at = offset;
    for _ in 0..MAX_FAST_RUNS {
        if at >= end {
            return Ok(true);
        }
        let extent = device.extent_at(at)?;
        if !extent.kind.reads_as_zeroes() {
            return Ok(false);
        }
        at = at.saturating_add(extent.len_bytes.max(1));
    }
    Ok(at >= end)
}

/// Checks a request. The number of an error is what the client is told.
pub(super) fn check(
    export: &Export,
    command: Option<Command>,
    flags: CommandFlags,
    (offset, len_bytes): (u64, u64),
    headers: Headers,
) -> std::result::Result<Command, (ErrorNumber, &'static str)> {
    let Some(command) = command else {
        return Err((ErrorNumber::Invalid, "unknown command"));
    };
    if !allowed_flags(command, headers).contains(flags) {
        return Err((ErrorNumber::Invalid, "invalid flags of a command"));
    }
    if command == Command::Flush {
        return Ok(command);
    }
    let is_write = matches!(
        command,
        Command::Write | Command::WriteZeroes | Command::Trim
    );
    if is_write && export.device.writer().is_none() {
        return Err((ErrorNumber::NotPermitted, "the export is read-only"));
    }
    let size_bytes = export.device.reader().size_bytes();
    if diskfs_block::check_bounds(offset, len_bytes, size_bytes).is_err() {
        let is_full = matches!(command, Command::Write | Command::WriteZeroes);
        let number = if is_full {
            ErrorNumber::NoSpace
        } else {
            ErrorNumber::Invalid
        };
        return Err((number, "the range is past the end of the export"));
    }
    let unit = u64::from(export.sizes.minimum);
    if !offset.is_multiple_of(unit) || !len_bytes.is_multiple_of(unit) {
        return Err((ErrorNumber::Invalid, "the range is not aligned"));
    }
    match command {
        Command::Read if len_bytes > u64::from(export.sizes.maximum) => {
            Err((ErrorNumber::Overflow, "the read is too long"))
        }
        Command::Write if len_bytes > u64::from(export.sizes.maximum) => {
            Err((ErrorNumber::Invalid, "the write is too long"))
        }
        Command::BlockStatus if len_bytes == 0 => Err((ErrorNumber::Invalid, "the range is empty")),
        _ => Ok(command),
    }
}

fn allowed_flags(command: Command, headers: Headers) -> CommandFlags {
    let of_command = match command {
        Command::Read if headers != Headers::Simple => CommandFlags::DF,
        Command::Write if headers == Headers::Extended => CommandFlags::PAYLOAD_LEN,
        Command::WriteZeroes => CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO,
        Command::BlockStatus if headers == Headers::Extended => {
            CommandFlags::REQ_ONE | CommandFlags::PAYLOAD_LEN
        }
        Command::BlockStatus => CommandFlags::REQ_ONE,
        _ => CommandFlags::empty(),
    };
    of_command | CommandFlags::FUA
}
