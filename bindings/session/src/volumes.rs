//! The volumes of a disk.

use diskfs::{Content, Result, Volume};

use crate::Session;

/// A volume in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSummary {
    /// The name in diskfs: `p1`, `vg0/root`, `disk`.
    pub name: String,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The kind of the content as `blkid` names it, if it is known.
    pub kind: Option<&'static str>,
    /// The label of the content, as bytes; empty without one.
    pub label: Vec<u8>,
    /// The UUID of the content as `blkid` prints it.
    pub uuid: Option<String>,
    /// True if diskfs can open the content as a filesystem.
    pub is_readable: bool,
}

impl VolumeSummary {
    fn of(volume: &Volume) -> Self {
        // A volume that can't be read is listed like one with unknown content.
        let content = volume.content().ok().flatten();
        Self {
            name: volume.name().to_owned(),
            size_bytes: volume.size_bytes(),
            kind: content.map(|content| content.kind),
            label: content.map_or_else(Vec::new, |content| content.label.clone()),
            uuid: content.and_then(|content| content.uuid.clone()),
            is_readable: content.is_some_and(Content::is_readable),
        }
    }
}

impl Session {
    /// Returns the volumes of the disk: partitions, logical volumes, arrays, and the decrypted
    /// insides of encrypted volumes.
    ///
    /// # Errors
    /// `Corrupt` for an invalid partition table; `Io`.
    pub fn volumes(&self) -> Result<Vec<VolumeSummary>> {
        self.with_disk(|open| Ok(open.disk.volumes()?.iter().map(VolumeSummary::of).collect()))
    }
}
