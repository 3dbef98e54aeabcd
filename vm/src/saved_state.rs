//! The saved state of a QEMU machine whose agent waits for its host: machines that begin with it
//! don't need to boot.
//!
//! The file consists of a [header](Header) of one page, followed by QEMU's migration stream. QEMU
//! writes and reads the stream at a socket that it inherits or receives (`fd:`), which every
//! version supports; only new ones open files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

use serde::{Deserialize, Serialize};

use diskfs_disk::Result;

/// The offset of QEMU's migration stream.
const STATE_OFFSET: u64 = 4096;

/// The size of the buffer for sending the stream.
const BUFFER_BYTES: usize = 1 << 20;

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

    /// Opens the state as a stream, which a thread fills until the other end is closed.
    ///
    /// # Errors
    /// Fails if the file can't be opened or no thread can be started.
    pub(super) fn stream(&self) -> io::Result<OwnedFd> {
        let mut file = File::open(&self.file)?;
        file.seek(SeekFrom::Start(STATE_OFFSET))?;
        let (reader, writer) = UnixStream::pair()?;
        thread::Builder::new()
            .name("microvm state".to_owned())
            .spawn(move || send(file, writer))?;
        Ok(reader.into())
    }
}

/// Writes the rest of a file to a stream. An error is noticed at the other end, whose stream ends
/// too early.
fn send(mut file: File, mut writer: UnixStream) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(len @ 1..) = file.read(&mut buffer) {
        let read = buffer.get(..len).unwrap_or_default();
        if writer.write_all(read).is_err() {
            return;
        }
    }
}

/// Writes QEMU's migration stream from `reader` behind the header of a file.
///
/// # Errors
/// Fails with the error of reading or writing.
pub(super) fn receive(mut reader: UnixStream, mut file: &File) -> io::Result<()> {
    file.seek(SeekFrom::Start(STATE_OFFSET))?;
    io::copy(&mut reader, &mut file).map(drop)
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
        made.write_all_at(b"the state", STATE_OFFSET).unwrap();
        let mut stream = UnixStream::from(found.stream().unwrap());
        let mut state = String::new();
        stream.read_to_string(&mut state).unwrap();
        assert_eq!(state, "the state");
        assert_eq!(SavedState::find(&file, 512), None);
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(SavedState::find(&file, 256), None);
    }
}
