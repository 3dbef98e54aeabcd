//! Path tables (ECMA-119, 6.9 and 9.4): all directories of a tree, in the order of their levels.

/// The byte order of the numbers of a path table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Type L.
    Little,
    /// Type M.
    Big,
}

/// A record of a path table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathRecord {
    pub(super) identifier: Vec<u8>,
    pub(super) block: u32,
    /// The number of the parent's record, from 1.
    pub(super) parent: u16,
}

/// Returns the bytes of a path table.
pub(super) fn table(records: &[PathRecord], order: Order) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        bytes.push(u8::try_from(record.identifier.len()).unwrap_or(u8::MAX));
        // No extended attribute record.
        bytes.push(0);
        match order {
            Order::Little => {
                bytes.extend_from_slice(&record.block.to_le_bytes());
                bytes.extend_from_slice(&record.parent.to_le_bytes());
            }
            Order::Big => {
                bytes.extend_from_slice(&record.block.to_be_bytes());
                bytes.extend_from_slice(&record.parent.to_be_bytes());
            }
        }
        bytes.extend_from_slice(&record.identifier);
        if !record.identifier.len().is_multiple_of(2) {
            bytes.push(0);
        }
    }
    bytes
}
