//! What goes over the stream.
//!
//! A frame is a fixed head, a message (postcard), and bytes that are no part of the message: the
//! contents of files, which are never copied through the serialiser. The host begins with a
//! [`Greeting`], the agent answers with [`Hello`]; from then on the host asks, and the agent answers in any
//! order. Each answer has the number of its request.

mod answers;
mod attributes;
mod failure;
mod frame;
mod hello;
mod limits;
mod programs;
mod requests;

pub use answers::{Entry, Extent, Mounted, Removed, Reply, take_entry};
pub use attributes::{Attributes, Change, Moment};
pub use failure::Failure;
pub use frame::{Frame, FrameReader, Head, write_frame};
pub use hello::{About, Greeting, Hello};
pub use limits::{
    BULK_AREA_BYTES, BULK_AREA_SERIAL, MAX_BULK, MAX_EXTENTS, MAX_FRAME, MAX_IN_FLIGHT, MAX_LIST,
    MAX_MESSAGE, MAX_NAME, MAX_OUTPUT, MAX_PROGRAMS, MAX_REASON, MAX_SUBVOLUME_PATH, MAX_TARGET,
    MAX_XATTR, MAX_XATTR_NAME, MIN_APART,
};
pub use programs::{Ended, Place, Program, Stream, User, is_signal};
pub use requests::{
    Allocation, Kind, MountRequest, NewFile, Operation, Renaming, Request, Setting, Syncing,
};

use std::fmt;

/// What came over the stream breaks the protocol. The connection ends with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub &'static str);

/// What was looked at before it is believed.
pub type Checked<T> = Result<T, Violation>;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Violation {}

/// Reads a message that must be all there is.
///
/// # Errors
/// When it is none, or more than one.
pub fn decode<'m, T: serde::Deserialize<'m>>(message: &'m [u8]) -> Checked<T> {
    match postcard::take_from_bytes(message) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(Violation("a message has bytes behind its end")),
        Err(_) => Err(Violation("a message makes no sense")),
    }
}

/// Where in the area the bulk of a request with this number is, or that of its answer.
pub fn bulk_offset(request: u64) -> Option<u64> {
    let slot = usize::try_from(request & 0xffff_ffff).ok();
    let slot = slot.filter(|&slot| slot < MAX_IN_FLIGHT)?;
    u64::try_from(slot.checked_mul(MAX_BULK)?).ok()
}

/// Whether bytes can be the whole name of an extended attribute.
pub fn is_xattr_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= MAX_XATTR_NAME && !name.contains(&0)
}

/// Whether bytes can be a file's name within a directory.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(&b'/') && !name.contains(&0)
}
