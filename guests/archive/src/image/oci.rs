//! OCI image layouts.

use std::collections::BTreeSet;

use diskfs_disk::{Error, ErrorKind, Result};

use super::config::Config;
use super::json::{self, Descriptor, Index, Layout, Manifest};
use super::selection::{Selection, ambiguous, not_found};
use super::store::{Store, blob_name};
use super::{Image, Platform};
use crate::digest::Digest;

/// The name of the index in a layout.
pub(super) const INDEX: &str = "index.json";

/// The file that marks a layout.
pub(super) const LAYOUT: &str = "oci-layout";

/// The annotations with the name of an image: that of the specification, and containerd's.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
const CONTAINERD_NAME: &str = "io.containerd.image.name";

/// The limit on the depth of indexes: registries have one below `index.json`.
const MAX_DEPTH: u32 = 4;

/// The limit on the indexes of a layout that are read.
const MAX_INDEXES: usize = 256;

/// The limit on layers; Docker allows 127.
const MAX_LAYERS: usize = 1024;

/// Opens the selected image of a layout.
pub(super) fn open(store: &Store, selection: &Selection) -> Result<Image> {
    let layout: Layout = json::parse(&store.document(LAYOUT)?, LAYOUT)?;
    if !layout.version.starts_with("1.") {
        let version = layout.version.escape_debug();
        let reason = format!("version `{version}` of the image layout is not supported");
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    let index: Index = json::parse(&store.document(INDEX)?, INDEX)?;
    let mut candidates = Candidates {
        store,
        images: Vec::new(),
        seen: BTreeSet::new(),
        indexes: 0,
        unknown: None,
    };
    let wanted = wanted_digest(selection)?;
    let by_name = selection.reference.as_deref().filter(|_| wanted.is_none());
    for descriptor in &index.manifests {
        if by_name.is_none_or(|name| has_name(descriptor, name)) {
            let name = name_of(descriptor).map(str::to_owned);
            candidates.add(descriptor, name, wanted.as_ref(), 0)?;
        }
    }
    if candidates.images.is_empty() {
        if let Some(error) = candidates.unknown {
            return Err(error);
        }
        let names = index.manifests.iter().map(shown).collect::<Vec<_>>();
        let what = match &selection.reference {
            Some(reference) => format!("no such image: `{}`", reference.escape_debug()),
            None => "the layout contains no image".to_owned(),
        };
        return Err(not_found(&what, &names));
    }
    let found = candidates.select(selection)?;
    open_manifest(store, found, selection)
}

fn wanted_digest(selection: &Selection) -> Result<Option<Digest>> {
    let reference = selection.reference.as_deref();
    let digest =
        reference.filter(|text| text.starts_with("sha256:") || text.starts_with("sha512:"));
    digest.map(Digest::parse).transpose()
}

fn name_of(descriptor: &Descriptor) -> Option<&str> {
    let name = descriptor.annotation(CONTAINERD_NAME);
    name.or_else(|| descriptor.annotation(REF_NAME))
}

fn has_name(descriptor: &Descriptor, name: &str) -> bool {
    let names = [CONTAINERD_NAME, REF_NAME].map(|key| descriptor.annotation(key));
    names.contains(&Some(name))
}

/// Returns a descriptor for the list in an error.
fn shown(descriptor: &Descriptor) -> String {
    let digest = descriptor.digest.chars().take(71).collect::<String>();
    let name = name_of(descriptor).unwrap_or(&digest).escape_debug();
    match &descriptor.platform {
        Some(platform) => format!("{name} ({platform})"),
        None => name.to_string(),
    }
}

/// An image that may be the selected one.
struct Candidate {
    descriptor: Descriptor,
    digest: Digest,
    name: Option<String>,
}

/// The images that may be the selected one.
struct Candidates<'s> {
    store: &'s Store,
    images: Vec<Candidate>,
    /// The digests of the manifests and indexes so far: each counts once.
    seen: BTreeSet<Digest>,
    indexes: usize,
    /// The error for the first unknown media type, for when nothing else matches: other readers
    /// must ignore it.
    unknown: Option<Error>,
}

impl Candidates<'_> {
    /// Adds the manifest of a descriptor, or the manifests of an index.
    fn add(
        &mut self,
        descriptor: &Descriptor,
        name: Option<String>,
        wanted: Option<&Digest>,
        depth: u32,
    ) -> Result<()> {
        if is_attestation(descriptor) {
            return Ok(());
        }
        let digest = Digest::parse(&descriptor.digest)?;
        let wanted = wanted.filter(|wanted| **wanted != digest);
        let is_index = match is_index(&descriptor.media_type) {
            Ok(is_index) => is_index,
            Err(error) => {
                self.unknown.get_or_insert(error);
                return Ok(());
            }
        };
        if (!is_index && wanted.is_some()) || !self.seen.insert(digest) {
            return Ok(());
        }
        if !is_index {
            self.images.push(Candidate {
                descriptor: descriptor.clone(),
                digest,
                name,
            });
            return Ok(());
        }
        self.indexes = self.indexes.saturating_add(1);
        if depth >= MAX_DEPTH || self.indexes > MAX_INDEXES {
            let reason = format!(
                "too many nested indexes in the layout, at most {MAX_DEPTH} levels and \
                 {MAX_INDEXES} indexes"
            );
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let bytes = self.store.blob_document(&digest, descriptor.size)?;
        let index: Index = json::parse(&bytes, "index")?;
        for descriptor in &index.manifests {
            let depth = depth.saturating_add(1);
            self.add(descriptor, name.clone(), wanted, depth)?;
        }
        Ok(())
    }

    /// Returns the image that the platform selects.
    fn select(&self, selection: &Selection) -> Result<&Candidate> {
        let shown = |images: &[&Candidate]| {
            let shown = images.iter().map(|image| {
                let mut descriptor = image.descriptor.clone();
                descriptor.annotations = None;
                match &image.name {
                    Some(name) => format!("{} {}", name.escape_debug(), shown(&descriptor)),
                    None => shown(&descriptor),
                }
            });
            shown.collect::<Vec<_>>()
        };
        let all: Vec<_> = self.images.iter().collect();
        // The platform of a single image is compared with its configuration.
        if let [image] = all.as_slice() {
            return Ok(image);
        }
        let wanted = selection.platform_or_host();
        let is_wanted = |image: &&&Candidate| {
            let platform = image.descriptor.platform.as_ref();
            platform.is_some_and(|platform| wanted.matches(platform))
        };
        let found: Vec<_> = all.iter().filter(is_wanted).copied().collect();
        let is_exact = |image: &&&Candidate| {
            let platform = image.descriptor.platform.as_ref();
            platform.is_some_and(|platform| platform.variant == wanted.variant)
        };
        let exact: Vec<_> = found.iter().filter(is_exact).copied().collect();
        match (found.as_slice(), exact.as_slice()) {
            ([image], _) | (_, [image]) => Ok(image),
            ([], _) if all.iter().any(|image| image.descriptor.platform.is_some()) => {
                let what = format!("no image for the platform {wanted}");
                Err(not_found(&what, &shown(&all)))
            }
            ([], _) => Err(ambiguous("several images match", &shown(&all))),
            _ => Err(ambiguous("several images match", &shown(&found))),
        }
    }
}

/// Returns true for the description of how an image was built, which `docker buildx` adds.
fn is_attestation(descriptor: &Descriptor) -> bool {
    let is_marked = descriptor.annotation("vnd.docker.reference.type").is_some();
    let platform = descriptor.platform.as_ref();
    is_marked || platform.is_some_and(|platform| platform.os == "unknown")
}

/// Returns true for the media type of an index, and false for that of a manifest.
fn is_index(media_type: &str) -> Result<bool> {
    match media_type {
        "application/vnd.oci.image.index.v1+json"
        | "application/vnd.docker.distribution.manifest.list.v2+json" => Ok(true),
        "application/vnd.oci.image.manifest.v1+json"
        | "application/vnd.docker.distribution.manifest.v2+json" => Ok(false),
        other => Err(unsupported("manifests", other)),
    }
}

fn unsupported(what: &str, media_type: &str) -> Error {
    let media_type: String = media_type.chars().take(200).collect();
    let reason = format!(
        "{what} of type `{}` are not supported",
        media_type.escape_debug()
    );
    Error::new(ErrorKind::Unsupported, reason)
}

fn open_manifest(store: &Store, image: &Candidate, selection: &Selection) -> Result<Image> {
    let bytes = store.blob_document(&image.digest, image.descriptor.size)?;
    let manifest: Manifest = json::parse(&bytes, "manifest")?;
    if !matches!(
        &*manifest.config.media_type,
        "application/vnd.oci.image.config.v1+json"
            | "application/vnd.docker.container.image.v1+json"
    ) {
        return Err(unsupported(
            "images with a configuration",
            &manifest.config.media_type,
        ));
    }
    let digest = Digest::parse(&manifest.config.digest)?;
    let config = Config::parse(&store.blob_document(&digest, manifest.config.size)?)?;
    check_platform(&config.platform, selection)?;
    check_layer_count(manifest.layers.len(), &config)?;
    let layers = manifest.layers.iter().zip(&config.diff_ids);
    let layers = layers.map(|(layer, diff_id)| {
        check_layer_type(&layer.media_type)?;
        let digest = Digest::parse(&layer.digest)?;
        let name = blob_name(&digest);
        let opened = store.layer(&name, Some(layer.size), Some(digest), *diff_id);
        opened.map_err(|error| without_foreign(error, layer, &digest))
    });
    Ok(Image {
        name: image.name.clone(),
        manifest: Some(image.digest),
        layers: layers.collect::<Result<_>>()?,
        config,
    })
}

/// Checks that an image is for the selected platform. Many configurations have no variant.
pub(super) fn check_platform(found: &Platform, selection: &Selection) -> Result<()> {
    let Some(mut wanted) = selection.platform.clone() else {
        return Ok(());
    };
    if found.variant.is_empty() {
        wanted.variant.clear();
    }
    if wanted.matches(found) {
        return Ok(());
    }
    let what = format!("no image for the platform {wanted}");
    Err(not_found(&what, &[found.to_string()]))
}

/// Checks that each layer has the digest of its decompressed contents.
pub(super) fn check_layer_count(layers: usize, config: &Config) -> Result<()> {
    if layers > MAX_LAYERS {
        let reason = format!("too many layers: {layers}, at most {MAX_LAYERS}");
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    if layers != config.diff_ids.len() {
        let reason = format!(
            "the manifest has {layers} layers, but the configuration has {}",
            config.diff_ids.len()
        );
        return Err(Error::new(ErrorKind::Corrupt, reason));
    }
    Ok(())
}

/// Checks the media type of a layer. Its compression is recognized by its first bytes.
fn check_layer_type(media_type: &str) -> Result<()> {
    if media_type.ends_with("+encrypted") {
        let error = unsupported("encrypted layers", media_type);
        return Err(error.with_hint("decrypt the image first, for example with skopeo"));
    }
    let known = [
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.foreign.diff.tar",
    ];
    let suffix = known
        .iter()
        .find_map(|known| media_type.strip_prefix(known));
    match suffix {
        Some("" | "+gzip" | "+zstd" | ".gzip" | ".zstd") => Ok(()),
        _ => Err(unsupported("layers", media_type)),
    }
}

/// Explains why a layer that may not be distributed is missing.
fn without_foreign(error: Error, layer: &Descriptor, digest: &Digest) -> Error {
    let is_foreign = ["foreign", "nondistributable"];
    let is_foreign = is_foreign
        .iter()
        .any(|kind| layer.media_type.contains(kind));
    if error.kind() != ErrorKind::NotFound || !is_foreign {
        return error;
    }
    let reason = format!("the image does not contain the non-distributable layer {digest}");
    let error = Error::new(ErrorKind::Unsupported, reason);
    error.with_hint("copy the image together with its foreign layers")
}
