//! What the agent answers.

use diskfs_vfs::{FileExtent, FileExtentKind, Identity, Statistics};
use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::failure::Failure;
use super::limits::MAX_REASON;
use super::programs::{Ended, Stream};
use super::{Checked, Violation};

/// What the agent answers. Which variant belongs to which request stands at
/// [`Operation`](super::Operation). Variants are added at the end.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply<'a> {
    /// It failed.
    Failed(#[serde(borrow)] Failure<'a>),
    /// It is done, and there is nothing to tell.
    Done,
    /// What was mounted.
    Mounted(Mounted),
    /// A file's metadata.
    File(Attributes),
    /// Entries of a directory, behind the message one after the other: [`take_entry`].
    Entries {
        /// Whether these were the last.
        ends: bool,
    },
    /// The bytes behind the message.
    Data,
    /// There is no such attribute.
    Absent,
    /// What statfs tells.
    Statistics(Usage),
    /// Extents of a file.
    Extents {
        /// In order.
        extents: Vec<Extent>,
        /// Whether these were the last.
        ends: bool,
    },
    /// How much was written.
    Written {
        /// In bytes.
        len: u32,
    },
    /// A name was taken.
    Removed(Removed),
    /// A file was renamed.
    Renamed {
        /// The file.
        moved: u64,
        /// What it replaced, or changed names with.
        replaced: Option<Removed>,
    },
    /// A program runs.
    Started {
        /// Its number.
        program: u32,
    },
    /// The bytes behind the message are what a program wrote.
    Output {
        /// Where to.
        stream: Stream,
    },
    /// A program has ended, and all that it wrote was told.
    Ended(Ended),
}

/// A file that lost a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Its number.
    pub inode: u64,
    /// Whether it was its last name, and the file is kept.
    pub kept: bool,
}

/// What is known of a filesystem that was mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// Its number among those mounted.
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
    /// Of a filesystem with this number.
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

    /// What the filesystem says of itself.
    ///
    /// # Errors
    /// When a text is longer than any should be, or not to be shown.
    pub fn identity(&self) -> Checked<Identity> {
        let texts = [&self.kind].into_iter().chain(&self.uuid);
        let mut texts = texts.chain(&self.features).chain(&self.notes);
        let is_bad = |text: &String| text.len() > MAX_REASON || text.contains(char::is_control);
        if self.label.len() > MAX_REASON || texts.any(is_bad) {
            return Err(Violation("a filesystem's name is not one"));
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

/// [`Statistics`] as it goes over the stream.
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

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<'a> {
    /// The name.
    #[serde(borrow)]
    pub name: &'a [u8],
    /// The file's number.
    pub inode: u64,
    /// Where the listing goes on behind it.
    pub cookie: u64,
    /// The type's bits of `st_mode`, where it is known; else 0.
    pub type_bits: u32,
    /// The metadata, where it could be had; `.` and `..` come without.
    pub attributes: Option<Attributes>,
}

/// Takes the first entry off the bytes behind [`Reply::Entries`].
///
/// # Errors
/// When it is none.
pub fn take_entry<'b>(bytes: &mut &'b [u8]) -> Checked<Entry<'b>> {
    let taken = postcard::take_from_bytes(bytes);
    let (entry, rest) = taken.map_err(|_| Violation("a directory's entry makes no sense"))?;
    *bytes = rest;
    Ok(entry)
}

/// [`FileExtent`] as it goes over the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    offset: u64,
    len_bytes: u64,
    place: Place,
}

/// [`FileExtentKind`] as it goes over the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
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
                FileExtentKind::Stored { device_offset } => Place::At(device_offset),
                FileExtentKind::Inline => Place::Inline,
                FileExtentKind::Hole => Place::Hole,
            },
        }
    }
}

impl Extent {
    /// The extent, which must begin at byte `from` of the file.
    ///
    /// # Errors
    /// When it doesn't, or is empty, or ends past what a file can have.
    pub fn beginning_at(self, from: u64) -> Checked<FileExtent> {
        let is_whole = self.len_bytes > 0 && self.offset.checked_add(self.len_bytes).is_some();
        let kind = match self.place {
            Place::At(device_offset) if device_offset.checked_add(self.len_bytes).is_some() => {
                FileExtentKind::Stored { device_offset }
            }
            Place::Inline => FileExtentKind::Inline,
            Place::Hole => FileExtentKind::Hole,
            Place::At(_) => return Err(Violation("an extent lies past every device's end")),
        };
        if !is_whole || self.offset != from {
            return Err(Violation("the extents of a file have no order"));
        }
        Ok(FileExtent {
            offset: self.offset,
            len_bytes: self.len_bytes,
            kind,
        })
    }
}
