//! Changes of L1 and L2 tables.

use std::sync::Arc;

use diskfs_block::{Error, Result};

use crate::numbers::to_usize;
use crate::qcow2::cache::TableSlice;
use crate::qcow2::l1_entry;
use crate::qcow2::l2_entry::{L2Entry, L2Rules, StandardCluster};
use crate::qcow2::mapping::{L1Place, Mapping};
use crate::qcow2::units::{GuestOffset, HostOffset, L2Layout};
use crate::qcow2::write::metadata::Locked;

impl<'a> Locked<'a> {
    pub(super) fn mapping(&self) -> &'a Mapping {
        &self.writer.reader.mapping
    }

    pub(super) fn rules(&self) -> L2Rules {
        self.mapping().rules
    }

    /// Returns the slice of the L2 table that maps `guest`, in a table without other references.
    /// Creates a table if there is none, and copies one that a snapshot shares.
    pub(super) fn writable_slice(&mut self, guest: GuestOffset) -> Result<Arc<TableSlice>> {
        let place = self.mapping().l1_piece(guest)?;
        let entry = place.piece.word(place.index);
        let geometry = self.writer.geometry();
        let at = place.piece.place_of(place.index);
        match l1_entry::l2_table(entry, geometry, at)? {
            None => self.add_table(&place, None)?,
            Some(table) if !l1_entry::is_copied(entry) => {
                self.add_table(&place, Some(table))?;
                self.forget_slices(guest);
                self.free_cluster(table);
            }
            Some(_) => {}
        }
        let slice = self.mapping().slice(guest)?;
        slice.ok_or_else(|| {
            Error::invalid("a new L2 table is missing from the table store").at(at.0)
        })
    }

    /// Writes a new table, empty or a copy, and points the L1 entry to it.
    fn add_table(&mut self, place: &L1Place, copied_from: Option<HostOffset>) -> Result<()> {
        let run = self.allocate(1)?;
        let host = self.place_of(run.first);
        // Write the table at once and whole: a full disk is noticed before anything depends on the
        // table, and after a crash a partly updated table is still a valid one.
        if let Err(e) = self.write_table_at(host, copied_from) {
            self.release(run)?;
            return Err(e);
        }
        place.piece.set_word(place.index, l1_entry::entry_for(host));
        let words = place.index..place.index.saturating_add(1);
        self.state.mapping.mark(&place.piece, words);
        self.state.exposes_clusters = true;
        Ok(())
    }

    fn write_table_at(&self, host: HostOffset, copied_from: Option<HostOffset>) -> Result<()> {
        let image = &self.writer.image;
        let mut table = vec![0; to_usize(self.writer.geometry().cluster_size())];
        if let Some(old) = copied_from {
            // A shared table is never dirty, so the file has all of it.
            image.read_at(old.0, &mut table)?;
        }
        image.write_at(host.0, &table)
    }

    /// Removes the slices of the old table from the store.
    pub(super) fn forget_slices(&self, guest: GuestOffset) {
        let geometry = self.writer.geometry();
        let coverage = geometry.l1_coverage();
        let in_table = guest.0.checked_rem(coverage).unwrap_or(0);
        let start = guest.0.saturating_sub(in_table);
        let slices = geometry
            .cluster_size()
            .checked_div(geometry.slice_size())
            .unwrap_or(1);
        let step = coverage.checked_div(slices).unwrap_or(coverage);
        for number in 0..slices {
            let at = GuestOffset(start.saturating_add(number.saturating_mul(step)));
            self.writer.store.remove(self.mapping().slice_key(at));
        }
    }

    /// Decodes the entry for `guest`, in its slice.
    pub(super) fn entry(&self, slice: &TableSlice, guest: GuestOffset) -> Result<L2Entry> {
        self.mapping().entry(slice, guest)
    }

    /// Changes the entry for `guest`.
    pub(super) fn set_entry(
        &mut self,
        slice: &Arc<TableSlice>,
        guest: GuestOffset,
        entry: StandardCluster,
    ) {
        let rules = self.rules();
        let index = self.mapping().word_in_slice(guest);
        let words = entry.encode(rules);
        match rules.geometry.layout() {
            L2Layout::Standard => slice.set_word(index, words.0),
            L2Layout::Extended => slice.set_pair(index, words),
        }
        let end = index.saturating_add(rules.geometry.layout().words());
        self.state.mapping.mark(slice, index..end);
    }
}
