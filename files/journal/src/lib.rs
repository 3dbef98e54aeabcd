//! systemd's binary journal files, read where no journald runs: `*.journal` and `*.journal~`.
//!
//! [`Journal::open`] reads a file's header; [`Journal::entries`] goes through what was logged, from the oldest
//! entry or from the newest; [`Entry::fields`] reads what an entry says. An entry is read when it is asked for and
//! a field when its entry is asked for it, so that the last ten lines of a large file cost a few reads.
//!
//! The format is that of <https://systemd.io/JOURNAL_FILE_FORMAT/>, with `journal-def.h` for what the text leaves
//! out: all of its flags, so XZ, LZ4 and ZSTD, keyed hashes, compact files and sealed ones. A seal is not
//! checked.
//!
//! ```
//! use std::sync::Arc;
//! use diskfs_block::Memory;
//! use diskfs_journal::{DATA_SIZE_MAX, Journal};
//!
//! # let packed = &include_bytes!("../tests/fixtures/three-boots.journal.zst")[..];
//! # let bytes = zstd::stream::decode_all(packed).expect("a fixture");
//! let journal = Journal::open(Arc::new(Memory::new(bytes)))?;
//! let last = journal.entries().next_back().expect("it is not empty")?;
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
//! # What is trusted
//!
//! Nothing. Every offset is checked against the file; what is a chain must go on towards the end of the file, so
//! that none circles; counts and sizes have limits; and no more is unpacked than was asked for.
//!
//! # Errors
//!
//! `Corrupt`, with the place in the file; `Unsupported` for flags that are not known, by their number; and what
//! the device answers. A broken entry or field is an error in its place, and what comes after it is read.
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
pub use header::{Compatible, Header, Incompatible, State};

use reader::Reader;

/// An open journal file.
#[derive(Debug, Clone)]
pub struct Journal {
    reader: Arc<Reader>,
}

impl Journal {
    /// Opens the journal file that `device` holds, and reads its header.
    ///
    /// # Errors
    /// `Corrupt` for what is no journal file, `Unsupported` for one with features that are not known.
    pub fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        let reader = Arc::new(Reader::open(device)?);
        Ok(Self { reader })
    }

    /// What the header says.
    pub fn header(&self) -> &Header {
        &self.reader.header
    }

    /// The machine that wrote it (machine-id(5)).
    pub fn machine_id(&self) -> Uuid {
        self.header().machine_id
    }

    /// Whether it was closed. One that was not ([`State::Online`]) is read like others.
    pub fn state(&self) -> State {
        self.header().state
    }

    /// Its entries, oldest first; from the other end with `rev()` or `next_back()`.
    pub fn entries(&self) -> Entries {
        Entries::new(Arc::clone(&self.reader))
    }

    /// The boots that its entries are of, oldest first, by the file's index: no entry but the first and the last of
    /// each boot is read.
    ///
    /// # Errors
    /// `Corrupt` for a broken index.
    pub fn boots(&self) -> Result<Vec<Boot>> {
        boots::read(&self.reader)
    }
}
