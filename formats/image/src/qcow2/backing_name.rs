//! Changing which file an image names as its backing file: specification, sections "Header" and
//! "Header extensions".
//!
//! The new name is written where the old one is not. Then one write of the first sector, which holds
//! the header and its extensions, makes it count; so a crash leaves the old name or the new one.

use diskfs_block::{BlockWrite, Error, Result};

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::header::{BACKING_NAME_MAX_BYTES, Header, NamedBacking};
use crate::qcow2::header_extensions::{ExtensionKind, push_extension, raw_extensions};

const SECTOR_BYTES: usize = 512;
/// Where the header says where the name is, and how long.
const NAME_FIELDS: std::ops::Range<usize> = 8..20;
/// Where version 3 says how long the header is.
const LENGTH_FIELD: std::ops::Range<usize> = 100..104;

/// Has the image name another backing file, or none.
pub(crate) fn set(file: &dyn BlockWrite, backing: Option<&NamedBacking>) -> Result<()> {
    let header = Header::read(file)?;
    let cluster_size = header.geometry.cluster_size();
    let mut old = vec![0; to_usize(cluster_size.min(file.size_bytes()))];
    file.read_at(0, &mut old)?;
    let header_length = match header.version {
        2 => 72,
        _ => be32(&old, LENGTH_FIELD),
    };
    let front = front(&old, header_length, backing)?;
    let old_name = old_name(&old);
    let Some(backing) = backing else {
        let none = with_name(front, 0, 0);
        file.write_at(0, &none)?;
        return file.flush();
    };
    let at = place_for(
        &backing.name,
        front.len(),
        &old_name,
        to_usize(cluster_size),
    )?;
    file.write_at(to_u64(at), &backing.name)?;
    file.flush()?;
    file.write_at(0, &with_name(front, at, backing.name.len()))?;
    file.flush()
}

fn be32(bytes: &[u8], range: std::ops::Range<usize>) -> usize {
    let word = bytes.get(range).and_then(|word| word.try_into().ok());
    to_usize(u64::from(u32::from_be_bytes(word.unwrap_or_default())))
}

/// Where the old name is.
fn old_name(bytes: &[u8]) -> std::ops::Range<usize> {
    let at = bytes.get(8..16).and_then(|word| word.try_into().ok());
    let at = to_usize(u64::from_be_bytes(at.unwrap_or_default()));
    at..at.saturating_add(be32(bytes, 16..20))
}

/// Header and extensions, of which no more than the first sector changes: for that, the names of
/// features go where they are in the way. They are for messages only.
fn front(old: &[u8], header_length: usize, backing: Option<&NamedBacking>) -> Result<Vec<u8>> {
    let start = old.get(..header_length).unwrap_or_default();
    let kept = raw_extensions(old, header_length)?;
    let build = |with_names: bool| {
        let mut bytes = start.to_vec();
        if let Some(backing) = backing {
            push_extension(
                &mut bytes,
                ExtensionKind::BackingFormat,
                backing.format.as_bytes(),
            );
        }
        for (kind, raw) in &kept {
            let skipped = *kind == Some(ExtensionKind::BackingFormat)
                || *kind == Some(ExtensionKind::FeatureNames) && !with_names;
            if !skipped {
                bytes.extend_from_slice(raw);
            }
        }
        push_extension(&mut bytes, ExtensionKind::End, &[]);
        bytes
    };
    let with_names = build(true);
    let rest = with_names.get(SECTOR_BYTES..).unwrap_or_default();
    let end = SECTOR_BYTES.saturating_add(rest.len());
    if rest.is_empty() || old.get(SECTOR_BYTES..end) == Some(rest) {
        return Ok(with_names);
    }
    Ok(build(false))
}

/// Where the new name goes: behind the extensions, and not over the old one.
fn place_for(
    name: &[u8],
    front_len: usize,
    old: &std::ops::Range<usize>,
    cluster_size: usize,
) -> Result<usize> {
    let too_long = || {
        Error::invalid("the backing file's name has no room in the first cluster")
            .hint("give a shorter name")
    };
    if to_u64(name.len()) > u64::from(BACKING_NAME_MAX_BYTES) {
        return Err(too_long());
    }
    let fits = |at: &usize| {
        let end = at.saturating_add(name.len());
        end <= cluster_size && (end <= old.start || *at >= old.end || old.is_empty())
    };
    let places = [front_len, old.end.max(front_len)];
    // In one sector, old and new change together.
    let single = (cluster_size == SECTOR_BYTES
        && front_len.saturating_add(name.len()) <= cluster_size)
        .then_some(front_len);
    let found = places.into_iter().find(|at| fits(at)).or(single);
    found.ok_or_else(too_long)
}

fn with_name(mut front: Vec<u8>, at: usize, len: usize) -> Vec<u8> {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let fields = [&to_u64(at).to_be_bytes()[..], &len.to_be_bytes()].concat();
    if let Some(place) = front.get_mut(NAME_FIELDS) {
        place.copy_from_slice(&fields);
    }
    front
}
