//! The identifiers of an image, by which its children name it.

use diskfs_block::bytes;
use uuid::Uuid;

/// The identifiers of an image. A differencing image stores those of its parent, and not its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskIds {
    /// The UUID of the image (`uuidCreate`; of a parent `uuidLinkage`).
    pub id: Uuid,
    /// The UUID of its contents, which VirtualBox changes when it writes to the disk (`uuidModify`;
    /// of a parent `uuidParentModify`).
    pub contents_id: Uuid,
}

impl DiskIds {
    /// Returns both identifiers as an image stores them.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut stored = [0; 32];
        bytes::put(&mut stored, 0, &self.id.to_bytes_le());
        bytes::put(&mut stored, 16, &self.contents_id.to_bytes_le());
        stored
    }

    /// Parses both identifiers as an image stores them; returns `None` for another length.
    pub fn from_bytes(stored: &[u8]) -> Option<Self> {
        let (id, rest) = stored.split_first_chunk::<16>()?;
        let contents_id: &[u8; 16] = rest.try_into().ok()?;
        Some(Self {
            id: Uuid::from_bytes_le(*id),
            contents_id: Uuid::from_bytes_le(*contents_id),
        })
    }
}
