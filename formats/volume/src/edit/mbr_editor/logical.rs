//! Changes of logical partitions, and of the extended partition that contains them.

use diskfs_block::{Error, Result};

use crate::mbr::Entry;

use super::super::logical_chain::{ExtendedRecord, LogicalChain};
use super::super::placement::limit_of;
use super::super::request::NewPartition;
use super::super::run::{Run, alignment_sectors, gaps};
use super::{FIRST_LOGICAL, MbrEditor, with_run};

impl MbrEditor {
    pub(super) fn chain(&self) -> Result<Option<&LogicalChain>> {
        match &self.contents.chain {
            Ok(chain) => Ok(chain.as_ref()),
            Err(reason) => Err(chain_error(reason)),
        }
    }

    pub(super) fn chain_mut(&mut self) -> Result<&mut LogicalChain> {
        match &mut self.contents.chain {
            Ok(Some(chain)) => Ok(chain),
            Ok(None) => Err(Error::invalid("the disk has no extended partition")
                .with_hint("add one first, with the type `extended`")),
            Err(reason) => Err(chain_error(reason)),
        }
    }

    /// Returns the gaps in an extended partition that has these sectors.
    pub(super) fn logical_gaps(&self, extended: Run) -> Result<Vec<Run>> {
        let chain = self.chain()?;
        Ok(gaps(
            extended,
            chain.into_iter().flat_map(LogicalChain::used),
        ))
    }

    pub(super) fn add_logical(&mut self, new: &NewPartition, entry: Entry) -> Result<u32> {
        let chain = self.chain_mut()?;
        let count = chain.with_partition().count();
        let number = u32::try_from(count)
            .unwrap_or(u32::MAX)
            .saturating_add(FIRST_LOGICAL);
        if new.number.is_some_and(|wanted| wanted != number) {
            return Err(Error::invalid(format!(
                "invalid number of a logical partition: the next one is {number}"
            )));
        }
        // The first record is in use from the start, and may have no partition yet.
        let has_room = matches!(chain.records.as_slice(), [first] if first.partition.is_none());
        let (run, gap) = self.logical_place(new, has_room)?;
        let entry = with_run(entry, run)?;
        let alignment = alignment_sectors(self.disk_sectors, self.sector_size);
        let lba = run.start.saturating_sub(alignment).max(gap.start);
        self.extend_to(run.end)?;
        let chain = self.chain_mut()?;
        match chain.records.first_mut() {
            Some(first) if has_room => first.partition = Some(entry),
            _ => {
                let lba = u32::try_from(lba).unwrap_or(u32::MAX);
                chain.records.push(ExtendedRecord::new(lba, Some(entry)));
            }
        }
        Ok(number)
    }

    /// Returns the place of a new logical partition and the gap around it: in the extended
    /// partition, or in the free space after it, into which it grows.
    pub(super) fn logical_place(&self, new: &NewPartition, has_record: bool) -> Result<(Run, Run)> {
        let extended = self.extended_run().unwrap_or(Run { start: 0, end: 0 });
        let limit = limit_of(extended, self.space().end, self.other_runs(self.extended()));
        let place_in = |extended: Run| {
            let gaps = self.logical_gaps(extended)?;
            // Before a partition there must be a sector for its record.
            let reserved = u64::from(!has_record);
            let rooms = gaps.iter().map(|gap| Run {
                start: gap.start.saturating_add(reserved),
                ..*gap
            });
            let rooms = rooms.filter(|room| !room.is_empty()).collect();
            let run = self
                .placement(rooms)
                .place(new.start_bytes, new.size_bytes)?;
            let gap = gaps.into_iter().find(|gap| gap.holds(run));
            Ok((run, gap.unwrap_or(run)))
        };
        place_in(extended).or_else(|error: Error| {
            let larger = Run {
                end: limit,
                ..extended
            };
            place_in(larger).map_err(|_| self.explain_limit(error))
        })
    }

    /// Grows the extended partition so that it ends at `end` or later.
    pub(super) fn extend_to(&mut self, end: u64) -> Result<()> {
        let Some((index, run)) = self.extended().zip(self.extended_run()) else {
            return Ok(());
        };
        if end <= run.end {
            return Ok(());
        }
        if let Some(entry) = self.contents.entries.get_mut(index) {
            *entry = with_run(*entry, Run { end, ..run })?;
        }
        Ok(())
    }

    /// Fails if the extended partition contains logical ones.
    pub(super) fn check_is_empty(&self, number: u32) -> Result<()> {
        let count = self
            .chain()?
            .map_or(0, |chain| chain.with_partition().count());
        if count == 0 {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the extended partition {number} contains {count} logical partitions"
        ))
        .with_hint("delete partition 5 first, as often as there is one"))
    }

    /// Returns the first LBA after a logical partition that is not free, or cannot become a part of
    /// the extended partition.
    pub(super) fn limit_of_logical(&self, run: Run) -> Result<u64> {
        let Some(extended) = self.extended_run() else {
            return Ok(run.end);
        };
        let end = limit_of(extended, self.space().end, self.other_runs(self.extended()));
        let others = self.chain()?.into_iter().flat_map(LogicalChain::used);
        Ok(limit_of(run, end, others.filter(|other| *other != run)))
    }

    /// Fails unless the extended partition holds its logical ones at its new size.
    pub(super) fn check_holds(&self, extended: Run) -> Result<()> {
        let mut used = self.chain()?.into_iter().flat_map(LogicalChain::used);
        match used.find(|run| !extended.holds(*run)) {
            Some(run) => Err(Error::invalid(format!(
                "cannot shrink the extended partition to {extended}: a logical partition or its \
                 record is at {run}"
            ))),
            None => Ok(()),
        }
    }
}

fn chain_error(reason: &str) -> Error {
    Error::unsupported(format!(
        "cannot edit the logical partitions: the extended partition is unusual: {reason}"
    ))
}
