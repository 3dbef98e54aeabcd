//! The writes of an edited MBR.

use diskfs_block::{BlockWrite, Result};

use crate::mbr::boot_record::{LEN_BYTES, set_entry, set_signature, sign};

use super::super::plan::{Plan, PlannedWrite};
use super::MbrEditor;

impl MbrEditor {
    /// Writes the changes; returns false if there are none.
    ///
    /// # Errors
    /// Errors of the device.
    pub(in crate::edit) fn write(&self, device: &dyn BlockWrite) -> Result<bool> {
        if self.stored.as_ref() == Some(&self.contents) {
            return Ok(false);
        }
        self.plan().execute(device)
    }

    /// Returns the writes in their order. Records that nothing refers to yet come first, then the
    /// MBR, then the records that are in use, from the last to the first.
    fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        let old = self
            .stored
            .as_ref()
            .and_then(|stored| stored.chain.as_ref().ok());
        let old = old.and_then(Option::as_ref);
        let chain = self.contents.chain.as_ref().ok().and_then(Option::as_ref);
        let same_place = old.filter(|old| chain.is_some_and(|new| new.start == old.start));
        let writes = chain.map(|chain| chain.writes(same_place, self.sector_size));
        let [unlinked, linked] = writes.unwrap_or_default();
        plan.step(unlinked);
        plan.step([PlannedWrite {
            offset: 0,
            bytes: self.to_sector(),
        }]);
        for write in linked {
            plan.step([write]);
        }
        let len = usize::try_from(self.sector_size.bytes()).unwrap_or(LEN_BYTES);
        plan.step(self.gpt_headers.iter().map(|lba| PlannedWrite {
            offset: self.sector_size.to_bytes(*lba).unwrap_or(u64::MAX),
            bytes: vec![0; len],
        }));
        plan
    }

    /// Returns the first sector. Everything but the entries and the disk id is kept.
    fn to_sector(&self) -> Vec<u8> {
        let mut sector = self.sector;
        sign(&mut sector);
        set_signature(&mut sector, self.contents.signature);
        for (index, entry) in self.contents.entries.iter().enumerate() {
            set_entry(&mut sector, index, entry, 0);
        }
        sector.to_vec()
    }
}
