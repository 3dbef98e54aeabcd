//! Copying from the backing file into an overlay that is in use.
//!
//! Clusters are written only where the image stores nothing itself. This is decided under the lock of
//! all allocations, so what the guest has written meanwhile stays.

use std::sync::PoisonError;

use diskfs_block::Result;

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::backing_name;
use crate::qcow2::mapping::RunKind;
use crate::qcow2::units::GuestOffset;
use crate::qcow2::write::Writer;
use crate::qcow2::write::plan::{PlanFor, Planned};

impl Writer {
    /// Stores `buf`, the bytes of the backing file at `offset`, where the image stores nothing
    /// itself. The guest reads the same as before.
    pub(crate) fn populate(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.begin()?;
        self.in_pieces(offset, buf, |at, rest| self.populate_some(at, rest))
    }

    /// Stores the front of `buf` or passes over what is stored, and returns its length.
    fn populate_some(&self, at: GuestOffset, buf: &[u8]) -> Result<u64> {
        loop {
            let run = self.reader.mapping.run_at(at, to_u64(buf.len()))?;
            if !matches!(run.kind, RunKind::Unallocated(_)) {
                return Ok(run.len_bytes);
            }
            if let Planned::Allocation(plan) = self.plan(at, run.len_bytes, PlanFor::Copy)? {
                let done = plan.len_bytes();
                let front = buf.get(..to_usize(done)).unwrap_or(buf);
                self.carry_out(&plan, front)?;
                return Ok(done);
            }
        }
    }

    /// Removes the backing file, of which the image needs nothing but zeroes any more. A crash leaves
    /// an image with it or without it, and the same disk.
    pub(crate) fn detach(&self) -> Result<()> {
        self.begin()?;
        self.flush()?;
        // No other change of the header meanwhile.
        let _flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let _locked = self.lock();
        backing_name::set_copied(self.image.as_ref())?;
        self.reader.backing.detach();
        Ok(())
    }
}
