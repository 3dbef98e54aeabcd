//! Changes of L1 and L2 tables that a resize makes.

use diskfs_block::Result;

use crate::numbers::{round_up, shift_right, to_usize};
use crate::qcow2::header::Table;
use crate::qcow2::l1_entry;
use crate::qcow2::l2_entry::{L2Entry, StandardCluster};
use crate::qcow2::units::{GuestOffset, HostOffset};
use crate::qcow2::write::freed::{Freed, Hole};
use crate::qcow2::write::metadata::Locked;

impl Locked<'_> {
    /// Allocates the cluster for `guest`, which reads as zeroes, if it has none.
    pub(super) fn allocate_cluster(&mut self, guest: GuestOffset) -> Result<()> {
        let slice = self.writable_slice(guest)?;
        let L2Entry::Standard(old) = self.entry(&slice, guest)? else {
            return Ok(());
        };
        if old.host.is_some() {
            return Ok(());
        }
        let host = if self.writer.external.is_some() {
            HostOffset(guest.0)
        } else {
            self.allocate_zeroed()?
        };
        self.state.exposes_clusters = true;
        let entry = StandardCluster {
            host: Some(host),
            allocated: u32::MAX,
            zero: 0,
            copied: true,
        };
        self.set_entry(&slice, guest, entry);
        Ok(())
    }

    fn allocate_zeroed(&mut self) -> Result<HostOffset> {
        let run = self.allocate(1)?;
        let host = self.place_of(run.first);
        if !run.untouched {
            let zeroes = vec![0; to_usize(self.writer.geometry().cluster_size())];
            if let Err(e) = self.writer.image.write_at(host.0, &zeroes) {
                self.release(run)?;
                return Err(e);
            }
        }
        Ok(host)
    }

    /// Writes a copy of the L1 table with more entries to new clusters.
    pub(super) fn copy_l1(&mut self, old: Table, entries: u64) -> Result<Table> {
        let bits = self.writer.geometry().cluster_bits();
        let len_bytes = round_up(entries.saturating_mul(8), bits);
        let run = self.allocate_contiguous(shift_right(len_bytes, bits))?;
        let at = self.place_of(run.first);
        let written = self.write_copy(old, at, len_bytes);
        if let Err(e) = written {
            self.release(run)?;
            return Err(e);
        }
        Ok(Table { at, entries })
    }

    fn write_copy(&self, old: Table, at: HostOffset, len_bytes: u64) -> Result<()> {
        let image = self.writer.image.as_ref();
        let mut bytes = vec![0; to_usize(len_bytes)];
        // Entries that the disk did not need may be past the end of the file.
        let there = image.size_bytes().saturating_sub(old.at.0);
        let front = bytes.get_mut(..to_usize(old.size_bytes().min(there)));
        image.read_at(old.at.0, front.unwrap_or_default())?;
        image.write_at(at.0, &bytes)
    }

    pub(super) fn free_table(&mut self, table: Table) {
        let bits = self.writer.geometry().cluster_bits();
        let clusters = shift_right(round_up(table.size_bytes(), bits), bits);
        let first = self.cluster_at(table.at);
        if clusters > 0 {
            self.state.freed.push(Freed {
                first,
                clusters,
                hole: Hole::Keep,
            });
        }
    }

    /// Removes the L2 table for `guest` from the L1 table.
    pub(super) fn free_l2_table(&mut self, guest: GuestOffset) -> Result<()> {
        let place = self.mapping().l1_piece(guest)?;
        let entry = place.piece.word(place.index);
        let at = place.piece.place_of(place.index);
        let Some(table) = l1_entry::l2_table(entry, self.writer.geometry(), at)? else {
            return Ok(());
        };
        place.piece.set_word(place.index, 0);
        let words = place.index..place.index.saturating_add(1);
        self.state.mapping.mark(&place.piece, words);
        self.forget_slices(guest);
        self.free_cluster(table);
        Ok(())
    }
}
