//! Removal of zero clusters, which version 2 does not have.

use std::collections::BTreeSet;

use diskfs_block::{BlockWrite, Error, Result};

use crate::numbers::to_usize;
use crate::qcow2::cache::TableSlice;
use crate::qcow2::header::{Header, Table};
use crate::qcow2::l1_entry;
use crate::qcow2::l2_entry::{RawKind, RawL2Entry};
use crate::qcow2::snapshot_table;
use crate::qcow2::units::HostOffset;

/// The largest number of entries of all L1 tables together: those of 16 tables of the largest size.
const L1_ENTRIES_MAX: u64 = 1 << 26;

/// Makes all zero clusters unallocated, also those of snapshots. Without a backing file, both read as
/// zeroes, so that a crash does no harm. Returns true if clusters are leaked by that: those that were
/// preallocated.
///
/// # Errors
/// `Unsupported` if there is a zero cluster that hides a backing file: nothing is changed then.
pub(super) fn remove(file: &dyn BlockWrite, header: &Header) -> Result<bool> {
    let mut has_leaks = false;
    for at in l2_tables(file, header)? {
        has_leaks |= remove_from(file, header, at)?;
    }
    Ok(has_leaks)
}

/// Returns the places of the L2 tables of the image and its snapshots.
fn l2_tables(file: &dyn BlockWrite, header: &Header) -> Result<BTreeSet<HostOffset>> {
    let snapshots = snapshot_table::read(file, header)?;
    let mut l1_tables = vec![header.l1];
    l1_tables.extend(snapshots.entries.iter().map(|entry| entry.l1));
    let entries = l1_tables.iter().map(|l1| l1.entries);
    if entries.fold(0, u64::saturating_add) > L1_ENTRIES_MAX {
        return Err(Error::unsupported("the image has too many snapshots")
            .with_hint("delete snapshots first"));
    }
    let mut places = BTreeSet::new();
    for l1 in l1_tables {
        add_l2_tables(file, header, l1, &mut places)?;
    }
    Ok(places)
}

fn add_l2_tables(
    file: &dyn BlockWrite,
    header: &Header,
    l1: Table,
    places: &mut BTreeSet<HostOffset>,
) -> Result<()> {
    let table = TableSlice::read(file, l1.at, l1.size_bytes())?;
    for index in 0..to_usize(l1.entries) {
        let place = table.place_of(index);
        places.extend(l1_entry::l2_table(
            table.word(index),
            header.geometry,
            place,
        )?);
    }
    Ok(())
}

fn remove_from(file: &dyn BlockWrite, header: &Header, at: HostOffset) -> Result<bool> {
    let table = TableSlice::read(file, at, header.geometry.cluster_size())?;
    let (mut is_changed, mut has_leaks) = (false, false);
    for index in 0..table.len() {
        let descriptor = table.word(index);
        let entry = RawL2Entry {
            descriptor,
            bitmap: 0,
        };
        let kind = entry.kind(header.l2_rules());
        if !matches!(kind, RawKind::Zero | RawKind::ZeroAllocated) {
            continue;
        }
        if header.backing_name.is_some() {
            let reason = "a snapshot has zero clusters, which version 2 does not have";
            return Err(Error::unsupported(reason)
                .at(table.place_of(index).0)
                .with_hint("delete the snapshot first"));
        }
        table.set_word(index, 0);
        is_changed = true;
        has_leaks |= kind == RawKind::ZeroAllocated;
    }
    if is_changed {
        file.write_at(at.0, &table.copy_of(0..table.len()))?;
    }
    Ok(has_leaks)
}
