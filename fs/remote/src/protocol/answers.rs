//! The answers of the agent.

use diskfs_vfs::{FileExtent, FileExtentKind, Identity, Statistics};
use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::failure::Failure;
use super::limits::MAX_REASON;
use super::programs::{Ended, Stream};
use super::{Checked, Violation};

/// An answer of the agent. [`Operation`](super::Operation) documents which variant answers which
/// request. Variants are added at the end.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply<'a> {
    /// The request has failed.
    Failed(#[serde(borrow)] Failure<'a>),
    /// The request has succeeded and has no result.
    Done,
    /// The filesystem that was mounted.
    Mounted(Mounted),
    /// A file's metadata.
    File(Attributes),
    /// Entries of a directory, in the bulk one after the other; see [`take_entry`].
    Entries {
        /// True if these are the last.
        ends: bool,
    },
    /// The result is the bulk.
    Data,
    /// The extended attribute does not exist.
    Absent,
    /// The result of statfs.
    Statistics(Usage),
    /// Extents of a file.
    Extents {
        /// The extents, in the order of their offsets in the file.
        extents: Vec<Extent>,
        /// True if these are the last.
        ends: bool,
    },
    /// The number of bytes written.
    Written {
        /// The length in bytes.
        len: u32,
    },
    /// A name was removed.
    Removed(Removed),
    /// A file was renamed.
    Renamed {
        /// The inode number of the renamed file.
        moved: u64,
        /// The file that was replaced, or with which the names were exchanged.
        replaced: Option<Removed>,
    },
    /// A program was started.
    Started {
        /// The program's number.
        program: u32,
    },
    /// The bulk is output of a program.
    Output {
        /// The stream to which the program wrote.
        stream: Stream,
    },
    /// A program has ended, and all its output was sent before.
    Ended(Ended),
    /// The contents of several files are the bulk.
    Files {
        /// The number of bytes that were read from each file, in the order of the request; `None`
        /// for a file that can't be read.
        lens: Vec<Option<u32>>,
    },
}

/// A file that lost a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// The inode number.
    pub inode: u64,
    /// True if it was the last name, and the agent keeps the file.
    pub kept: bool,
}

/// A filesystem that was mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// The number of the filesystem.
    pub filesystem: u32,
    /// The root's metadata.
    pub root: Attributes,
    kind: String,
    label: Vec<u8>,
    uuid: Option<String>,
    features: Vec<String>,
    notes: Vec<String>,
}

impl Mounted {
    /// Creates the description of a filesystem with this number.
    pub fn new(filesystem: u32, root: Attributes, identity: Identity) -> Self {
        Self {
            filesystem,
            root,
            kind: identity.kind,
            label: identity.label,
            uuid: identity.uuid,
            features: identity.features,
            notes: identity.notes,
        }
    }

    /// Returns the filesystem's description of itself.
    ///
    /// # Errors
    /// Fails if a text is too long or contains control characters.
    pub fn identity(&self) -> Checked<Identity> {
        let texts = [&self.kind].into_iter().chain(&self.uuid);
        let mut texts = texts.chain(&self.features).chain(&self.notes);
        let is_bad = |text: &String| text.len() > MAX_REASON || text.contains(char::is_control);
        if self.label.len() > MAX_REASON || texts.any(is_bad) {
            return Err(Violation("invalid name of a filesystem"));
        }
        Ok(Identity {
            kind: self.kind.clone(),
            label: self.label.clone(),
            uuid: self.uuid.clone(),
            features: self.features.clone(),
            notes: self.notes.clone(),
        })
    }
}

/// [`Statistics`] in their wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    block_size: u32,
    allocation_size: u32,
    blocks: u64,
    blocks_free: u64,
    blocks_available: u64,
    inodes: u64,
    inodes_free: u64,
    name_max: u32,
}

impl From<Statistics> for Usage {
    fn from(statistics: Statistics) -> Self {
        Self {
            block_size: statistics.block_size,
            allocation_size: statistics.allocation_size,
            blocks: statistics.blocks,
            blocks_free: statistics.blocks_free,
            blocks_available: statistics.blocks_available,
            inodes: statistics.inodes,
            inodes_free: statistics.inodes_free,
            name_max: statistics.name_max,
        }
    }
}

impl From<Usage> for Statistics {
    fn from(raw: Usage) -> Self {
        Self {
            block_size: raw.block_size,
            allocation_size: raw.allocation_size,
            blocks: raw.blocks,
            blocks_free: raw.blocks_free,
            blocks_available: raw.blocks_available,
            inodes: raw.inodes,
            inodes_free: raw.inodes_free,
            name_max: raw.name_max,
        }
    }
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<'a> {
    /// The name of the entry.
    #[serde(borrow)]
    pub name: &'a [u8],
    /// The inode number.
    pub inode: u64,
    /// The cookie at which the listing continues after this entry.
    pub cookie: u64,
    /// The file type bits of `st_mode`; 0 if unknown.
    pub type_bits: u32,
    /// The metadata, if it could be read; `.` and `..` have none.
    pub attributes: Option<Attributes>,
}

/// Removes the first entry from the bulk of [`Reply::Entries`] and returns it.
///
/// # Errors
/// Fails if the entry is invalid.
pub fn take_entry<'b>(bytes: &mut &'b [u8]) -> Checked<Entry<'b>> {
    let taken = postcard::take_from_bytes(bytes);
    let (entry, rest) = taken.map_err(|_| Violation("invalid directory entry"))?;
    *bytes = rest;
    Ok(entry)
}

/// A [`FileExtent`] in its wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    offset: u64,
    len_bytes: u64,
    place: ExtentPlace,
}

/// A [`FileExtentKind`] in its wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ExtentPlace {
    At(u64),
    Inline,
    Hole,
}

impl From<FileExtent> for Extent {
    fn from(extent: FileExtent) -> Self {
        Self {
            offset: extent.offset,
            len_bytes: extent.len_bytes,
            place: match extent.kind {
                FileExtentKind::Stored { device_offset } => ExtentPlace::At(device_offset),
                FileExtentKind::Inline => ExtentPlace::Inline,
                FileExtentKind::Hole => ExtentPlace::Hole,
            },
        }
    }
}

impl Extent {
    /// Returns the extent, which must begin at offset `from` of the file.
    ///
    /// # Errors
    /// Fails if it doesn't, if it is empty, or if it ends past the maximum file size.
    pub fn beginning_at(self, from: u64) -> Checked<FileExtent> {
        let is_whole = self.len_bytes > 0 && self.offset.checked_add(self.len_bytes).is_some();
        let kind = match self.place {
            ExtentPlace::At(device_offset)
                if device_offset.checked_add(self.len_bytes).is_some() =>
            {
                FileExtentKind::Stored { device_offset }
            }
            ExtentPlace::Inline => FileExtentKind::Inline,
            ExtentPlace::Hole => FileExtentKind::Hole,
            ExtentPlace::At(_) => {
                return Err(Violation("invalid extent: past the maximum device size"));
            }
        };
        if !is_whole || self.offset != from {
            return Err(Violation("invalid extents: not in order"));
        }
        Ok(FileExtent {
            offset: self.offset,
            len_bytes: self.len_bytes,
            kind,
        })
    }
}
