//! Correction of counts in their refcount blocks. Each count is right by itself, so a crash leaves
//! some right counts and some wrong ones.

use diskfs_block::{BlockWrite, Result};

use crate::numbers::{power_of_two, shift_right};
use crate::qcow2::cache::TableSlice;
use crate::qcow2::check::{Scope, WindowReferences, for_each_window};
use crate::qcow2::header::Header;
use crate::qcow2::refcounts::{CountPlace, Refcounts};

/// The counts to correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Lower the counts that are too high.
    Lower,
    /// Raise the counts that are too low.
    Raise,
    /// Correct all counts.
    Both,
}

impl Direction {
    const fn allows(self, stored: u64, references: u64) -> bool {
        match self {
            Self::Lower => stored > references,
            Self::Raise => stored < references,
            Self::Both => stored != references,
        }
    }
}

/// Sets counts to the number of references. Every block must be valid.
pub(super) fn fix(file: &dyn BlockWrite, header: &Header, direction: Direction) -> Result<()> {
    let bits = Refcounts::new(file, header).block_entries_bits();
    for_each_window(file, header, Scope::All, |references| {
        let window = references.window();
        let last = shift_right(window.end.saturating_sub(1), bits);
        for index in shift_right(window.start, bits)..=last {
            if let Some(block) = references.stored_block(index)? {
                fix_block(file, header, &block, index, references, direction)?;
            }
        }
        Ok(())
    })?;
    file.flush()
}

fn fix_block(
    file: &dyn BlockWrite,
    header: &Header,
    block: &TableSlice,
    index: u64,
    references: &WindowReferences<'_>,
    direction: Direction,
) -> Result<()> {
    let entries = power_of_two(Refcounts::new(file, header).block_entries_bits());
    let first = index.saturating_mul(entries);
    let mut changed: Option<(usize, usize)> = None;
    for in_block in 0..entries {
        let place = CountPlace::new(header.refcount_order, in_block);
        let wanted = references.of(first.saturating_add(in_block));
        if direction.allows(place.get(block), wanted) {
            place.set(block, wanted);
            let (start, _) = changed.unwrap_or((place.word, 0));
            changed = Some((start, place.word.saturating_add(1)));
        }
    }
    match changed {
        Some((start, end)) => file.write_at(block.place_of(start).0, &block.copy_of(start..end)),
        None => Ok(()),
    }
}
