//! The account files of a guest, with fields separated by colons: passwd(5), shadow(5), group(5),
//! gshadow(5), subuid(5).

use std::ops::{Deref, DerefMut};

use super::super::stage::Stage;
use diskfs_disk::Result;

/// An account file with its path.
#[derive(Debug)]
pub(in super::super) struct Table {
    path: &'static str,
    table: diskfs_etc::table::Table,
}

impl Table {
    /// Reads a file of the guest; `None` if it does not exist.
    pub(in super::super) fn read(stage: &Stage, path: &'static str) -> Result<Option<Self>> {
        let text = stage.text(path)?;
        Ok(text.map(|text| Self {
            path,
            table: diskfs_etc::table::Table::new(text),
        }))
    }

    /// Writes the file back. Unchanged contents count as no change.
    pub(in super::super) fn write(&self, stage: &mut Stage) -> Result<()> {
        stage.write_text(self.path, self.table.text())
    }
}

impl Deref for Table {
    type Target = diskfs_etc::table::Table;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl DerefMut for Table {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.table
    }
}
