//! The check of the "copied" flags of the active L1 table and its L2 tables: the flag of an entry
//! is set exactly if the count of the cluster is one. A wrong flag allows overwriting shared data.

use diskfs_block::{BlockRead, Result};

use crate::numbers::shift_right;
use crate::qcow2::cache::TableSlice;
use crate::qcow2::check::report::{CheckReport, FindingKind};
use crate::qcow2::check::tables::{Budget, for_each_piece};
use crate::qcow2::check::{Checked, StoredCounts};
use crate::qcow2::header::Header;
use crate::qcow2::l1_entry;
use crate::qcow2::l2_entry::{self, DataPlace, L2Rules, RawKind, RawL2Entry};
use crate::qcow2::units::HostOffset;

/// A wrong flag in a piece of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrongFlag {
    /// The index of the entry's first word in the piece.
    pub(crate) index: usize,
    /// The word with the right flag.
    pub(crate) word: u64,
    /// The number of references from the active L1 table to the table.
    times: u64,
}

impl WrongFlag {
    /// Adds the flag to a report.
    pub(crate) fn add_to(&self, report: &mut CheckReport, words: &TableSlice) {
        let at = words.place_of(self.index);
        report.add(FindingKind::CopiedFlag, at, self.times, || {
            format!(
                "wrong \"copied\" flag in entry {:#018x}: it must be {:#018x}",
                words.word(self.index),
                self.word
            )
        });
    }
}

/// Calls `visit` with each piece of a table that has wrong flags: first of the active L1 table, then
/// of its L2 tables.
pub(crate) fn wrong_flags(
    file: &dyn BlockRead,
    header: &Header,
    checked: &Checked,
    mut visit: impl FnMut(&TableSlice, &[WrongFlag]) -> Result<()>,
) -> Result<()> {
    let flags = Flags {
        file,
        header,
        counts: &checked.counts,
        rules: header.l2_rules(),
    };
    let mut wrong = Vec::new();
    for_each_piece(file, header.l1.at, header.l1.size_bytes(), |words| {
        wrong.clear();
        for index in 0..words.len() {
            wrong.extend(flags.wrong_in_l1(words, index)?);
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            visit(words, &wrong)
        }
    })?;
    let mut budget = Budget::new(file);
    let cluster_size = header.geometry.cluster_size();
    let step = header.geometry.layout().words();
    for (table, named) in &checked.l2_tables {
        // An L1 entry without an offset has no table.
        if named.active == 0 || table.0 == 0 {
            continue;
        }
        // QEMU does not check a table either whose own count is unreadable.
        if flags.is_single(table.0)?.is_none() {
            continue;
        }
        budget.take(*table, cluster_size)?;
        let times = u64::from(named.active);
        for_each_piece(file, *table, cluster_size, |words| {
            wrong.clear();
            for index in (0..words.len()).step_by(step) {
                wrong.extend(flags.wrong_in_l2(words, index, times)?);
            }
            if wrong.is_empty() {
                Ok(())
            } else {
                visit(words, &wrong)
            }
        })?;
    }
    Ok(())
}

/// The facts that determine the flags.
struct Flags<'a> {
    file: &'a dyn BlockRead,
    header: &'a Header,
    counts: &'a StoredCounts,
    rules: L2Rules,
}

impl Flags<'_> {
    fn is_single(&self, host: u64) -> Result<Option<bool>> {
        let cluster = shift_right(host, self.rules.geometry.cluster_bits());
        self.counts.is_single(self.file, self.header, cluster)
    }

    fn wrong_in_l1(&self, words: &TableSlice, index: usize) -> Result<Option<WrongFlag>> {
        let entry = words.word(index);
        let table = l1_entry::offset(entry);
        if table == 0 {
            return Ok(None);
        }
        let is_single = self.is_single(table)?;
        let wrong = is_single.filter(|&is_single| l1_entry::is_copied(entry) != is_single);
        Ok(wrong.map(|is_single| WrongFlag {
            index,
            word: l1_entry::with_copied(entry, is_single),
            times: 1,
        }))
    }

    fn wrong_in_l2(
        &self,
        words: &TableSlice,
        index: usize,
        times: u64,
    ) -> Result<Option<WrongFlag>> {
        let entry = RawL2Entry {
            descriptor: words.word(index),
            bitmap: 0,
        };
        let kind = entry.kind(self.rules);
        if !matches!(kind, RawKind::Data | RawKind::ZeroAllocated) {
            return Ok(None);
        }
        let is_single = match self.rules.data {
            DataPlace::External => Some(true),
            DataPlace::Inside => self.is_single(entry.offset())?,
        };
        let wrong = is_single.filter(|&is_single| entry.is_copied() != is_single);
        Ok(wrong.map(|is_single| WrongFlag {
            index,
            word: l2_entry::with_copied(entry.descriptor, is_single),
            times,
        }))
    }
}

impl Checked {
    /// Returns true if the L2 table at `table` is referenced only by L1 tables, so that changing its
    /// flags changes nothing else.
    pub(crate) fn is_only_l2_table(&self, table: HostOffset, references: u64) -> bool {
        let named = self.l2_tables.get(&table);
        named.is_some_and(|named| u64::from(named.times) == references)
    }
}
