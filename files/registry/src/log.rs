//! Transaction logs: what Windows had written of a change that the hive itself lacks. Specification, "Dirty
//! state of a hive", "Multiple transaction log files".

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

/// Sectors of logs and of what they are of, whatever the disk's are.
const SECTOR_BYTES: u64 = 512;

/// A log is about as long as what changed at once, and at most as its hive; Windows keeps both small. Each
/// sector takes some dozens of bytes of memory.
const MAX_LOG_BYTES: u64 = 512 << 20;

/// The result of looking for a hive's transaction logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// The hive had been written to its end: logs were not needed, and not read.
    Clean,
    /// It is read with so many changes of its logs. A log of before Windows 8.1 is one.
    Applied {
        /// The number of changes.
        entries: u32,
    },
    /// It had not been written to its end, and no log fits: a part of a change may be missing.
    Unrecovered,
}

/// A log that begins as one.
struct Log {
    number: usize,
    device: Arc<dyn BlockRead>,
    base_block: BaseBlock,
    file_type: FileType,
}

/// A hive with its logs.
pub(crate) struct Recovered {
    pub(crate) base_block: BaseBlock,
    pub(crate) device: WithLogs,
    pub(crate) recovery: Recovery,
}

/// Puts a hive together with what its logs have of it.
///
/// # Errors
/// `Corrupt` for what is no hive, and where its base block is broken and no log has a copy.
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

/// The logs that begin as one.
fn usable(logs: &[Arc<dyn BlockRead>]) -> Result<Vec<Log>> {
    let mut usable = Vec::new();
    for (number, device) in logs.iter().enumerate() {
        let Some(base_block) = BaseBlock::read(&**device)?.filter(BaseBlock::is_valid) else {
            continue;
        };
        if device.size_bytes() > MAX_LOG_BYTES {
            return Err(Error::unsupported("a transaction log of more than 512 MiB"));
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

/// A hive has logs of one sort; where Windows was upgraded, remnants of the old one may lie about.
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
        // Which of two is used where both fit: the first, as boot loaders do.
        let fits =
            log.base_block.is_synchronised() && Some(log.base_block.last_written) == last_written;
        if fits && dirty_vector::apply(primary, log, sectors)? {
            return Ok((log.base_block, Recovery::Applied { entries: 1 }));
        }
    }
    if base_block.is_valid() {
        return Ok((base_block, Recovery::Unrecovered));
    }
    let reason = "the checksum of the base block is wrong, and no transaction log has a copy of it";
    Err(Error::corrupt(reason).at(508))
}

/// The copy of the time in the base block. Specification, "Hive bin", note 3.
fn first_bin_timestamp(primary: &dyn BlockRead) -> Result<Option<Filetime>> {
    let header = read_within(primary, BASE_BLOCK_BYTES, 32)?;
    let header = header.filter(|header| header.starts_with(b"hbin"));
    let timestamp = header.and_then(|header| diskfs_block::bytes::array(&header, 20));
    Ok(timestamp.map(|timestamp| Filetime(u64::from_le_bytes(timestamp))))
}
