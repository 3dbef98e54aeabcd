//! Transaction logs: changes that Windows had logged, but not yet written to the hive.
//! Specification, "Dirty state of a hive", "Multiple transaction log files".

mod dirty_vector;
mod entries;
mod log_entry;
mod sectors;

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result, read_within};

use crate::Filetime;
use crate::base_block::{BASE_BLOCK_BYTES, BaseBlock, FileType};
use sectors::Sectors;
pub(crate) use sectors::WithLogs;

/// The unit of logs in bytes, whatever the sector size of the disk.
const SECTOR_BYTES: u64 = 512;

/// The maximum size of a log. A log is about as long as the changes of one flush and at most as
/// long as its hive; Windows keeps both small. Each sector takes some dozens of bytes of memory.
const MAX_LOG_BYTES: u64 = 512 << 20;

/// The result of looking for a hive's transaction logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// The hive was completely written: logs were not needed and not read.
    Clean,
    /// Changes from the logs were applied. A log from before Windows 8.1 counts as one change.
    Applied {
        /// The number of changes.
        entries: u32,
    },
    /// The hive was not completely written, and no log fits: a part of a change may be missing.
    Unrecovered,
}

/// A transaction log with a valid base block.
struct Log {
    number: usize,
    device: Arc<dyn BlockRead>,
    base_block: BaseBlock,
    file_type: FileType,
}

/// A hive with its logs applied.
pub(crate) struct Recovered {
    pub(crate) base_block: BaseBlock,
    pub(crate) device: WithLogs,
    pub(crate) recovery: Recovery,
}

/// Applies the logs to a hive in memory.
///
/// # Errors
/// `Corrupt` if `primary` is not a hive, and if its base block is damaged and no log has a copy.
pub(crate) fn recover(
    primary: Arc<dyn BlockRead>,
    logs: &[Arc<dyn BlockRead>],
) -> Result<Recovered> {
    let Some(base_block) = BaseBlock::read(&*primary)? else {
        return Err(Error::corrupt("not a registry hive").at(0));
    };
    let mut sectors = Sectors::default();
    let is_clean = base_block.is_valid() && base_block.is_synchronised();
    let (base_block, recovery) = if is_clean {
        (base_block, Recovery::Clean)
    } else {
        apply(&*primary, base_block, &usable(logs)?, &mut sectors)?
    };
    let bins_bytes = u64::from(base_block.hive_bins_data_size);
    Ok(Recovered {
        device: WithLogs::new(primary, logs, sectors, bins_bytes),
        base_block,
        recovery,
    })
}

/// Returns the logs with a valid base block.
fn usable(logs: &[Arc<dyn BlockRead>]) -> Result<Vec<Log>> {
    let mut usable = Vec::new();
    for (number, device) in logs.iter().enumerate() {
        let Some(base_block) = BaseBlock::read(&**device)?.filter(BaseBlock::is_valid) else {
            continue;
        };
        if device.size_bytes() > MAX_LOG_BYTES {
            return Err(Error::unsupported(
                "transaction log is too large: at most 512 MiB",
            ));
        }
        let file_type = base_block.file_type();
        if let Some(file_type) = file_type.filter(|file_type| *file_type != FileType::Primary) {
            usable.push(Log {
                number,
                device: Arc::clone(device),
                base_block,
                file_type,
            });
        }
    }
    Ok(usable)
}

/// Applies the logs of the newest format that fits. A hive has logs of one format, but logs of the
/// old format can remain after an upgrade of Windows.
fn apply(
    primary: &dyn BlockRead,
    base_block: BaseBlock,
    logs: &[Log],
    sectors: &mut Sectors,
) -> Result<(BaseBlock, Recovery)> {
    if let Some(applied) = entries::apply(&base_block, logs, sectors)? {
        return Ok(applied);
    }
    let last_written = if base_block.is_valid() {
        Some(base_block.last_written)
    } else {
        first_bin_timestamp(primary)?
    };
    for log in logs.iter().filter(|log| log.file_type == FileType::OldLog) {
        // If two logs fit, the first is used, as in boot loaders.
        let fits =
            log.base_block.is_synchronised() && Some(log.base_block.last_written) == last_written;
        if fits && dirty_vector::apply(primary, log, sectors)? {
            return Ok((log.base_block, Recovery::Applied { entries: 1 }));
        }
    }
    if base_block.is_valid() {
        return Ok((base_block, Recovery::Unrecovered));
    }
    let reason = "invalid base block: its checksum is wrong, and no transaction log has a copy";
    Err(Error::corrupt(reason).at(508))
}

/// Returns the copy of the base block's timestamp in the first bin. Specification, "Hive bin", note
/// 3.
fn first_bin_timestamp(primary: &dyn BlockRead) -> Result<Option<Filetime>> {
    let header = read_within(primary, BASE_BLOCK_BYTES, 32)?;
    let header = header.filter(|header| header.starts_with(b"hbin"));
    let timestamp = header.and_then(|header| diskfs_block::bytes::array(&header, 20));
    Ok(timestamp.map(|timestamp| Filetime(u64::from_le_bytes(timestamp))))
}
