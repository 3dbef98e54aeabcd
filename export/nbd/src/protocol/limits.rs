//! The limits of messages.

/// The maximum length of an option's data, and of the data of a reply to an option.
///
/// Ours: the largest option has an export name and some queries, of 4096 bytes each.
pub(crate) const MAX_OPTION_BYTES: u32 = 64 << 10;

/// The maximum length of a string: a name, a description, a query, the message of an error
/// (section "Values": strings).
pub(crate) const MAX_STRING_BYTES: usize = 4096;

/// The maximum payload of a request or a chunk: the default of section "Size constraints".
pub(crate) const MAX_PAYLOAD_BYTES: u32 = 32 << 20;

/// The maximum number of descriptors in a chunk of a block status.
///
/// Ours: the specification advises at most 2^20, which are 16 MiB. Clients continue where an
/// answer ends.
pub(crate) const MAX_DESCRIPTORS: usize = 16 << 10;

/// The maximum number of queries of metadata contexts in one option, and of contexts in use.
///
/// Ours: QEMU uses one for each dirty bitmap.
pub(crate) const MAX_QUERIES: usize = 64;

/// The metadata context of allocation, which the specification defines.
pub(crate) const BASE_ALLOCATION: &str = "base:allocation";
