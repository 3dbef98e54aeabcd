//! Archives of `docker save` and `podman save`: `manifest.json`, with a `layer.tar` for each layer
//! or with blobs.

use serde::Deserialize;

use diskfs_disk::{Error, ErrorKind, Result};

use super::config::Config;
use super::selection::{Selection, ambiguous, not_found};
use super::store::Store;
use super::{Image, json, oci};
use crate::digest::{Digest, mismatch};

/// The name of the manifest in an archive.
pub(super) const MANIFEST: &str = "manifest.json";

/// An image of `manifest.json`.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "RepoTags", default)]
    repo_tags: Option<Vec<String>>,
    #[serde(rename = "Layers", default)]
    layers: Option<Vec<String>>,
}

/// Opens the selected image of an archive.
pub(super) fn open(store: &Store, selection: &Selection) -> Result<Image> {
    let entries: Vec<Entry> = json::parse(&store.document(MANIFEST)?, MANIFEST)?;
    let entry = select(&entries, selection)?;
    let bytes = store.document(&entry.config)?;
    let found = Digest::of(&bytes);
    if let Some(expected) = entry.config_digest().filter(|expected| *expected != found) {
        return Err(mismatch("configuration of the image", &expected, &found));
    }
    let config = Config::parse(&bytes)?;
    oci::check_platform(&config.platform, selection)?;
    let layers = entry.layers.as_deref().unwrap_or_default();
    oci::check_layer_count(layers.len(), &config)?;
    let layers = layers.iter().zip(&config.diff_ids);
    let layers = layers.map(|(name, diff_id)| store.layer(name, None, blob_digest(name), *diff_id));
    let tag = entry.tags().next().map(str::to_owned);
    Ok(Image {
        name: selection.reference.clone().or(tag),
        manifest: None,
        layers: layers.collect::<Result<_>>()?,
        config,
    })
}

impl Entry {
    fn tags(&self) -> impl Iterator<Item = &str> {
        self.repo_tags.iter().flatten().map(String::as_str)
    }

    /// Returns the digest in the name of the configuration, which is the image's ID.
    fn config_digest(&self) -> Option<Digest> {
        let named = self.config.strip_suffix(".json").and_then(Digest::from_hex);
        named.or_else(|| blob_digest(&self.config))
    }

    fn has_name(&self, name: &str) -> bool {
        let digest = self.config_digest().map(|digest| digest.to_string());
        let is_name = |tag: &str| {
            let short = tag.strip_prefix("docker.io/").unwrap_or(tag);
            let short = short.strip_prefix("library/").unwrap_or(short);
            let without_tag = short.strip_suffix(":latest");
            tag == name || short == name || without_tag == Some(name)
        };
        digest.as_deref() == Some(name) || self.tags().any(is_name)
    }
}

/// Returns the digest in the name of a blob.
fn blob_digest(name: &str) -> Option<Digest> {
    Digest::from_hex(name.strip_prefix("blobs/sha256/")?)
}

fn select<'e>(entries: &'e [Entry], selection: &Selection) -> Result<&'e Entry> {
    let shown = |entries: &[&Entry]| {
        let shown = entries.iter().map(|entry| {
            let digest = entry.config_digest().map(|digest| digest.to_string());
            let tags = entry.tags().collect::<Vec<_>>().join(", ");
            match digest {
                Some(digest) if tags.is_empty() => digest,
                _ => tags.escape_debug().to_string(),
            }
        });
        shown.collect::<Vec<_>>()
    };
    let all: Vec<_> = entries.iter().collect();
    let name = selection.reference.as_deref();
    let is_wanted = |entry: &&&Entry| name.is_none_or(|name| entry.has_name(name));
    let found: Vec<_> = all.iter().filter(is_wanted).copied().collect();
    match (found.as_slice(), name) {
        ([entry], _) => Ok(entry),
        ([], Some(name)) => {
            let what = format!("no such image: `{}`", name.escape_debug());
            Err(not_found(&what, &shown(&all)))
        }
        ([], None) => Err(Error::new(
            ErrorKind::NotFound,
            "the archive contains no image",
        )),
        _ => Err(ambiguous("several images match", &shown(&found))),
    }
}
