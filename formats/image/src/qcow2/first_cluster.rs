//! Rewriting of the header, its extensions and the backing file's name, which are all in the first
//! cluster: specification, sections "Header" and "Header extensions".
//!
//! A rewrite changes one sector, in one write. A name that fits into the first sector after the
//! header and its extensions is part of that write. Any other name is written first, to a place
//! that neither the old name nor the old extensions use. So a crash leaves the old state or the new
//! one.

use std::ops::Range;

use diskfs_block::{BlockRead, BlockWrite, Error, Result};

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::header::{BACKING_NAME_MAX_BYTES, Header};
use crate::qcow2::header_extensions::{ExtensionKind, push_extension, raw_extensions};

const SECTOR_BYTES: usize = 512;
const END_EXTENSION_BYTES: usize = 8;
/// The header fields with the offset and length of the name.
const NAME_FIELDS: Range<usize> = 8..20;
/// The header field with the header's length (version 3).
const LENGTH_FIELD: Range<usize> = 100..104;

/// The first cluster as it is stored.
#[derive(Debug)]
pub(super) struct FirstCluster {
    bytes: Vec<u8>,
    header_length: usize,
    cluster_size: usize,
}

/// The write of one sector that activates a rewrite. Nothing is changed without it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the rewrite is not active before it is carried out"]
pub(super) struct SectorWrite {
    at: u64,
    bytes: Vec<u8>,
}

impl SectorWrite {
    /// Makes everything that was written before durable, and then activates the rewrite.
    pub(super) fn carry_out(&self, file: &dyn BlockWrite) -> Result<()> {
        file.flush()?;
        file.write_at(self.at, &self.bytes)?;
        file.flush()
    }
}

/// The place of the backing file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamePlace {
    /// No name, or a part of the first sector's write.
    InSector,
    /// A place where the same name is already.
    Kept(usize),
    /// The name must be written before.
    New(usize),
}

impl FirstCluster {
    /// Reads the first cluster of the image with this header.
    pub(super) fn read(file: &dyn BlockRead, header: &Header) -> Result<Self> {
        let cluster_size = header.geometry.cluster_size();
        let mut bytes = vec![0; to_usize(cluster_size.min(file.size_bytes()))];
        file.read_at(0, &mut bytes)?;
        Ok(Self {
            header_length: match header.version {
                2 => 72,
                _ => be32(&bytes, LENGTH_FIELD),
            },
            bytes,
            cluster_size: to_usize(cluster_size),
        })
    }

    /// Returns the header's fixed part.
    pub(super) fn header(&self) -> &[u8] {
        self.bytes.get(..self.header_length).unwrap_or_default()
    }

    /// Returns the extensions, as [`raw_extensions`] does.
    pub(super) fn extensions(&self) -> Result<Vec<(Option<ExtensionKind>, &[u8])>> {
        // A name begins after the extensions, which then need no end marker in version 2.
        let end = match self.name_range().start {
            0 => self.bytes.len(),
            name_at => name_at.min(self.bytes.len()),
        };
        raw_extensions(
            self.bytes.get(..end).unwrap_or_default(),
            self.header_length,
        )
    }

    /// Returns the backing file's name.
    pub(super) fn name(&self) -> &[u8] {
        self.bytes.get(self.name_range()).unwrap_or_default()
    }

    fn name_range(&self) -> Range<usize> {
        let at = self.bytes.get(8..16).and_then(|word| word.try_into().ok());
        let at = to_usize(u64::from_be_bytes(at.unwrap_or_default()));
        if at == 0 {
            // There is no name, whatever its length field says (specification, `backing_file_size`).
            return 0..0;
        }
        at..at.saturating_add(be32(&self.bytes, 16..20))
    }

    /// Prepares the first of some `fronts` that is possible: header and extensions without the end
    /// marker. `name` is the name of the backing file, empty for none.
    ///
    /// Fails if each of them changes more than one sector, or leaves no space for the name. Then
    /// nothing is written.
    pub(super) fn prepare(
        &self,
        file: &dyn BlockWrite,
        fronts: impl IntoIterator<Item = Vec<u8>>,
        name: &[u8],
    ) -> Result<SectorWrite> {
        let mut refused = too_long();
        for mut front in fronts {
            push_extension(&mut front, ExtensionKind::End, &[]);
            match self.plan(front, name) {
                Ok((NamePlace::New(at), write)) => {
                    file.write_at(to_u64(at), name)?;
                    return Ok(write);
                }
                Ok((_, write)) => return Ok(write),
                Err(e) => refused = e,
            }
        }
        Err(refused)
    }

    fn plan(&self, front: Vec<u8>, name: &[u8]) -> Result<(NamePlace, SectorWrite)> {
        let len = front.len();
        let old = self.name_range();
        if name.is_empty() {
            let write = self.one_sector(&with_name(front, 0, 0));
            return Ok((NamePlace::InSector, write.ok_or_else(too_long)?));
        }
        if len.saturating_add(name.len()) <= SECTOR_BYTES {
            let mut sector = with_name(front, len, name.len());
            sector.extend_from_slice(name);
            let write = self.one_sector(&sector).ok_or_else(too_long)?;
            return Ok((NamePlace::InSector, write));
        }
        let place = if name == self.name() && old.start >= len {
            NamePlace::Kept(old.start)
        } else {
            // Refuse a front that is too long first: its name does not matter.
            let _ = self.one_sector(&front).ok_or_else(too_long)?;
            let used = self.extensions_end()?.max(len);
            NamePlace::New(self.place_for(name, used)?)
        };
        let (NamePlace::Kept(at) | NamePlace::New(at)) = place else {
            return Err(too_long());
        };
        let write = self.one_sector(&with_name(front, at, name.len()));
        Ok((place, write.ok_or_else(too_long)?))
    }

    /// Returns the write that changes the front of the cluster to `new`, if it changes one sector.
    /// Without a change it is a write of the first sector.
    fn one_sector(&self, new: &[u8]) -> Option<SectorWrite> {
        let starts = (0..new.len()).step_by(SECTOR_BYTES);
        let mut changed = new
            .chunks(SECTOR_BYTES)
            .zip(starts)
            .filter(|(sector, start)| {
                let end = start.saturating_add(sector.len());
                self.bytes.get(*start..end) != Some(*sector)
            });
        let first = changed.next();
        let (bytes, at) = first.or_else(|| Some((new.chunks(SECTOR_BYTES).next()?, 0)))?;
        changed.next().is_none().then(|| SectorWrite {
            at: to_u64(at),
            bytes: bytes.to_vec(),
        })
    }

    /// Returns where the existing extensions end.
    fn extensions_end(&self) -> Result<usize> {
        let all = self.extensions()?;
        let len = all.iter().fold(END_EXTENSION_BYTES, |len, (_, raw)| {
            len.saturating_add(raw.len())
        });
        Ok(self.header_length.saturating_add(len))
    }

    /// Returns the offset for a new name: at or after `start`, and not over the old name.
    fn place_for(&self, name: &[u8], start: usize) -> Result<usize> {
        let old = self.name_range();
        let fits = |at: &usize| {
            let end = at.saturating_add(name.len());
            end <= self.cluster_size && (end <= old.start || *at >= old.end || old.is_empty())
        };
        let is_too_long = to_u64(name.len()) > u64::from(BACKING_NAME_MAX_BYTES);
        let places = [start, old.end.max(start)];
        let found = places.into_iter().find(|at| !is_too_long && fits(at));
        found.ok_or_else(|| {
            Error::invalid("no space left in the first cluster for the backing file's name")
                .with_hint("use a shorter name")
        })
    }
}

fn too_long() -> Error {
    Error::unsupported("the header and its extensions are longer than a sector of 512 bytes")
        .with_hint("`qemu-img` can change them, but a power cut meanwhile can damage the image")
}

fn be32(bytes: &[u8], range: Range<usize>) -> usize {
    let word = bytes.get(range).and_then(|word| word.try_into().ok());
    to_usize(u64::from(u32::from_be_bytes(word.unwrap_or_default())))
}

fn with_name(mut front: Vec<u8>, at: usize, len: usize) -> Vec<u8> {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let fields = [&to_u64(at).to_be_bytes()[..], &len.to_be_bytes()].concat();
    if let Some(place) = front.get_mut(NAME_FIELDS) {
        place.copy_from_slice(&fields);
    }
    front
}
