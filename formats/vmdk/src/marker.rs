//! The markers of streams: one before each compressed grain, each table and the footer.

use diskfs_block::bytes::{le32, le64, put};

/// The bytes of a grain marker before the compressed data.
pub(crate) const GRAIN_MARKER_BYTES: usize = 12;

/// The size of a metadata marker: one sector.
pub(crate) const MARKER_BYTES: usize = 512;

/// The type of a metadata marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetadataType {
    EndOfStream,
    GrainTable,
    GrainDirectory,
    Footer,
    Other(u32),
}

/// A marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// Compressed data of `len_bytes` (at least 1) follow at once: those of the grain at sector
    /// `lba` of the extent.
    Grain { lba: u64, len_bytes: u32 },
    /// Metadata of `sectors` sectors follow in the next sector.
    Metadata { kind: MetadataType, sectors: u64 },
}

impl MetadataType {
    fn of(number: u32) -> Self {
        match number {
            0 => Self::EndOfStream,
            1 => Self::GrainTable,
            2 => Self::GrainDirectory,
            3 => Self::Footer,
            other => Self::Other(other),
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::EndOfStream => 0,
            Self::GrainTable => 1,
            Self::GrainDirectory => 2,
            Self::Footer => 3,
            Self::Other(number) => number,
        }
    }
}

impl Marker {
    /// Parses the first 16 bytes of a marker, of which a grain marker has 12; `None` if there are
    /// fewer.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let value = le64(bytes, 0)?;
        let len_bytes = le32(bytes, 8)?;
        if len_bytes != 0 {
            return Some(Self::Grain {
                lba: value,
                len_bytes,
            });
        }
        Some(Self::Metadata {
            kind: MetadataType::of(le32(bytes, 12)?),
            sectors: value,
        })
    }

    /// Returns the first 12 bytes of a grain marker.
    pub(crate) fn grain_bytes(lba: u64, len_bytes: u32) -> [u8; GRAIN_MARKER_BYTES] {
        let mut bytes = [0; GRAIN_MARKER_BYTES];
        put(&mut bytes, 0, &lba.to_le_bytes());
        put(&mut bytes, 8, &len_bytes.to_le_bytes());
        bytes
    }

    /// Returns a metadata marker.
    pub(crate) fn metadata_bytes(kind: MetadataType, sectors: u64) -> [u8; MARKER_BYTES] {
        let mut bytes = [0; MARKER_BYTES];
        put(&mut bytes, 0, &sectors.to_le_bytes());
        put(&mut bytes, 12, &kind.number().to_le_bytes());
        bytes
    }
}
