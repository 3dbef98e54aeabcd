//! Block statuses.

use diskfs_block::Result;

use super::export::{Export, MetaContext};
use crate::protocol::{BlockDescriptor, BlockStatus, Headers, MAX_DESCRIPTORS};

/// The number of runs of a context that one request looks up. Ours: a client continues where the
/// answer ends.
const MAX_LOOKUPS: usize = 64 << 10;

/// The longest run without extended headers: 4 GiB minus 64 KiB, so that runs stay aligned.
const MAX_COMPACT_RUN: u64 = 0xffff_0000;

/// A question for the status of a range within the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) offset: u64,
    pub(super) len_bytes: u64,
    /// True if one run is enough, which must not be longer than the range.
    pub(super) is_for_one: bool,
}

/// Returns the status of a range in the contexts of these numbers.
pub(super) fn statuses(
    export: &Export,
    numbers: &[u32],
    question: Question,
    headers: Headers,
) -> Result<Vec<BlockStatus>> {
    let mut statuses = Vec::new();
    for number in numbers {
        let index = usize::try_from(*number).unwrap_or(usize::MAX);
        let Some(context) = export.contexts.get(index) else {
            continue;
        };
        statuses.push(BlockStatus {
            context: *number,
            runs: runs(context.as_ref(), question, headers)?,
        });
    }
    Ok(statuses)
}

fn runs(
    context: &dyn MetaContext,
    question: Question,
    headers: Headers,
) -> Result<Vec<BlockDescriptor>> {
    let max_run = if headers == Headers::Extended {
        u64::MAX
    } else {
        MAX_COMPACT_RUN
    };
    let end = question.offset.saturating_add(question.len_bytes);
    let mut runs: Vec<BlockDescriptor> = Vec::new();
    let mut at = question.offset;
    for _ in 0..MAX_LOOKUPS {
        if at >= end {
            break;
        }
        let status = context.status_at(at)?;
        let left = end.saturating_sub(at);
        let len_bytes = status.len_bytes.clamp(1, left.min(max_run));
        let flags = status.flags.into();
        let is_full = runs.len()
            >= if question.is_for_one {
                1
            } else {
                MAX_DESCRIPTORS
            };
        match runs.last_mut() {
            Some(last) if last.flags == flags && fits(last.len_bytes, len_bytes, max_run) => {
                last.len_bytes = last.len_bytes.saturating_add(len_bytes);
            }
            _ if is_full => break,
            _ => runs.push(BlockDescriptor { len_bytes, flags }),
        }
        at = at.saturating_add(len_bytes);
    }
    Ok(runs)
}

fn fits(run_bytes: u64, more_bytes: u64, max_run: u64) -> bool {
    run_bytes.saturating_add(more_bytes) <= max_run
}
