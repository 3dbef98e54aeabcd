//! The options of the handshake.

use super::numbered::numbered;

numbered! {
    /// An option (`NBD_OPT_*`).
    enum OptionCode: u32 {
        /// `NBD_OPT_EXPORT_NAME`
        ExportName = 1,
        /// `NBD_OPT_ABORT`
        Abort = 2,
        /// `NBD_OPT_LIST`
        List = 3,
        /// `NBD_OPT_STARTTLS`
        StartTls = 5,
        /// `NBD_OPT_INFO`
        Info = 6,
        /// `NBD_OPT_GO`
        Go = 7,
        /// `NBD_OPT_STRUCTURED_REPLY`
        StructuredReply = 8,
        /// `NBD_OPT_LIST_META_CONTEXT`
        ListMetaContext = 9,
        /// `NBD_OPT_SET_META_CONTEXT`
        SetMetaContext = 10,
        /// `NBD_OPT_EXTENDED_HEADERS`
        ExtendedHeaders = 11,
    }
}
