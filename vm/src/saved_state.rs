//! The saved state of a QEMU machine whose agent waits for its host: machines that begin with it
//! don't need to boot.
//!
//! The file consists of a [header](Header) of one page, followed by QEMU's migration stream.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use diskfs_disk::Result;

/// The offset of QEMU's migration stream.
pub(super) const STATE_OFFSET: u64 = 4096;

/// The magic text of the file.
const MAGIC: &str = "diskfs saved machine";

/// The header: the properties that a machine must have to restore the state. It is JSON, padded
/// with blanks to a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    magic: String,
    /// The machine type with its version, as QEMU names it.
    machine: String,
    memory_mib: u32,
}

/// A saved state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SavedState {
    file: PathBuf,
    header: Header,
}

impl SavedState {
    /// Writes the header of a file with the state of such a machine. The state itself may be
    /// written later.
    ///
    /// # Errors
    /// Fails if the header can't be written.
    pub(super) fn write_header(file: &File, machine: &str, memory_mib: u32) -> Result<()> {
        let header = Header {
            magic: MAGIC.to_owned(),
            machine: machine.to_owned(),
            memory_mib,
        };
        let mut page = serde_json::to_vec(&header).map_err(std::io::Error::from)?;
        page.resize(usize::try_from(STATE_OFFSET).unwrap_or_default(), b' ');
        Ok(file.write_all_at(&page, 0)?)
    }

    /// Returns the state in a file if it exists and a machine with this memory can restore it.
    pub(super) fn find(file: &Path, memory_mib: u32) -> Option<Self> {
        let mut page = Vec::new();
        let opened = File::open(file).ok()?;
        opened.take(STATE_OFFSET).read_to_end(&mut page).ok()?;
        let header: Header = serde_json::from_slice(&page).ok()?;
        let fits = header.magic == MAGIC && header.memory_mib == memory_mib;
        fits.then(|| Self {
            file: file.to_owned(),
            header,
        })
    }

    /// Returns the path of the file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the machine type of the state.
    pub(super) fn machine(&self) -> &str {
        &self.header.machine
    }

    /// Returns the URI under which QEMU reads the state.
    pub(super) fn uri(&self) -> String {
        uri(&self.file)
    }
}

/// Returns QEMU's URI for the migration stream in a file.
pub(super) fn uri(file: &Path) -> String {
    format!("file:{},offset={STATE_OFFSET:#x}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_for_machines_like_the_one_it_was_saved_of() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state");
        assert_eq!(SavedState::find(&file, 256), None);
        let made = File::create(&file).unwrap();
        SavedState::write_header(&made, "pc-i440fx-10.0", 256).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().len(), STATE_OFFSET);
        let found = SavedState::find(&file, 256).unwrap();
        assert_eq!(found.machine(), "pc-i440fx-10.0");
        assert!(found.uri().ends_with("/state,offset=0x1000"), "{found:?}");
        assert_eq!(SavedState::find(&file, 512), None);
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(SavedState::find(&file, 256), None);
    }
}
