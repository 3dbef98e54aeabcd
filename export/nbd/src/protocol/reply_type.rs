//! The types of replies to options.

use super::numbered::numbered;

/// Bit 31, which all errors have.
const ERROR: u32 = 1 << 31;

numbered! {
    /// The type of a reply to an option (`NBD_REP_*`).
    enum ReplyType: u32 {
        /// `NBD_REP_ACK`
        Ack = 1,
        /// `NBD_REP_SERVER`
        Server = 2,
        /// `NBD_REP_INFO`
        Info = 3,
        /// `NBD_REP_META_CONTEXT`
        MetaContext = 4,
        /// `NBD_REP_ERR_UNSUP`
        Unsupported = ERROR | 0x1,
        /// `NBD_REP_ERR_POLICY`
        Policy = ERROR | 0x2,
        /// `NBD_REP_ERR_INVALID`
        Invalid = ERROR | 0x3,
        /// `NBD_REP_ERR_PLATFORM`
        Platform = ERROR | 0x4,
        /// `NBD_REP_ERR_TLS_REQD`
        TlsRequired = ERROR | 0x5,
        /// `NBD_REP_ERR_UNKNOWN`
        Unknown = ERROR | 0x6,
        /// `NBD_REP_ERR_SHUTDOWN`
        Shutdown = ERROR | 0x7,
        /// `NBD_REP_ERR_BLOCK_SIZE_REQD`
        BlockSizeRequired = ERROR | 0x8,
        /// `NBD_REP_ERR_TOO_BIG`
        TooBig = ERROR | 0x9,
        /// `NBD_REP_ERR_EXT_HEADER_REQD`
        ExtendedHeadersRequired = ERROR | 0xa,
    }
}

impl ReplyType {
    /// Returns true if a reply of this number says that the option failed, also if it is unknown.
    pub(crate) const fn is_error(number: u32) -> bool {
        number & ERROR != 0
    }
}
