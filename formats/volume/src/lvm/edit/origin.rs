//! The record of who wrote the metadata.

use diskfs_block::{Error, Result};

use super::super::text::{Section, Text, Value};
use super::draft;

/// The record of who wrote the metadata, and when. LVM only shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataOrigin {
    /// The name of the machine.
    pub host: String,
    /// The time in seconds since 1970.
    pub time_seconds: u64,
    /// The command that wrote the metadata.
    pub description: String,
}

impl MetadataOrigin {
    /// Checks that the strings can be stored without escapes.
    pub(super) fn check(&self) -> Result<()> {
        let is_plain = |c: char| !c.is_control() && c != '"' && c != '\\';
        for text in [&self.host, &self.description] {
            if text.len() > MAX_TEXT_BYTES || !text.chars().all(is_plain) {
                let shown: String = text.escape_debug().take(40).collect();
                return Err(Error::invalid(format!(
                    "invalid text in LVM metadata: {shown}"
                )));
            }
        }
        Ok(())
    }

    /// Sets the values of a whole text.
    pub(super) fn set_in<'t>(&'t self, tree: &mut Section<'t>) -> Result<()> {
        tree.set("description", Value::Text(Text::new(&self.description)));
        self.set_creation(tree)
    }

    /// Sets the creation of a whole text or of a logical volume.
    pub(super) fn set_creation<'t>(&'t self, section: &mut Section<'t>) -> Result<()> {
        section.set("creation_time", draft::number(self.time_seconds)?);
        section.set("creation_host", Value::Text(Text::new(&self.host)));
        Ok(())
    }
}

/// The largest length of a host name or a description.
const MAX_TEXT_BYTES: usize = 1024;
