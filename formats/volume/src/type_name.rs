//! The names of partition types.

use crate::{Partition, PartitionKind, apm, bsd, gpt, mbr, sgi, sun};

impl Partition {
    /// Returns the name of the partition's type, as tools print it: `EFI System`, `Linux`. It is
    /// `unknown` for an unknown type.
    pub fn type_name(&self) -> &'static str {
        match &self.kind {
            PartitionKind::Gpt { type_guid, .. } => gpt::type_name(*type_guid),
            PartitionKind::Mbr { type_byte, .. } => mbr::type_name(*type_byte),
            PartitionKind::Bsd { fstype } => bsd::type_name(*fstype),
            PartitionKind::Sun { tag } => sun::type_name(*tag),
            PartitionKind::Sgi { type_number } => sgi::type_name(*type_number),
            PartitionKind::Apple { kind, .. } => apm::type_name(kind),
        }
        .unwrap_or("unknown")
    }
}
