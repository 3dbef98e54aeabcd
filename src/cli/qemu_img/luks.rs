//! Encrypted images: LUKS volumes as a whole, and the LUKS headers of qcow2 images.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use diskfs::block::{self, BlockRead, Slice};
use diskfs::image::{Decrypt, Description, Image, Unlock};
use diskfs::luks::{Luks1Details, Luks1Slot};
use diskfs::{Error, Format};

use super::arguments::Source;
use super::failure::{Failure, Result};
use super::names::remote_uri;
use super::specific::Fields;

const SECTOR_BYTES: u64 = 512;

/// Returns the option for the key of an open image, if one is missing: qemu-img opens no image whose
/// data it cannot read. A raw image that looks like a LUKS volume is one, unless its format is given.
pub(super) fn missing_key(image: &Image, source: &Source) -> Result<Option<&'static str>> {
    let top = image.description();
    let mut chain = std::iter::successors(Some(top), |image| image.backing.as_deref());
    let is_locked = chain.any(|image| {
        let encryption = image.qcow2.as_ref().and_then(|qcow2| qcow2.encryption);
        encryption.is_some_and(|encryption| !encryption.is_unlocked)
    });
    if is_locked {
        return Ok(Some("encrypt.key-secret"));
    }
    let is_without_key = source.is_luks && source.keys.is_none();
    let is_probed = top.probed && top.format == Some(Format::Raw) && source.keys.is_none();
    let is_volume = is_without_key
        || is_probed && {
            let header = Luks1Details::read(image.device().as_ref());
            header
                .map_err(|e| Failure::to_open(&source.path, e))?
                .is_some()
        };
    Ok(is_volume.then_some("key-secret"))
}

/// The LUKS headers of the qcow2 images of a chain, which are read when it is opened.
#[derive(Debug, Default)]
pub(super) struct LuksHeaders(Mutex<Vec<(PathBuf, Luks1Details)>>);

impl LuksHeaders {
    fn of(&self, path: &Path) -> Option<Luks1Details> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().find(|(of, _)| of == path);
        found.map(|(_, header)| header.clone())
    }
}

impl Unlock for LuksHeaders {
    fn unlock(
        &self,
        path: &Path,
        header: &dyn BlockRead,
    ) -> block::Result<Option<Arc<dyn Decrypt>>> {
        if let Some(details) = Luks1Details::read(header)? {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.push((path.to_owned(), details));
        }
        Ok(None)
    }
}

/// Returns the description of an image with its LUKS header, if it has one: that of a qcow2 image, or
/// that of a file which is a LUKS volume. The size of the disk is then that of its contents.
pub(super) fn with_header(
    mut image: Description,
    source: &Source,
    known: &LuksHeaders,
) -> Result<(Description, Option<Luks1Details>)> {
    if remote_uri(&image.path).is_some() {
        return Ok((image, None));
    }
    if let Some(header) = known.of(&image.path) {
        return Ok((image, Some(header)));
    }
    let is_volume = image.format == Some(Format::Raw)
        && (image.probed || source.is_luks && image.path == source.path);
    let encryption = image.qcow2.as_ref().and_then(|qcow2| qcow2.encryption);
    if encryption.is_none() && !is_volume {
        return Ok((image, None));
    }
    let read = || -> diskfs::Result<Option<Luks1Details>> {
        let file = source.file(&image.path)?;
        let device: Arc<dyn BlockRead> = match encryption {
            Some(place) => {
                let (start, len) = (place.header_offset_bytes, place.header_len_bytes);
                Arc::new(Slice::new(file, start, len)?)
            }
            None => file,
        };
        Ok(Luks1Details::read(device.as_ref())?)
    };
    let header = read().map_err(|e: Error| Failure::to_open(&image.path, e))?;
    if let Some(header) = header.as_ref().filter(|_| is_volume) {
        let size = image.virtual_size_bytes;
        let size = size.checked_next_multiple_of(SECTOR_BYTES).unwrap_or(size);
        image.virtual_size_bytes = size.saturating_sub(header.payload_offset_bytes);
    } else if source.is_luks && is_volume {
        let path = image.path.display();
        let reason = "Volume is not in LUKS format";
        return Err(Failure::new(format!("Could not open '{path}': {reason}")));
    }
    Ok((image, header))
}

/// Returns a file in whole sectors: the rest of an incomplete last one reads as zeros, as in QEMU.
pub(super) fn whole_sectors(file: Arc<dyn BlockRead>) -> Arc<dyn BlockRead> {
    if file.size_bytes().is_multiple_of(SECTOR_BYTES) {
        file
    } else {
        Arc::new(WholeSectors(file))
    }
}

/// A file whose last sector is incomplete.
#[derive(Debug)]
struct WholeSectors(Arc<dyn BlockRead>);

impl BlockRead for WholeSectors {
    fn size_bytes(&self) -> u64 {
        let bytes = self.0.size_bytes();
        bytes
            .checked_next_multiple_of(SECTOR_BYTES)
            .unwrap_or(bytes)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        let stored = self.0.size_bytes().saturating_sub(offset);
        let stored = usize::try_from(stored).unwrap_or(usize::MAX);
        let (stored, missing) = buf.split_at_mut(stored.min(buf.len()));
        missing.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        self.0.read_at(offset, stored)
    }
}

/// Returns the members that describe a header.
pub(super) fn fields(header: &Luks1Details) -> Fields {
    let (mode, vectors) = header.mode.split_once('-').unwrap_or((&header.mode, ""));
    let (vectors, vectors_hash) = vectors.split_once(':').unwrap_or((vectors, ""));
    let key_bytes = if mode == "xts" {
        header.key_bytes / 2
    } else {
        header.key_bytes
    };
    let bits = key_bytes.saturating_mul(8);
    let mut fields = Fields::default();
    fields.put("ivgen-alg", vectors);
    if !vectors_hash.is_empty() {
        fields.put("ivgen-hash-alg", vectors_hash);
    }
    fields.put("detached-header", false);
    fields.put("hash-alg", header.hash.as_str());
    fields.put("cipher-alg", format!("{}-{bits}", header.cipher));
    fields.put("uuid", header.uuid.as_str());
    fields.put("cipher-mode", mode);
    fields.put_list("slots", header.slots.iter().map(slot));
    fields.put("payload-offset", header.payload_offset_bytes);
    fields.put("master-key-iters", header.digest_iterations);
    fields
}

fn slot(slot: &Luks1Slot) -> Fields {
    let mut fields = Fields::default();
    fields.put("active", slot.is_active);
    if slot.is_active {
        fields.put("iters", slot.iterations);
    }
    fields.put("key-offset", slot.key_offset_bytes);
    if slot.is_active {
        fields.put("stripes", slot.stripes);
    }
    fields
}
