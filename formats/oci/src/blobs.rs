//! The blobs of an image, and the JSON documents among them.

use std::fmt;
use std::sync::Arc;

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, Error, Result, read_within};
use serde::de::DeserializeOwned;

use crate::descriptor::Descriptor;
use crate::digest::Digest;

/// The largest JSON document: the limit of registries for manifests (OCI distribution
/// specification, "Pushing Manifests").
const DOCUMENT_MAX_BYTES: u64 = 4 << 20;

/// The storage of blobs: a directory, an archive, a registry.
pub trait Blobs: fmt::Debug {
    /// Opens the blob with this digest. Its contents need not be verified.
    ///
    /// # Errors
    /// `NotFound` if the storage does not contain the blob; those of opening files.
    fn open(&self, digest: &Digest) -> Result<Arc<dyn BlockRead>>;

    /// Opens the manifest or the index with this digest: a blob like any other, except in a
    /// registry.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    fn open_manifest(&self, digest: &Digest) -> Result<Arc<dyn BlockRead>> {
        self.open(digest)
    }
}

/// Opens a blob of the size that its descriptor says. Its digest is not verified.
///
/// # Errors
/// `Corrupt` for another size or an invalid digest; those of [`Blobs::open`].
pub fn open_blob(blobs: &dyn Blobs, descriptor: &Descriptor) -> Result<Arc<dyn BlockRead>> {
    let digest = descriptor.digest()?;
    of_size(blobs.open(&digest)?, descriptor, &digest)
}

/// Returns a blob, if it has the size that its descriptor says.
fn of_size(
    blob: Arc<dyn BlockRead>,
    descriptor: &Descriptor,
    digest: &Digest,
) -> Result<Arc<dyn BlockRead>> {
    let found = blob.size_bytes();
    if found == descriptor.size {
        return Ok(blob);
    }
    let expected = descriptor.size;
    let reason =
        format!("wrong size of the blob {digest}: expected {expected} bytes, found {found}");
    Err(Error::corrupt(reason).with_hint("get the image again from its source"))
}

/// Reads a JSON document, and verifies its size and digest. `what` names it in errors.
pub(crate) fn read_document<T: DeserializeOwned>(
    blobs: &dyn Blobs,
    descriptor: &Descriptor,
    what: &str,
) -> Result<T> {
    let open = |digest: &Digest| blobs.open(digest);
    parse(&verified(&open, descriptor, what)?, what)
}

/// Reads a manifest or an index, and verifies its size and digest. `what` names it in errors.
pub(crate) fn read_manifest(
    blobs: &dyn Blobs,
    descriptor: &Descriptor,
    what: &str,
) -> Result<Vec<u8>> {
    let open = |digest: &Digest| blobs.open_manifest(digest);
    verified(&open, descriptor, what)
}

fn verified(
    open: &dyn Fn(&Digest) -> Result<Arc<dyn BlockRead>>,
    descriptor: &Descriptor,
    what: &str,
) -> Result<Vec<u8>> {
    if descriptor.size > DOCUMENT_MAX_BYTES {
        return Err(too_large(what));
    }
    let digest = descriptor.digest()?;
    let bytes = contents(of_size(open(&digest)?, descriptor, &digest)?.as_ref(), what)?;
    digest.verify(&bytes, what)?;
    Ok(bytes)
}

/// Reads a JSON document that has no digest.
pub(crate) fn contents(file: &dyn BlockRead, what: &str) -> Result<Vec<u8>> {
    let size = file.size_bytes();
    if size > DOCUMENT_MAX_BYTES {
        return Err(too_large(what));
    }
    let bytes = read_within(file, 0, index(size))?;
    Ok(bytes.unwrap_or_default())
}

/// Parses a JSON document. The parser limits its depth.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::corrupt(format!("invalid {what}: {error}")))
}

fn too_large(what: &str) -> Error {
    Error::unsupported(format!(
        "unsupported {what} of more than {DOCUMENT_MAX_BYTES} bytes"
    ))
}
