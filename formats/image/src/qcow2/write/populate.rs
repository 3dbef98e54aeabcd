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
            if let Some(done) = self.populate_unallocated(at, run.len_bytes, buf)? {
                return Ok(done);
            }
        }
    }

    /// Stores the front of `buf`, at most `len_bytes`, for which the image stored nothing a moment
    /// ago. Returns its length, or `None` if its start has been stored since.
    fn populate_unallocated(
        &self,
        at: GuestOffset,
        len_bytes: u64,
        buf: &[u8],
    ) -> Result<Option<u64>> {
        let Planned::Allocation(plan) = self.plan(at, len_bytes, PlanFor::Copy)? else {
            return Ok(None);
        };
        let done = plan.len_bytes();
        let front = buf.get(..to_usize(done)).unwrap_or(buf);
        self.carry_out(&plan, front)?;
        Ok(Some(done))
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use diskfs_block::BlockWrite;

    use super::*;
    use crate::create::{BackingCheck, L2Entries, NewBacking, NewImage, NewQcow2, create};
    use crate::node::Node;
    use crate::{CreateOptions, Format, OpenOptions, WritableImage};

    const CLUSTER: u64 = 64 << 10;
    const CLUSTERS: u64 = 6;
    /// The size of a subcluster.
    const PART: u64 = CLUSTER / 32;

    fn overlay(directory: &Path, l2_entries: L2Entries) -> WritableImage {
        let len = usize::try_from(CLUSTERS * CLUSTER).unwrap();
        std::fs::write(directory.join("base"), vec![7; len]).unwrap();
        let new = NewQcow2 {
            cluster_size_bytes: CLUSTER,
            l2_entries,
            backing: Some(NewBacking {
                name: "base".into(),
                format: Format::Raw,
                check: BackingCheck::Skip,
            }),
            ..NewQcow2::default()
        };
        let top = directory.join("top");
        let options = CreateOptions::new(NewImage::Qcow2(Box::new(new)), Some(len as u64));
        create(&top, &options).unwrap();
        WritableImage::open(&top, &OpenOptions::default()).unwrap()
    }

    /// Copies everything, as if nothing had been stored at a look before `guest` wrote.
    fn copy_around(l2_entries: L2Entries, guest: impl Fn(&dyn BlockWrite)) {
        let directory = tempfile::tempdir().unwrap();
        let image = overlay(directory.path(), l2_entries);
        let device: Arc<dyn BlockWrite> = image.device();
        let base = vec![7; usize::try_from(CLUSTERS * CLUSTER).unwrap()];
        guest(device.as_ref());
        let mut expected = vec![0; base.len()];
        device.read_at(0, &mut expected).unwrap();
        assert!(expected != base);
        let Node::Qcow2(qcow2, _) = image.node().as_ref() else {
            panic!("not qcow2");
        };
        let writer = qcow2.writer().unwrap();
        let copied = writer.in_pieces(0, &base, |at, rest| {
            let looked = to_u64(rest.len());
            match writer.populate_unallocated(at, looked, rest)? {
                Some(done) => Ok(done),
                None => writer.populate_some(at, rest),
            }
        });
        copied.unwrap();
        let mut found = vec![0; base.len()];
        device.read_at(0, &mut found).unwrap();
        assert!(found == expected);
        image.close().unwrap();
    }

    #[test]
    fn a_write_between_the_look_and_the_allocation_stays() {
        for l2_entries in [L2Entries::Standard, L2Entries::Extended] {
            for cluster in [0, 2, CLUSTERS - 1] {
                let at = cluster * CLUSTER;
                copy_around(l2_entries, |disk| {
                    disk.write_at(at + 5, &[1; 900]).unwrap();
                });
                copy_around(l2_entries, |disk| {
                    disk.write_zeroes(at, CLUSTER).unwrap();
                });
                copy_around(l2_entries, |disk| {
                    disk.write_zeroes(at + 3 * PART, PART).unwrap();
                });
                copy_around(l2_entries, |disk| {
                    disk.write_at(at, &[1; 900]).unwrap();
                    disk.unmap(at, CLUSTER).unwrap();
                });
            }
        }
    }
}
