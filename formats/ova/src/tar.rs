//! The members of a tar archive, by their ranges.
//!
//! Specification: POSIX.1-2017, "pax"; GNU tar's manual for long names and base-256 numbers.

mod header;
mod pax;

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, Error, Result, read_within};

use header::{BLOCK_BYTES, Header, Kind};
use pax::Extended;

pub use header::is_tar;

/// The most headers of an archive. An OVA has some ten.
const MAX_HEADERS: usize = 16384;

/// The most bytes of an extended header or a long name: the longest path of Linux many times.
const MAX_EXTENDED_BYTES: u64 = 64 << 10;

/// A regular file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The name, without `./` at its start.
    pub name: String,
    /// The byte of the archive at which the contents begin.
    pub start: u64,
    /// The size of the contents in bytes. They lie within the archive.
    pub size_bytes: u64,
}

/// Returns the regular files of an archive, in their order.
pub(crate) fn members(archive: &dyn BlockRead) -> Result<Vec<Member>> {
    members_where(archive, MAX_HEADERS, &mut |_| true)
}

/// Returns the regular files of an archive whose names `is_wanted` accepts, in their order. The
/// archive must have at most `max_headers` headers.
///
/// # Errors
/// `Corrupt` if the archive is truncated or has an invalid header; `Unsupported` for sparse members
/// and for too many headers.
pub fn members_where(
    archive: &dyn BlockRead,
    max_headers: usize,
    is_wanted: &mut dyn FnMut(&str) -> bool,
) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    let mut extended = Extended::default();
    let mut at = 0_u64;
    for _ in 0..max_headers {
        let Some(block) = read_within(archive, at, index(BLOCK_BYTES))? else {
            return end(members, &extended, at);
        };
        let Some(header) = Header::parse(&block, at)? else {
            return end(members, &extended, at);
        };
        let start = at.saturating_add(BLOCK_BYTES);
        let size_bytes = match header.kind {
            Kind::File => extended.size_bytes.unwrap_or(header.size_bytes),
            _ => header.size_bytes,
        };
        let is_inside = start.checked_add(size_bytes);
        if is_inside.is_none_or(|end| end > archive.size_bytes()) {
            return Err(truncated(at));
        }
        match header.kind {
            Kind::File => {
                let name = std::mem::take(&mut extended).name.unwrap_or(header.name);
                let member = member(&name, start, size_bytes);
                if is_wanted(&member.name) {
                    members.push(member);
                }
            }
            Kind::Other => extended = Extended::default(),
            Kind::Sparse => {
                return Err(
                    Error::unsupported("unsupported sparse member of a tar archive").at(at),
                );
            }
            Kind::LongName | Kind::Extended => {
                let contents = contents(archive, start, size_bytes)?;
                extended.add(header.kind, &contents, start)?;
            }
            Kind::Ignored => {}
        }
        at = size_bytes
            .checked_next_multiple_of(BLOCK_BYTES)
            .and_then(|it| start.checked_add(it))
            .ok_or_else(|| truncated(at))?;
    }
    let reason = format!("unsupported tar archive: more than {max_headers} headers");
    Err(Error::unsupported(reason).at(at))
}

/// Ends the archive: at zeroes, or at the end of the file.
fn end(members: Vec<Member>, extended: &Extended, at: u64) -> Result<Vec<Member>> {
    if *extended == Extended::default() {
        return Ok(members);
    }
    Err(truncated(at))
}

fn contents(archive: &dyn BlockRead, start: u64, size_bytes: u64) -> Result<Vec<u8>> {
    if size_bytes > MAX_EXTENDED_BYTES {
        let reason = format!("unsupported extended header of {size_bytes} bytes in a tar archive");
        return Err(Error::unsupported(reason).at(start));
    }
    let bytes = read_within(archive, start, index(size_bytes))?;
    bytes.ok_or_else(|| truncated(start))
}

fn member(name: &[u8], start: u64, size_bytes: u64) -> Member {
    let name = String::from_utf8_lossy(name);
    Member {
        name: name.trim_start_matches("./").to_owned(),
        start,
        size_bytes,
    }
}

fn truncated(at: u64) -> Error {
    Error::corrupt("invalid tar archive: a member ends past the end of the file").at(at)
}
