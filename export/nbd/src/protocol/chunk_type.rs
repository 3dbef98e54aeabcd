//! The types of chunks.

use super::numbered::numbered;

/// Bit 15, which all errors have.
const ERROR: u16 = 1 << 15;

numbered! {
    /// The type of a chunk (`NBD_REPLY_TYPE_*`).
    enum ChunkType: u16 {
        /// `NBD_REPLY_TYPE_NONE`
        None = 0,
        /// `NBD_REPLY_TYPE_OFFSET_DATA`
        OffsetData = 1,
        /// `NBD_REPLY_TYPE_OFFSET_HOLE`
        OffsetHole = 2,
        /// `NBD_REPLY_TYPE_BLOCK_STATUS`
        BlockStatus = 5,
        /// `NBD_REPLY_TYPE_BLOCK_STATUS_EXT`
        BlockStatusExtended = 6,
        /// `NBD_REPLY_TYPE_ERROR`
        Error = ERROR | 1,
        /// `NBD_REPLY_TYPE_ERROR_OFFSET`
        ErrorOffset = ERROR | 2,
    }
}

impl ChunkType {
    /// Returns true if a chunk of this number says that the request failed, also if it is unknown.
    pub(crate) const fn is_error(number: u16) -> bool {
        number & ERROR != 0
    }
}
