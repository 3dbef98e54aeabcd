//! The protocol between client and server.
//!
//! A frame is a fixed header, a message (postcard), and bulk bytes that are not part of the
//! message: the contents of files, which the serialiser never copies. The handshake is the host's
//! [`HostHello`] and the agent's [`AgentHello`]. After it the host sends requests, and the agent
//! answers in any order. Each answer has the number of its request.

mod answers;
mod attributes;
mod failure;
mod file_reads;
mod frame;
mod hello;
mod limits;
mod programs;
mod requests;

pub use answers::{Entry, Extent, Mounted, Removed, Reply, take_entry};
pub use attributes::{Attributes, Change, WireTime};
pub use failure::Failure;
pub use file_reads::{FileRead, decode_file_reads, encode_file_reads};
pub use frame::{Frame, FrameReader, Head, write_frame};
pub use hello::{About, AgentHello, HostHello};
pub use limits::{
    BULK_AREA_BYTES, BULK_AREA_SERIAL, MAX_BULK, MAX_EXTENTS, MAX_FILE_READS, MAX_FRAME,
    MAX_IN_FLIGHT, MAX_LIST, MAX_MESSAGE, MAX_NAME, MAX_OUTPUT, MAX_PROGRAMS, MAX_REASON,
    MAX_SUBVOLUME_PATH, MAX_TARGET, MAX_XATTR, MAX_XATTR_NAME, MIN_APART,
};
pub use programs::{Ended, Program, ProgramDir, Stream, TerminalSize, User, is_signal};
pub use requests::{
    FallocateMode, FileKind, MountDevice, MountRequest, NewFile, Operation, RenameFlags, Request,
    SyncScope, XattrMode,
};

use std::fmt;

/// A violation of the protocol by the peer, which ends the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub &'static str);

/// The result of a check of received data.
pub type Checked<T> = Result<T, Violation>;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Violation {}

/// Decodes a message, which must consist of all the bytes.
///
/// # Errors
/// Fails if the bytes are not exactly one message.
pub fn decode<'m, T: serde::Deserialize<'m>>(message: &'m [u8]) -> Checked<T> {
    match postcard::take_from_bytes(message) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(Violation("invalid message: trailing bytes")),
        Err(_) => Err(Violation("invalid message")),
    }
}

/// Returns the offset in the area for the bulk of this request or of its answer.
pub fn bulk_offset(request: u64) -> Option<u64> {
    let slot = usize::try_from(request & 0xffff_ffff).ok();
    let slot = slot.filter(|&slot| slot < MAX_IN_FLIGHT)?;
    u64::try_from(slot.checked_mul(MAX_BULK)?).ok()
}

/// Returns true if bytes are a valid full name of an extended attribute.
pub fn is_xattr_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= MAX_XATTR_NAME && !name.contains(&0)
}

/// Returns true if bytes are a valid file name in a directory.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(&b'/') && !name.contains(&0)
}
