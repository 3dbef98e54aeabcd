//! Execution of a plan: the new data and the surrounding data are written to their new place.

use std::ops::Range;

use diskfs_block::Result;

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::mapping::RunKind;
use crate::qcow2::units::GuestOffset;
use crate::qcow2::write::Writer;
use crate::qcow2::write::plan::Plan;

/// The largest range for which writing everything at once is worth a copy in memory.
const JOINED_MAX_BYTES: u64 = 256 << 10;

impl Writer {
    /// Writes `data` to the plan's place and updates the tables, or undoes everything.
    pub(super) fn carry_out(&self, plan: &Plan, data: &[u8]) -> Result<()> {
        let filled = self.fill(plan, data);
        let mut locked = self.lock();
        if let Err(e) = filled {
            locked.abandon(plan)?;
            return Err(e);
        }
        locked.link(plan)
    }

    fn fill(&self, plan: &Plan, data: &[u8]) -> Result<()> {
        let before = self.surrounding(plan, plan.span.start..plan.bytes.start)?;
        let behind = self.surrounding(plan, plan.bytes.end..plan.span.end)?;
        let bits = self.geometry().cluster_bits();
        let start = plan.bytes.start.saturating_sub(to_u64(before.len()));
        let host = |guest: u64| plan.host_of(guest, bits).0;
        let target = self.data();
        if before.is_empty() && behind.is_empty() {
            return target.write_at(host(start), data);
        }
        if plan.len_bytes() <= JOINED_MAX_BYTES {
            return target.write_at(host(start), &[&before, data, &behind].concat());
        }
        for (at, part) in [
            (start, before.as_slice()),
            (plan.bytes.start, data),
            (plan.bytes.end, behind.as_slice()),
        ] {
            if !part.is_empty() {
                target.write_at(host(at), part)?;
            }
        }
        Ok(())
    }

    /// Returns the current bytes of the range, if they must be written to the new place.
    fn surrounding(&self, plan: &Plan, range: Range<u64>) -> Result<Vec<u8>> {
        let len = range.end.saturating_sub(range.start);
        let in_disk = range.end.min(self.size_bytes).saturating_sub(range.start);
        if len == 0 || plan.untouched && self.reads_as_zeroes(range.start, in_disk)? {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; to_usize(len)];
        let front = bytes.get_mut(..to_usize(in_disk)).unwrap_or_default();
        self.reader.read_at(range.start, front)?;
        Ok(bytes)
    }

    /// Returns true if the range is known to read as zeroes, without reading it.
    pub(super) fn reads_as_zeroes(&self, start: u64, len_bytes: u64) -> Result<bool> {
        let (mut at, mut left) = (GuestOffset(start), len_bytes);
        while left > 0 {
            let run = self.reader.mapping.run_at(at, left)?;
            match run.kind {
                RunKind::Zero(_) => {}
                RunKind::Unallocated(_) if self.is_backing_zero(at, run.len_bytes)? => {}
                _ => return Ok(false),
            }
            at = at.plus(run.len_bytes);
            left = left.saturating_sub(run.len_bytes);
        }
        Ok(true)
    }

    fn is_backing_zero(&self, at: GuestOffset, len_bytes: u64) -> Result<bool> {
        let Some(backing) = self.reader.backing.get() else {
            return Ok(true);
        };
        let there = backing_len(backing, at.0, len_bytes);
        if there == 0 {
            return Ok(true);
        }
        let status = backing.status_at(at.0, there)?;
        Ok(status.zero && status.len_bytes >= there)
    }
}

/// Returns how much of the range a backing file has.
fn backing_len(backing: &dyn diskfs_block::BlockRead, start: u64, len_bytes: u64) -> u64 {
    backing.size_bytes().saturating_sub(start).min(len_bytes)
}
