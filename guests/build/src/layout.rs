//! The sizes of all parts of the disk.

use diskfs_disk::{Error, ErrorKind, ExtKind, ExtOptions, Result, fitting_size};
use diskfs_vfs::Timestamp;
use diskfs_volume::lvm::NewGroup;

use crate::filesystem::ext_options;
use crate::plan::{DiskPlan, Extra, FilesystemKind, Size, TablePlan};
use crate::problem::{at, invalid};
use crate::scan::MountUsage;
use crate::slot::{Contents, FilesystemSlot, LvmSlot, Slot};

const MIB: u64 = 1 << 20;

/// The alignment of partitions, and the space before the first one.
pub(crate) const ALIGNMENT_BYTES: u64 = MIB;

/// The space for the backup of a GPT, so that the size of the disk is aligned, too.
const BACKUP_BYTES: u64 = MIB;

/// The space of a FAT filesystem besides its files and tables.
const FAT_MORE_BYTES: u64 = 2 * MIB;

/// The computation of sizes.
#[derive(Debug)]
pub(crate) struct Sizes<'a> {
    pub(crate) mounts: &'a [MountUsage],
    pub(crate) time: Timestamp,
}

/// The places of a disk's partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskLayout {
    pub(crate) disk_bytes: u64,
    /// The start of each partition.
    pub(crate) starts: Vec<u64>,
}

impl Sizes<'_> {
    /// Computes the sizes of the disk and of everything on it.
    ///
    /// # Errors
    /// `Invalid` or `NoSpace`, with the key of the plan.
    pub(crate) fn place(&self, disk: &DiskPlan, slots: &mut [Slot]) -> Result<DiskLayout> {
        let (before, after) = match disk.table {
            TablePlan::Gpt => (ALIGNMENT_BYTES, BACKUP_BYTES),
            TablePlan::Mbr => (ALIGNMENT_BYTES, 0),
            TablePlan::None => (0, 0),
        };
        let overhead = before + after;
        for slot in &mut *slots {
            slot.bytes = align(self.needed(slot)?, ALIGNMENT_BYTES);
        }
        let needed = slots
            .iter()
            .fold(overhead, |sum, slot| sum.saturating_add(slot.bytes));
        let disk_bytes = match disk.size {
            Size::Bytes(bytes) => bytes,
            Size::Fit(extra) => align(extra.added_to(needed), ALIGNMENT_BYTES),
            Size::Rest => return Err(invalid("disk.size", "a disk can't have the size `rest`")),
        };
        if !disk_bytes.is_multiple_of(u64::from(disk.sector_size)) {
            let reason = format!("{disk_bytes} bytes are not whole sectors");
            return Err(invalid("disk.size", reason));
        }
        give_rest(
            "partitions",
            slots.iter_mut(),
            disk_bytes,
            needed,
            ALIGNMENT_BYTES,
        )
        .map_err(|error| match (error.kind(), disk.size) {
            (ErrorKind::NoSpace, _) => at("disk.size", error),
            _ => error,
        })?;
        let mut starts = Vec::new();
        let mut start = before;
        for slot in slots {
            starts.push(start);
            start = start.saturating_add(slot.bytes);
            self.place_contents(slot)?;
        }
        Ok(DiskLayout { disk_bytes, starts })
    }

    /// Sets the sizes in a slot whose own size is known.
    fn place_contents(&self, slot: &mut Slot) -> Result<()> {
        let bytes = slot.bytes;
        match &mut slot.contents {
            Contents::Empty => Ok(()),
            Contents::Filesystem(filesystem) => self.check_content(filesystem, &slot.key, bytes),
            Contents::Luks(luks) => {
                let least = diskfs_luks::device_bytes(u64::from(luks.plan.sector_size));
                if bytes < least {
                    let reason = format!("too small for LUKS2: {bytes} bytes, at least {least}");
                    return Err(at(&slot.key, Error::new(ErrorKind::NoSpace, reason)));
                }
                let data_bytes = bytes - diskfs_luks::device_bytes(0);
                let sector_bytes = u64::from(luks.plan.sector_size.max(1));
                luks.inner.bytes = data_bytes - data_bytes % sector_bytes;
                self.place_contents(&mut luks.inner)
            }
            Contents::Lvm(lvm) => self.place_volumes(lvm, &slot.key, bytes),
        }
    }

    fn place_volumes(&self, lvm: &mut LvmSlot, key: &str, bytes: u64) -> Result<()> {
        let extent_bytes = NewGroup::DEFAULT_EXTENT_BYTES;
        for (_, _, slot) in &mut lvm.volumes {
            slot.bytes = align(self.needed(slot)?, extent_bytes);
        }
        let sizes = lvm.volumes.iter().map(|(_, _, slot)| slot.bytes);
        let needed = NewGroup::device_bytes(extent_bytes, sizes);
        let slots = lvm.volumes.iter_mut().map(|(_, _, slot)| slot);
        give_rest(&format!("{key}.lvm"), slots, bytes, needed, extent_bytes)?;
        let mut slots = lvm.volumes.iter_mut().map(|(_, _, slot)| slot);
        slots.try_for_each(|slot| self.place_contents(slot))
    }

    /// Refuses contents that can't fit, as far as their sizes alone show.
    fn check_content(&self, filesystem: &FilesystemSlot, key: &str, bytes: u64) -> Result<()> {
        let usage = self.usage(filesystem);
        let content_bytes = usage.map_or(0, |usage| usage.content_bytes);
        if content_bytes > bytes {
            let reason = format!(
                "too small for its files: {bytes} bytes, but the files have {content_bytes}"
            );
            let error = Error::new(ErrorKind::NoSpace, reason);
            return Err(at(key, error).with_hint("give a larger size, or `fit`"));
        }
        Ok(())
    }

    /// Returns the size that a slot needs, before the rest is given away.
    fn needed(&self, slot: &Slot) -> Result<u64> {
        match slot.size {
            Size::Bytes(0) => Err(invalid(
                &format!("{}.size", slot.key),
                "the size must not be 0",
            )),
            Size::Bytes(bytes) => Ok(bytes),
            Size::Fit(extra) => Ok(extra.added_to(self.fitting(slot, extra)?)),
            Size::Rest => self.fitting(slot, Extra::Percent(100)),
        }
    }

    fn fitting(&self, slot: &Slot, extra: Extra) -> Result<u64> {
        match &slot.contents {
            Contents::Empty if slot.size == Size::Rest => Ok(ALIGNMENT_BYTES),
            Contents::Empty => {
                let reason = "missing size: a partition or a volume without contents has none";
                Err(invalid(&format!("{}.size", slot.key), reason))
            }
            Contents::Filesystem(filesystem) => self.fitting_filesystem(slot, filesystem, extra),
            Contents::Luks(luks) => {
                let data_bytes = self.fitting(&luks.inner, extra)?;
                Ok(diskfs_luks::device_bytes(align(data_bytes, 4096)))
            }
            Contents::Lvm(lvm) => {
                let sizes = lvm.volumes.iter().map(|(_, _, slot)| self.needed(slot));
                let sizes = sizes.collect::<Result<Vec<u64>>>()?;
                Ok(NewGroup::device_bytes(
                    NewGroup::DEFAULT_EXTENT_BYTES,
                    sizes,
                ))
            }
        }
    }

    fn fitting_filesystem(
        &self,
        slot: &Slot,
        filesystem: &FilesystemSlot,
        extra: Extra,
    ) -> Result<u64> {
        let empty = MountUsage::new("", filesystem.plan.kind);
        let usage = self.usage(filesystem).unwrap_or(&empty);
        let kind = match filesystem.plan.kind {
            FilesystemKind::Ext4 => ExtKind::Ext4,
            FilesystemKind::Ext3 => ExtKind::Ext3,
            FilesystemKind::Ext2 => ExtKind::Ext2,
            FilesystemKind::Fat | FilesystemKind::Exfat => {
                // Both copies of the table have at most 4 bytes for each cluster of 512 bytes.
                let data_bytes = usage.clusters_bytes;
                return Ok((data_bytes + data_bytes / 32).saturating_add(FAT_MORE_BYTES));
            }
            _ if slot.size == Size::Rest => return Ok(Self::least(filesystem.plan.kind)),
            other => {
                let key = format!("{}.size", slot.key);
                let reason = format!(
                    "missing size: {} can't be fitted; give one, or `rest`",
                    other.name()
                );
                return Err(invalid(&key, reason));
            }
        };
        let options = ext_options(filesystem, kind, self.time);
        let options = ExtOptions {
            inodes: self.inodes(filesystem, extra),
            ..options
        };
        fitting_size(&options, &usage.usage).map_err(|error| at(&slot.key, error))
    }

    /// Returns the number of inodes of a filesystem that fits exactly: no more than it needs, as
    /// they would decide on its size.
    pub(crate) fn inodes(&self, filesystem: &FilesystemSlot, extra: Extra) -> Option<u64> {
        let usage = self.usage(filesystem)?;
        (extra == Extra::Bytes(0)).then(|| usage.usage.inodes())
    }

    fn usage(&self, filesystem: &FilesystemSlot) -> Option<&MountUsage> {
        let path = filesystem.mount.as_deref()?;
        self.mounts.iter().find(|mount| mount.path == path)
    }

    /// Returns the smallest size that the programs of a type accept.
    fn least(kind: FilesystemKind) -> u64 {
        match kind {
            FilesystemKind::Xfs => 300 * MIB,
            FilesystemKind::Btrfs => 109 * MIB,
            _ => MIB,
        }
    }
}

fn align(bytes: u64, unit: u64) -> u64 {
    bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

/// Gives the remaining space to the slot with the size `rest`.
///
/// # Errors
/// `NoSpace` if there is less than needed; `Invalid` for two such slots.
fn give_rest<'s>(
    key: &str,
    slots: impl Iterator<Item = &'s mut Slot>,
    available: u64,
    needed: u64,
    unit: u64,
) -> Result<()> {
    let Some(rest) = available.checked_sub(needed) else {
        let reason = format!("too small: {available} bytes, but {needed} bytes are needed");
        return Err(at(key, Error::new(ErrorKind::NoSpace, reason)));
    };
    let mut takers = slots.filter(|slot| slot.size == Size::Rest);
    let taker = takers.next();
    if let Some(second) = takers.next() {
        let reason = "only one of the partitions or volumes can have the size `rest`";
        return Err(invalid(&format!("{}.size", second.key), reason));
    }
    if let Some(slot) = taker {
        slot.bytes = slot.bytes.saturating_add(rest - rest % unit);
    }
    Ok(())
}
