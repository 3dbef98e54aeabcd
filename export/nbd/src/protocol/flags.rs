//! The fields of flags.

use bitflags::bitflags;

bitflags! {
    /// The flags of a server's greeting, and of a client's answer to it: bits 0 and 1 mean the same
    /// in both.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct HandshakeFlags: u32 {
        /// `NBD_FLAG_FIXED_NEWSTYLE`, `NBD_FLAG_C_FIXED_NEWSTYLE`
        const FIXED_NEWSTYLE = 1 << 0;
        /// `NBD_FLAG_NO_ZEROES`, `NBD_FLAG_C_NO_ZEROES`
        const NO_ZEROES = 1 << 1;
    }

    /// The flags of an export (`NBD_FLAG_*`, section "Transmission flags").
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct TransmissionFlags: u16 {
        const HAS_FLAGS = 1 << 0;
        const READ_ONLY = 1 << 1;
        const SEND_FLUSH = 1 << 2;
        const SEND_FUA = 1 << 3;
        const ROTATIONAL = 1 << 4;
        const SEND_TRIM = 1 << 5;
        const SEND_WRITE_ZEROES = 1 << 6;
        const SEND_DF = 1 << 7;
        const CAN_MULTI_CONN = 1 << 8;
        const SEND_RESIZE = 1 << 9;
        const SEND_CACHE = 1 << 10;
        const SEND_FAST_ZERO = 1 << 11;
        const BLOCK_STATUS_PAYLOAD = 1 << 12;
    }

    /// The flags of a request (`NBD_CMD_FLAG_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct CommandFlags: u16 {
        const FUA = 1 << 0;
        const NO_HOLE = 1 << 1;
        const DF = 1 << 2;
        const REQ_ONE = 1 << 3;
        const FAST_ZERO = 1 << 4;
        const PAYLOAD_LEN = 1 << 5;
    }

    /// The flags of a chunk (`NBD_REPLY_FLAG_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct ReplyFlags: u16 {
        const DONE = 1 << 0;
    }

    /// The flags of an extent in the context `base:allocation` (`NBD_STATE_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct StateFlags: u32 {
        const HOLE = 1 << 0;
        const ZERO = 1 << 1;
    }
}
