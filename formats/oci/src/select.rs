//! The selection of one manifest among those of a layout.

use std::collections::BTreeSet;

use diskfs_block::{Error, ErrorKind, Result};

use crate::blobs::{Blobs, parse, read_manifest};
use crate::descriptor::Descriptor;
use crate::digest::Digest;
use crate::index::{Index, is_index};
use crate::manifest::is_manifest;
use crate::message::{list, shortened};
use crate::platform::Platform;

/// The limit on the depth of indexes: registries have one below `index.json`.
const MAX_DEPTH: u32 = 4;

/// The limit on the indexes of a layout that are read.
const MAX_INDEXES: usize = 256;

/// The hint for a selection that matches several images.
const SEVERAL_HINT: &str = "append `:TAG` or `@sha256:DIGEST` to the name of the image";

/// Returns the manifest with this tag, name or digest, for the platform of this host if there are
/// several. Without a reference, the layout must contain only one.
pub(crate) fn select(
    blobs: &dyn Blobs,
    index: &Index,
    reference: Option<&str>,
) -> Result<Descriptor> {
    let wanted =
        reference.filter(|text| text.starts_with("sha256:") || text.starts_with("sha512:"));
    let wanted = wanted.map(Digest::parse).transpose();
    let mut candidates = Candidates {
        blobs,
        wanted: wanted.map_err(|error| Error::invalid(error.reason().to_owned()))?,
        images: Vec::new(),
        seen: BTreeSet::new(),
        indexes: 0,
        unknown: None,
    };
    let by_name = reference.filter(|_| candidates.wanted.is_none());
    for descriptor in &index.manifests {
        if by_name.is_none_or(|name| descriptor.has_name(name)) {
            candidates.add(descriptor, 0)?;
        }
    }
    if candidates.images.is_empty() {
        return Err(match candidates.unknown {
            Some(error) => error,
            None => not_found(index, reference),
        });
    }
    candidates.for_host()
}

/// The manifests that may be the selected one.
struct Candidates<'a> {
    blobs: &'a dyn Blobs,
    /// The digest of the selected manifest or index, if the user gave one.
    wanted: Option<Digest>,
    images: Vec<Descriptor>,
    /// The manifests and indexes so far: each counts once.
    seen: BTreeSet<Digest>,
    indexes: usize,
    /// The error for the first unknown media type, for when nothing else matches: other readers
    /// must ignore it.
    unknown: Option<Error>,
}

impl Candidates<'_> {
    /// Adds a manifest, or the manifests of an index.
    fn add(&mut self, descriptor: &Descriptor, depth: u32) -> Result<()> {
        if is_attestation(descriptor) {
            return Ok(());
        }
        let digest = descriptor.digest()?;
        let is_index = is_index(&descriptor.media_type);
        if !is_index && !is_manifest(&descriptor.media_type) {
            let media_type = shortened(&descriptor.media_type);
            let reason = format!("unsupported manifest of the type `{media_type}`");
            self.unknown.get_or_insert(Error::unsupported(reason));
            return Ok(());
        }
        let is_wanted = self.wanted.as_ref().is_none_or(|wanted| *wanted == digest);
        if (!is_index && !is_wanted) || !self.seen.insert(digest) {
            return Ok(());
        }
        if !is_index {
            self.images.push(descriptor.clone());
            return Ok(());
        }
        self.indexes = self.indexes.saturating_add(1);
        if depth >= MAX_DEPTH || self.indexes > MAX_INDEXES {
            let reason = format!(
                "unsupported image layout: more than {MAX_DEPTH} levels of indexes, or \
                 {MAX_INDEXES} indexes"
            );
            return Err(Error::unsupported(reason));
        }
        let inner: Index = parse(&read_manifest(self.blobs, descriptor, "index")?, "index")?;
        // Everything in the selected index is a candidate.
        let outer = if is_wanted { self.wanted.take() } else { None };
        for descriptor in &inner.manifests {
            self.add(descriptor, depth.saturating_add(1))?;
        }
        if outer.is_some() {
            self.wanted = outer;
        }
        Ok(())
    }

    /// Returns the only manifest, or the only one for this host.
    fn for_host(&self) -> Result<Descriptor> {
        let is_host = |image: &&Descriptor| image.platform.as_ref().is_some_and(Platform::is_host);
        let found: Vec<_> = match self.images.as_slice() {
            [only] => vec![only],
            all => all.iter().filter(is_host).collect(),
        };
        if let [image] = found.as_slice() {
            return Ok((*image).clone());
        }
        let shown: Vec<_> = self.images.iter().map(Descriptor::shown).collect();
        let reason = format!("several images match: {}", list(&shown));
        Err(Error::invalid(reason).with_hint(SEVERAL_HINT))
    }
}

/// Returns true for the description of how an image was built, which `docker buildx` adds.
fn is_attestation(descriptor: &Descriptor) -> bool {
    let is_marked = descriptor.annotation("vnd.docker.reference.type").is_some();
    let platform = descriptor.platform.as_ref();
    is_marked || platform.is_some_and(|platform| platform.os == "unknown")
}

fn not_found(index: &Index, reference: Option<&str>) -> Error {
    let Some(reference) = reference else {
        return Error::new(ErrorKind::NotFound, "the layout contains no image");
    };
    let shown: Vec<_> = index.manifests.iter().map(Descriptor::shown).collect();
    let reason = format!(
        "no such image: `{}`; available: {}",
        shortened(reference),
        list(&shown)
    );
    Error::new(ErrorKind::NotFound, reason)
}
