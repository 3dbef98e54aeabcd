//! The partition table of an image, with types, flags and identifiers.

use diskfs_disk::Result;
use diskfs_volume::edit::{Flag, NewPartition, NewTable, PartitionType};
use diskfs_volume::{Guid, SectorSize};

use crate::ids::Ids;
use crate::layout::DiskLayout;
use crate::plan::{FilesystemKind, PartitionPlan, Plan, TablePlan};
use crate::problem::{at, invalid};
use crate::slot::Slot;

/// The most partitions of an MBR without an extended one.
const MBR_PARTITIONS: usize = 4;

/// The most partitions of a GPT.
const GPT_PARTITIONS: usize = 128;

/// A partition table.
#[derive(Debug)]
pub(crate) struct Table {
    /// The kind with its identifier; `None` for a disk without a table.
    pub(crate) new: Option<NewTable>,
    pub(crate) sector_size: SectorSize,
    partitions: Vec<TableEntry>,
}

#[derive(Debug)]
struct TableEntry {
    partition_type: PartitionType,
    guid: Guid,
    flags: Vec<Flag>,
    name: String,
}

impl Table {
    pub(crate) fn new(plan: &Plan, ids: &Ids) -> Result<Self> {
        let most = match plan.disk.table {
            TablePlan::Gpt => GPT_PARTITIONS,
            TablePlan::Mbr => MBR_PARTITIONS,
            TablePlan::None => 1,
        };
        let count = plan.partitions.len();
        if count == 0 || count > most {
            let reason = format!("invalid number of partitions: {count}, expected 1 to {most}");
            return Err(invalid("partitions", reason));
        }
        let mut partitions = Vec::new();
        for (index, partition) in plan.partitions.iter().enumerate() {
            let key = format!("partitions[{index}]");
            let entry = TableEntry::new(partition, &key, plan.disk.table, ids)?;
            partitions.push(entry);
        }
        Ok(Self {
            new: new_table(plan, ids)?,
            sector_size: match plan.disk.sector_size {
                4096 => SectorSize::B4096,
                _ => SectorSize::B512,
            },
            partitions,
        })
    }

    /// Returns the name of the volume of a partition.
    pub(crate) fn volume_name(&self, index: usize) -> String {
        match self.new {
            Some(_) => format!("p{}", index + 1),
            None => "disk".to_owned(),
        }
    }

    /// Returns the index of the first EFI system partition.
    pub(crate) fn esp(&self) -> Option<usize> {
        let esp = "esp".parse::<PartitionType>().ok()?;
        let is_esp = |kind: PartitionType| kind == esp || kind.guid().ok() == esp.guid().ok();
        self.new?;
        let mut types = self.partitions.iter().map(|entry| entry.partition_type);
        types.position(is_esp)
    }

    /// Returns the partitions in their places.
    pub(crate) fn entries(&self, layout: &DiskLayout, slots: &[Slot]) -> Vec<NewPartition> {
        let places = layout.starts.iter().zip(slots);
        let entries = self.partitions.iter().zip(places);
        let entries = entries
            .zip(1..)
            .map(|((entry, (start, slot)), number)| NewPartition {
                number: Some(number),
                start_bytes: Some(*start),
                size_bytes: Some(slot.bytes),
                partition_type: entry.partition_type,
                name: entry.name.clone(),
                guid: entry.guid,
                flags: entry.flags.clone(),
                role: None,
            });
        entries.collect()
    }
}

impl TableEntry {
    fn new(plan: &PartitionPlan, key: &str, table: TablePlan, ids: &Ids) -> Result<Self> {
        let text = match &plan.partition_type {
            Some(text) => text.as_str(),
            None => default_type(plan, table),
        };
        // systemd calls the types linux-root-x86-64, for example.
        let short = text.strip_prefix("linux-").unwrap_or(text);
        let parsed = text
            .parse()
            .or_else(|error| short.parse().map_err(|_| error));
        let partition_type: PartitionType =
            parsed.map_err(|error: diskfs_block::Error| at(&format!("{key}.type"), error))?;
        let flags = plan.flags.iter().map(|flag| flag.parse());
        let flags = flags.collect::<diskfs_block::Result<Vec<Flag>>>();
        let guid = match &plan.uuid {
            Some(text) => text
                .parse()
                .map_err(|error| at(&format!("{key}.uuid"), error))?,
            None => Guid::from_u128(ids.uuid(&format!("{key} partition"))?.as_u128()),
        };
        let has_table = table != TablePlan::None;
        if !has_table && (plan.partition_type.is_some() || !plan.flags.is_empty()) {
            return Err(invalid(
                key,
                "a disk without a table has no partition types and flags",
            ));
        }
        if table != TablePlan::Gpt && !plan.name.is_empty() {
            return Err(invalid(
                &format!("{key}.name"),
                "only partitions of a GPT have names",
            ));
        }
        Ok(Self {
            partition_type,
            guid,
            flags: flags.map_err(|error| at(&format!("{key}.flags"), error))?,
            name: plan.name.clone(),
        })
    }
}

fn default_type(plan: &PartitionPlan, table: TablePlan) -> &'static str {
    if plan.lvm.is_some() {
        return "lvm";
    }
    if plan.luks.is_some() && table == TablePlan::Gpt {
        return "luks";
    }
    let Some(filesystem) = &plan.filesystem else {
        return "linux";
    };
    let is_efi = filesystem
        .mount
        .as_deref()
        .is_some_and(|path| path.ends_with("/efi"));
    match filesystem.kind {
        FilesystemKind::Swap => "swap",
        FilesystemKind::Fat if is_efi => "esp",
        FilesystemKind::Fat if table == TablePlan::Mbr => "fat32",
        FilesystemKind::Fat | FilesystemKind::Exfat => "msdata",
        _ => "linux",
    }
}

fn new_table(plan: &Plan, ids: &Ids) -> Result<Option<NewTable>> {
    let id = plan.disk.id.as_deref();
    Ok(match plan.disk.table {
        TablePlan::Gpt => Some(NewTable::Gpt {
            guid: match id {
                Some(text) => text.parse().map_err(|error| at("disk.id", error))?,
                None => Guid::from_u128(ids.uuid("disk")?.as_u128()),
            },
        }),
        TablePlan::Mbr => Some(NewTable::Mbr {
            signature: match id {
                Some(text) => {
                    let digits = text.strip_prefix("0x").unwrap_or(text);
                    let wrong = |_| {
                        let reason = format!("invalid disk signature `{text}`: expected 8 digits");
                        invalid("disk.id", reason)
                    };
                    u32::from_str_radix(digits, 16).map_err(wrong)?
                }
                None => ids.number("disk")?,
            },
        }),
        TablePlan::None => None,
    })
}
