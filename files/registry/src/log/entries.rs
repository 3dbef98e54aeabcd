//! Logs since Windows 8.1: a sequence of entries. Specification, "New format".

use diskfs_block::Result;

use crate::base_block::{BaseBlock, FileType};
use crate::log::Recovery;

use super::log_entry::LogEntry;
use super::sectors::Sectors;
use super::{Log, SECTOR_BYTES};

/// Applies the entries of all logs that belong to the hive's last change; returns `None` if there
/// are none.
///
/// # Errors
/// The errors of reading the log.
pub(super) fn apply(
    primary: &BaseBlock,
    logs: &[Log],
    sectors: &mut Sectors,
) -> Result<Option<(BaseBlock, Recovery)>> {
    let mut base_block = *primary;
    let mut entries = 0;
    let mut last = None;
    for log in in_order(primary, logs) {
        let first = log.base_block.primary_sequence_number;
        // The second log must continue where the first one ends.
        if last.is_some_and(|last: u32| last.wrapping_add(1) != first) {
            continue;
        }
        if !primary.is_valid() {
            base_block = log.base_block;
        }
        for entry in EntriesOf::new(log, first) {
            let entry = entry?;
            for page in &entry.pages {
                sectors.put(page.to, page.len_bytes, log.number, page.from);
            }
            base_block.hive_bins_data_size = entry.hive_bins_data_size;
            last = Some(entry.sequence_number);
            entries = u32::saturating_add(entries, 1);
        }
    }
    Ok((entries > 0).then_some((base_block, Recovery::Applied { entries })))
}

/// Returns the logs to apply, in order. With a valid base block of the hive: those that start no
/// earlier than it, the earliest first. Otherwise only the latest log, which has a copy of the base
/// block.
fn in_order<'a>(primary: &BaseBlock, logs: &'a [Log]) -> Vec<&'a Log> {
    let mut logs: Vec<&Log> = logs
        .iter()
        .filter(|log| log.file_type == FileType::NewLog)
        .collect();
    logs.sort_by_key(|log| log.base_block.primary_sequence_number);
    if primary.is_valid() {
        let begins = |log: &&Log| log.base_block.primary_sequence_number;
        logs.retain(|log| begins(log) >= primary.secondary_sequence_number);
        logs
    } else {
        logs.pop().into_iter().collect()
    }
}

/// An iterator over the entries of a log, as long as their sequence numbers are consecutive.
struct EntriesOf<'a> {
    log: &'a Log,
    offset: u64,
    expected: u32,
}

impl<'a> EntriesOf<'a> {
    /// Returns the entries, which start in the second sector.
    fn new(log: &'a Log, first: u32) -> Self {
        Self {
            log,
            offset: SECTOR_BYTES,
            expected: first,
        }
    }
}

impl Iterator for EntriesOf<'_> {
    type Item = Result<LogEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = match LogEntry::read(&*self.log.device, self.offset).transpose()? {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error)),
        };
        if entry.sequence_number != self.expected {
            return None;
        }
        self.offset = entry.end;
        self.expected = self.expected.wrapping_add(1);
        Some(Ok(entry))
    }
}
