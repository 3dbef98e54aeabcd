//! Changing the name of the backing file in an image: specification, sections "Header" and "Header
//! extensions".
//!
//! A name that fits into the first sector after the header and its extensions is written with them,
//! in one write of that sector. Any other name is written to a place that neither the old name nor
//! the old extensions use; then a write of the first sector activates it. So a crash leaves the old
//! name or the new one.

use diskfs_block::{BlockWrite, Error, Result};

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::header::{BACKING_NAME_MAX_BYTES, Header, NamedBacking};
use crate::qcow2::header_extensions::{ExtensionKind, push_extension, raw_extensions};

const SECTOR_BYTES: usize = 512;
const END_EXTENSION_BYTES: usize = 8;
/// The header fields with the offset and length of the name.
const NAME_FIELDS: std::ops::Range<usize> = 8..20;
/// The header field with the header's length (version 3).
const LENGTH_FIELD: std::ops::Range<usize> = 100..104;

/// Sets the name of the image's backing file, or removes it.
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
    let Some(backing) = backing else {
        file.write_at(0, &with_name(front, 0, 0))?;
        return file.flush();
    };
    let name = &backing.name;
    let name_in_sector = front.len();
    if name_in_sector.saturating_add(name.len()) <= SECTOR_BYTES {
        let mut sector = with_name(front, name_in_sector, name.len());
        sector.extend_from_slice(name);
        file.write_at(0, &sector)?;
        return file.flush();
    }
    let used = extensions_end(&old, header_length)?.max(front.len());
    let at = place_for(name, used, &old_name(&old), to_usize(cluster_size))?;
    file.write_at(to_u64(at), name)?;
    file.flush()?;
    file.write_at(0, &with_name(front, at, name.len()))?;
    file.flush()
}

fn be32(bytes: &[u8], range: std::ops::Range<usize>) -> usize {
    let word = bytes.get(range).and_then(|word| word.try_into().ok());
    to_usize(u64::from(u32::from_be_bytes(word.unwrap_or_default())))
}

/// Returns the range of the old name.
fn old_name(bytes: &[u8]) -> std::ops::Range<usize> {
    let at = bytes.get(8..16).and_then(|word| word.try_into().ok());
    let at = to_usize(u64::from_be_bytes(at.unwrap_or_default()));
    at..at.saturating_add(be32(bytes, 16..20))
}

/// Builds the header and extensions so that no more than the first sector changes. If they do not
/// fit, the feature name table is omitted first, because it is only used in messages. Then the
/// record of the backing file's state is omitted, without which a change of the backing file is not
/// detected.
fn front(old: &[u8], header_length: usize, backing: Option<&NamedBacking>) -> Result<Vec<u8>> {
    let start = old.get(..header_length).unwrap_or_default();
    let kept = raw_extensions(old, header_length)?;
    let build = |(with_names, with_record): (bool, bool)| {
        let mut bytes = start.to_vec();
        if let Some(backing) = backing {
            push_extension(
                &mut bytes,
                ExtensionKind::BackingFormat,
                backing.format.as_bytes(),
            );
            if with_record {
                backing.push_record(&mut bytes);
            }
        }
        for (kind, raw) in &kept {
            let is_old = matches!(
                kind,
                Some(ExtensionKind::BackingFormat | ExtensionKind::BaseRecord)
            );
            let skipped = is_old || *kind == Some(ExtensionKind::FeatureNames) && !with_names;
            if !skipped {
                bytes.extend_from_slice(raw);
            }
        }
        push_extension(&mut bytes, ExtensionKind::End, &[]);
        bytes
    };
    let changes_one_sector = |new: &Vec<u8>| {
        let rest = new.get(SECTOR_BYTES..).unwrap_or_default();
        let end = SECTOR_BYTES.saturating_add(rest.len());
        rest.is_empty() || old.get(SECTOR_BYTES..end) == Some(rest)
    };
    let fronts = [(true, true), (false, true), (true, false), (false, false)];
    let mut fronts = fronts.into_iter().map(build);
    fronts.find(changes_one_sector).ok_or_else(|| {
        Error::unsupported("the header and its extensions are longer than a sector of 512 bytes")
            .with_hint(
                "`qemu-img rebase` can change it, but a power cut meanwhile can damage the image",
            )
    })
}

/// Returns where the existing extensions end.
fn extensions_end(old: &[u8], header_length: usize) -> Result<usize> {
    let all = raw_extensions(old, header_length)?;
    let len = all.iter().fold(END_EXTENSION_BYTES, |len, (_, raw)| {
        len.saturating_add(raw.len())
    });
    Ok(header_length.saturating_add(len))
}

/// Returns the offset for the new name: at or after `start`, and not over the old name.
fn place_for(
    name: &[u8],
    start: usize,
    old: &std::ops::Range<usize>,
    cluster_size: usize,
) -> Result<usize> {
    let fits = |at: &usize| {
        let end = at.saturating_add(name.len());
        end <= cluster_size && (end <= old.start || *at >= old.end || old.is_empty())
    };
    let is_too_long = to_u64(name.len()) > u64::from(BACKING_NAME_MAX_BYTES);
    let places = [start, old.end.max(start)];
    let found = places.into_iter().find(|at| !is_too_long && fits(at));
    found.ok_or_else(|| {
        Error::invalid("no space left in the first cluster for the backing file's name")
            .with_hint("use a shorter name")
    })
}

fn with_name(mut front: Vec<u8>, at: usize, len: usize) -> Vec<u8> {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let fields = [&to_u64(at).to_be_bytes()[..], &len.to_be_bytes()].concat();
    if let Some(place) = front.get_mut(NAME_FIELDS) {
        place.copy_from_slice(&fields);
    }
    front
}
