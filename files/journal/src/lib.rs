//! A reader for systemd's binary journal files, `*.journal` and `*.journal~`, without a running
//! journald.
//!
//! [`Journal::open`] reads the header of a file, [`Journal::entries`] iterates over the log from
//! the oldest or the newest entry, and [`Entry::fields`] reads the fields of an entry. Entries and
//! fields are read on demand, so reading the last ten lines of a large file takes only a few reads.
//!
//! The format is that of <https://systemd.io/JOURNAL_FILE_FORMAT/>, with `journal-def.h` for the
//! details that the text omits. All of its flags are supported: XZ, LZ4 and ZSTD, keyed hashes,
//! compact files and sealed ones. Seals are not verified.
//!
//! ```
//! use std::sync::Arc;
//! use diskfs_block::Memory;
//! use diskfs_journal::{DATA_SIZE_MAX, Journal};
//!
//! # let packed = &include_bytes!("../tests/fixtures/three-boots.journal.zst")[..];
//! # let bytes = zstd::stream::decode_all(packed).expect("a fixture");
//! let journal = Journal::open(Arc::new(Memory::new(bytes)))?;
//! let last = journal.entries().next_back().expect("the journal has entries")?;
//! let mut messages = Vec::new();
//! for field in last.fields(DATA_SIZE_MAX) {
//!     let field = field?;
//!     if field.name() == b"MESSAGE" {
//!         messages.push(field.value().to_vec());
//!     }
//! }
//! assert_eq!(messages, [b"entry 299 of the fixture"]);
//! assert_eq!(journal.boots()?.len(), 3);
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! # Hostile files
//!
//! No value in the file is trusted. Every offset is checked against the file. Every chain must lead
//! in one direction through the file, so that it cannot loop. Counts and sizes have limits, and no
//! more is decompressed than the caller asked for.
//!
//! # Errors
//!
//! `Corrupt` with the place in the file, `Unsupported` with the unknown flags, and the errors of
//! the device. A broken entry or field yields an error in its position, and reading continues after
//! it.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod boots;
mod chain;
mod compression;
mod data;
mod entries;
mod entry;
mod entry_array;
mod field_hash_table;
mod header;
mod object;
mod reader;
mod stored;

use std::sync::Arc;

use diskfs_block::{BlockRead, Result};
use uuid::Uuid;

pub use boots::Boot;
pub use data::{DATA_SIZE_MAX, Field};
pub use entries::Entries;
pub use entry::{Entry, Fields};
pub use header::{Compatible, FileState, Header, Incompatible};

use reader::Reader;

/// An open journal file.
#[derive(Debug, Clone)]
pub struct Journal {
    reader: Arc<Reader>,
}

impl Journal {
    /// Opens the journal file on `device`, and reads its header.
    ///
    /// # Errors
    /// `Corrupt` if `device` is not a journal file, `Unsupported` for unknown features.
    pub fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        let reader = Arc::new(Reader::open(device)?);
        Ok(Self { reader })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.reader.header
    }

    /// Returns the ID of the machine that wrote the file (machine-id(5)).
    pub fn machine_id(&self) -> Uuid {
        self.header().machine_id
    }

    /// Returns the state: whether the file was closed. A file that was not
    /// ([`FileState::Online`]) is read like others.
    pub fn state(&self) -> FileState {
        self.header().state
    }

    /// Returns the entries, oldest first; use `rev()` or `next_back()` for the newest first.
    pub fn entries(&self) -> Entries {
        Entries::new(Arc::clone(&self.reader))
    }

    /// Returns the boots of its entries, oldest first. Uses the file's index, and reads only the
    /// first and the last entry of each boot.
    ///
    /// # Errors
    /// `Corrupt` if the index is invalid.
    pub fn boots(&self) -> Result<Vec<Boot>> {
        boots::read(&self.reader)
    }
}
