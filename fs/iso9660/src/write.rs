//! Writing small volumes with Rock Ridge and Joliet, such as the seeds of cloud-init.
//!
//! The same volume always becomes the same bytes: all files have one time and one owner.

mod date;
mod descriptor;
mod directory;
mod identifier;
mod layout;
mod path_table;
mod record;
mod system_use;
mod tree;

use crate::error::{Error, ErrorKind, Result};
use layout::Layout;
use tree::Tree;

/// The size of a logical block and of a sector.
const BLOCK_BYTES: usize = 2048;

/// The most files of a volume: seeds have less than ten.
const MAX_FILES: usize = 1000;

/// The most bytes of all files: the image is made in memory.
const MAX_CONTENT_BYTES: usize = 64 << 20;

/// A volume to write.
#[derive(Debug, Clone, Default)]
pub struct NewVolume {
    /// The volume identifier: 1 to 16 printable characters of ASCII, as Joliet stores no more.
    pub identifier: String,
    /// The files. Their directories are created.
    pub files: Vec<NewFile>,
    /// The time of everything in the volume, in seconds since 1970: at most 2155.
    pub time_seconds: u64,
    /// The size of the image is a multiple of this number of bytes; 0 pads to whole blocks.
    pub align_bytes: usize,
}

/// A file of a new volume. It belongs to root, who alone can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// The path, such as `openstack/latest/user_data`: at most 7 directories. Names have at most 64
    /// of the characters `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`.
    pub path: String,
    /// The contents.
    pub contents: Vec<u8>,
}

impl NewVolume {
    /// Returns the image of the volume.
    ///
    /// # Errors
    /// `Invalid` for an identifier, a path or a time that cannot be stored, for a path that is there
    /// twice, and for more files or contents than the limits.
    pub fn image(&self) -> Result<Vec<u8>> {
        self.check()?;
        let tree = Tree::of(&self.files)?;
        let layout = Layout::of(&tree, self)?;
        layout.image(&tree, self)
    }

    fn check(&self) -> Result<()> {
        let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
        let len = self.identifier.len();
        if !(1..=16).contains(&len) || !self.identifier.bytes().all(is_printable) {
            let reason = format!(
                "invalid volume identifier `{}`: expected 1 to 16 printable characters of ASCII",
                self.identifier.escape_debug()
            );
            return Err(invalid(reason));
        }
        if self.files.len() > MAX_FILES {
            return Err(invalid(format!("too many files: at most {MAX_FILES}")));
        }
        let bytes = self
            .files
            .iter()
            .fold(0_usize, |sum, file| sum.saturating_add(file.contents.len()));
        if bytes > MAX_CONTENT_BYTES {
            let reason = format!("too much data: {bytes} bytes, at most {MAX_CONTENT_BYTES}");
            return Err(invalid(reason));
        }
        Ok(())
    }
}

fn invalid(reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Invalid, reason)
}

/// Appends a number in both byte orders (ECMA-119, 7.2.3).
fn push_both_16(bytes: &mut Vec<u8>, number: u16) {
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&number.to_be_bytes());
}

/// Appends a number in both byte orders (ECMA-119, 7.3.3).
fn push_both_32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&number.to_be_bytes());
}
