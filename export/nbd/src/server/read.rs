//! Reads, whose holes are not read.

use std::sync::Arc;

use diskfs_block::{BlockRead, Result};

use super::answer::Answer;
use super::export::Export;
use crate::protocol::Headers;
use crate::stream::{Buffer, Buffers};

/// The length of the data in one chunk: while it is sent, the next one is read.
const CHUNK_BYTES: u64 = 1 << 20;

/// The length from which holes are looked for. Below it, reading zeroes costs less than the
/// question.
const MIN_SPARSE_BYTES: u64 = 32 << 10;

/// The number of questions for holes in one read. Ours: after them, the rest is read as it is.
const MAX_QUESTIONS: usize = 1024;

/// Answers a read of a range within the device. The range is at most the maximum payload.
pub(super) fn answer(
    export: &Export,
    (offset, len_bytes): (u64, u64),
    is_whole: bool,
    buffers: &Arc<Buffers>,
    answer: Answer,
) {
    if answer.headers == Headers::Simple || is_whole || len_bytes < MIN_SPARSE_BYTES {
        match piece(export.device.reader(), offset, len_bytes, buffers) {
            Ok(data) => answer.data(offset, data),
            Err(error) => answer.failure(&error),
        }
        return;
    }
    match pieces(export, offset, len_bytes, buffers, &answer) {
        Ok(Some((at, last))) => answer.data(at, last),
        Ok(None) => answer.end(),
        Err(error) => answer.failure(&error),
    }
}

/// Sends the pieces of a range. Returns the last one, if it is data: it ends the reply.
fn pieces(
    export: &Export,
    offset: u64,
    len_bytes: u64,
    buffers: &Arc<Buffers>,
    answer: &Answer,
) -> Result<Option<(u64, Buffer)>> {
    let end = offset.saturating_add(len_bytes);
    let mut questions = 0;
    let mut at = offset;
    while at < end {
        let left = end.saturating_sub(at);
        let (run_bytes, is_zero) = if questions < MAX_QUESTIONS {
            questions = questions.saturating_add(1);
            run(export, at, left)?
        } else {
            (left, false)
        };
        if is_zero {
            answer.hole(at, u32::try_from(run_bytes).unwrap_or(u32::MAX));
            at = at.saturating_add(run_bytes);
            continue;
        }
        let run_end = at.saturating_add(run_bytes);
        while at < run_end {
            let piece_bytes = run_end.saturating_sub(at).min(CHUNK_BYTES);
            let data = piece(export.device.reader(), at, piece_bytes, buffers)?;
            let next = at.saturating_add(piece_bytes);
            if next >= end {
                return Ok(Some((at, data)));
            }
            answer.some_data(at, data);
            at = next;
        }
    }
    Ok(None)
}

/// Returns the length of the run at `at`, within `left` bytes, and whether it is zeroes.
fn run(export: &Export, at: u64, left: u64) -> Result<(u64, bool)> {
    let known = export.data_run.left_bytes(at);
    if known > 0 {
        return Ok((known.min(left), false));
    }
    let extent = export.device.reader().extent_at(at)?;
    let is_zero = extent.kind.reads_as_zeroes();
    if !is_zero {
        export.data_run.set(at, extent.len_bytes);
    }
    Ok((extent.len_bytes.clamp(1, left), is_zero))
}

fn piece(
    device: &dyn BlockRead,
    offset: u64,
    len_bytes: u64,
    buffers: &Arc<Buffers>,
) -> Result<Buffer> {
    let mut data = buffers.take(usize::try_from(len_bytes).unwrap_or(usize::MAX));
    device.read_at(offset, &mut data)?;
    Ok(data)
}
