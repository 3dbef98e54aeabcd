//! Correction of "copied" flags, after the counts.

use diskfs_block::{BlockWrite, Result};

use crate::numbers::{low_bits, shift_right};
use crate::qcow2::cache::TableSlice;
use crate::qcow2::check::{self, Checked};
use crate::qcow2::header::Header;
use crate::qcow2::refcounts::Refcounts;
use crate::qcow2::units::HostOffset;

/// Sets and clears flags in the active tables. A table that is also used for something else is left
/// as it is.
pub(super) fn fix(file: &dyn BlockWrite, header: &Header) -> Result<()> {
    let checked = check::check_counts(file, header, header.l2_rules())?;
    if checked.has_overflow || checked.needs_rebuild {
        // The counts do not show which clusters are shared.
        return Ok(());
    }
    check::wrong_flags(file, header, &checked, |words, wrong| {
        if !is_only_a_table(file, header, &checked, words)? {
            return Ok(());
        }
        for flag in wrong {
            words.set_word(flag.index, flag.word);
        }
        let first = wrong.first().map_or(0, |flag| flag.index);
        let last = wrong.last().map_or(0, |flag| flag.index);
        let bytes = words.copy_of(first..last.saturating_add(1));
        file.write_at(words.place_of(first).0, &bytes)
    })?;
    file.flush()
}

/// Returns true if changing a piece of a table changes nothing else.
fn is_only_a_table(
    file: &dyn BlockWrite,
    header: &Header,
    checked: &Checked,
    words: &TableSlice,
) -> Result<bool> {
    let bits = header.geometry.cluster_bits();
    let cluster = shift_right(words.at().0, bits);
    let refcounts = Refcounts::new(file, header);
    let block_bits = refcounts.block_entries_bits();
    let block = refcounts.block(shift_right(cluster, block_bits))?;
    let references = block.get(low_bits(cluster, block_bits));
    let l1_end = header.l1.at.plus(header.l1.size_bytes());
    if words.at() >= header.l1.at && words.at() < l1_end {
        return Ok(references == 1);
    }
    let table = HostOffset(cluster.saturating_mul(header.geometry.cluster_size()));
    Ok(checked.is_only_l2_table(table, references))
}
