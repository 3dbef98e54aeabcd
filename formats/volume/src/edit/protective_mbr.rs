//! The MBR before a GPT: its protective entry, and the entries of a hybrid MBR that repeat some
//! partitions. UEFI specification 2.10, section 5.2.3.

use diskfs_block::{BlockRead, Error, Result};

use crate::mbr::boot_record::{LEN_BYTES, set_entry, set_signature, sign};
use crate::mbr::{BootRecord, Entry};

use super::run::Run;

/// The MBR in the first sector of a disk. Everything but its entries is kept, such as boot code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProtectiveMbr {
    sector: [u8; LEN_BYTES],
    entries: [Entry; 4],
}

impl ProtectiveMbr {
    /// Reads the first sector.
    pub(super) fn read(device: &dyn BlockRead) -> Result<Self> {
        let mut sector = [0; LEN_BYTES];
        device.read_at(0, &mut sector)?;
        let record = BootRecord::from_sector(&sector);
        Ok(Self {
            sector,
            entries: record.map_or([Entry::UNUSED; 4], |record| record.entries),
        })
    }

    /// Creates the MBR of a new GPT in place of `old`, of which it keeps the boot code.
    pub(super) fn new(old: &[u8; LEN_BYTES], disk_sectors: u64) -> Self {
        let mut sector = *old;
        // A disk id would be that of the old MBR.
        set_signature(&mut sector, 0);
        let mut new = Self {
            sector,
            entries: [Entry::UNUSED; 4],
        };
        new.protect(disk_sectors);
        new
    }

    /// Makes the only entry of a pure GPT cover the disk, unless it does already. The size is
    /// limited to 32 bits. A hybrid MBR keeps its protective entries.
    pub(super) fn protect(&mut self, disk_sectors: u64) {
        let len = u32::try_from(disk_sectors.saturating_sub(1)).unwrap_or(u32::MAX);
        let entries = self.entries.iter_mut();
        let mut used = entries.filter(|entry| entry.is_used() || entry.is_protective());
        match (used.next(), used.next()) {
            (None, _) => {
                let [first, ..] = &mut self.entries;
                *first = Entry {
                    type_byte: 0xee,
                    start_sectors: 1,
                    len_sectors: len,
                    ..Entry::UNUSED
                };
            }
            // Some tools always write the largest size, which every system accepts.
            (Some(entry), None) if entry.is_protective() && entry.len_sectors != u32::MAX => {
                entry.start_sectors = 1;
                entry.len_sectors = len;
            }
            _ => {}
        }
    }

    /// Changes the entries that repeat the partition `old` to the place `new`, or removes them if
    /// the partition is deleted.
    ///
    /// # Errors
    /// `Unsupported` if such an entry cannot have the new place.
    pub(super) fn follow(&mut self, old: Run, new: Option<Run>) -> Result<()> {
        let mut entries = self.entries;
        for (index, entry) in entries.iter_mut().enumerate() {
            if !entry.is_used() || entry.is_protective() || place(entry) != old {
                continue;
            }
            let Some(new) = new else {
                *entry = Entry::UNUSED;
                continue;
            };
            self.check_is_free(index, new)?;
            let len = u32::try_from(new.len_sectors()).ok();
            let start = u32::try_from(new.start).ok();
            let (Some(start), Some(len)) = (start, len) else {
                return Err(refused(index, new, "an MBR has no numbers of that size"));
            };
            entry.start_sectors = start;
            entry.len_sectors = len;
        }
        self.entries = entries;
        Ok(())
    }

    /// Fails if entry `index` would share sectors with another one at `new`.
    fn check_is_free(&self, index: usize, new: Run) -> Result<()> {
        let mut others = (0..)
            .zip(&self.entries)
            .filter(|(other, _)| *other != index);
        match others.find(|(_, entry)| entry.is_used() && place(entry).overlaps(new)) {
            Some((other, _)) => {
                let other: usize = other;
                let reason = format!("it would overlap entry {}", other.saturating_add(1));
                Err(refused(index, new, &reason))
            }
            None => Ok(()),
        }
    }

    /// Returns the sector to write.
    pub(super) fn to_sector(&self) -> Vec<u8> {
        let mut sector = self.sector;
        sign(&mut sector);
        for (index, entry) in self.entries.iter().enumerate() {
            set_entry(&mut sector, index, entry, 0);
        }
        sector.to_vec()
    }
}

fn place(entry: &Entry) -> Run {
    Run::new(entry.start_sectors.into(), entry.len_sectors.into())
}

fn refused(index: usize, new: Run, reason: &str) -> Error {
    let number = index.saturating_add(1);
    Error::unsupported(format!(
        "the hybrid MBR repeats the partition in entry {number}, which cannot be changed to {new}: \
         {reason}"
    ))
    .with_hint("make it a pure GPT first, with the command `n` in the expert menu of gdisk")
}
