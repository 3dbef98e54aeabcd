//! Construction of empty stores for tests. Machines get theirs with the firmware.

use crate::firmware_volume::{EFI_SYSTEM_NV_DATA_FV_GUID, sum16};
use crate::variable_store_header::{
    AUTHENTICATED_VARIABLE_GUID, VARIABLE_GUID, VARIABLE_STORE_FORMATTED, VARIABLE_STORE_HEALTHY,
};
use crate::working_block;

/// The size of a volume header for flash with one block size.
const VOLUME_HEADER_BYTES: usize = 72;

/// The parameters of an empty flash file.
#[derive(Debug, Clone, Copy)]
pub struct Template {
    /// The number of 4 KiB blocks for variables, with all headers. After them come a block for
    /// fault tolerant writes and the same number of spare blocks.
    pub variable_blocks: u32,
    /// True if the variables have fields for authentication.
    pub is_authenticated: bool,
}

impl Template {
    /// Returns the contents of the file.
    pub fn build(&self) -> Vec<u8> {
        let (block_bytes, blocks) = (
            4096_u32,
            self.variable_blocks.saturating_mul(2).saturating_add(2),
        );
        let variables = self.variable_blocks.saturating_mul(block_bytes);
        let mut bytes = volume_header(blocks, block_bytes);
        let guid = if self.is_authenticated {
            AUTHENTICATED_VARIABLE_GUID
        } else {
            VARIABLE_GUID
        };
        bytes.extend(guid.to_bytes());
        bytes.extend(variables.saturating_sub(72).to_le_bytes());
        bytes.extend([
            VARIABLE_STORE_FORMATTED,
            VARIABLE_STORE_HEALTHY,
            0,
            0,
            0,
            0,
            0,
            0,
        ]);
        bytes.resize(diskfs_block::bytes::index(variables), u8::MAX);
        bytes.extend(working_block::idle(4096 - 32));
        let len = blocks.saturating_mul(block_bytes);
        bytes.resize(diskfs_block::bytes::index(len), u8::MAX);
        bytes
    }
}

fn volume_header(blocks: u32, block_bytes: u32) -> Vec<u8> {
    let mut header = vec![0; 16];
    header.extend(EFI_SYSTEM_NV_DATA_FV_GUID.to_bytes());
    header.extend(u64::from(blocks.saturating_mul(block_bytes)).to_le_bytes());
    header.extend(b"_FVH\xff\xfe\x04\x00\x48\x00\x00\x00\x00\x00\x00\x02");
    header.extend(blocks.to_le_bytes());
    header.extend(block_bytes.to_le_bytes());
    header.extend([0; 8]);
    seal(&mut header);
    header
}

/// Corrects the checksum of a volume's header, if the header is long enough for one.
pub fn seal(bytes: &mut [u8]) {
    let len = diskfs_block::bytes::le16(bytes, 48).unwrap_or_default();
    diskfs_block::bytes::put(bytes, 50, &[0, 0]);
    let len = usize::from(len).max(VOLUME_HEADER_BYTES).min(bytes.len());
    let sum = sum16(bytes.get(..len).unwrap_or_default());
    diskfs_block::bytes::put(bytes, 50, &sum.wrapping_neg().to_le_bytes());
}
