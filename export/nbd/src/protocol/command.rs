//! The types of requests.

use super::numbered::numbered;

numbered! {
    /// The type of a request (`NBD_CMD_*`).
    enum Command: u16 {
        /// `NBD_CMD_READ`
        Read = 0,
        /// `NBD_CMD_WRITE`
        Write = 1,
        /// `NBD_CMD_DISC`
        Disconnect = 2,
        /// `NBD_CMD_FLUSH`
        Flush = 3,
        /// `NBD_CMD_TRIM`
        Trim = 4,
        /// `NBD_CMD_CACHE`
        Cache = 5,
        /// `NBD_CMD_WRITE_ZEROES`
        WriteZeroes = 6,
        /// `NBD_CMD_BLOCK_STATUS`
        BlockStatus = 7,
    }
}
