//! The list of the images, as JSON.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::access::Client;
use crate::images::{Image, Images};
use crate::version::Version;

/// The properties of an image, as far as they could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Described {
    /// The name of the format.
    pub format: Option<String>,
    /// The size of the guest's disk in bytes.
    pub virtual_size_bytes: Option<u64>,
}

/// Looks into an image, of which nothing may be believed.
pub type Describe = dyn Fn(&str, File) -> Described + Send + Sync;

/// The lister, which looks into each version of an image once.
pub(crate) struct Lister {
    describe: Box<Describe>,
    /// Locked while a list is made, so that clients cannot make the server look into many images at
    /// once.
    known: Mutex<HashMap<String, (Version, Described)>>,
}

impl Lister {
    /// Creates a lister that has looked into no image yet.
    pub(crate) fn new(describe: Box<Describe>) -> Self {
        Self {
            describe,
            known: Mutex::default(),
        }
    }

    /// Returns the document with the images that a client may read.
    pub(crate) fn list(&self, images: &Images, client: &Client<'_>) -> std::io::Result<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut listed = Vec::new();
        let mut kept = HashMap::new();
        for name in images.names()? {
            let Some(image) = images.open(&name)? else {
                continue;
            };
            let version = image.version;
            let described = match known.remove(&name) {
                Some((before, described)) if before == version => described,
                _ => self.look_into(&name, image),
            };
            if client.may_read(&name) {
                listed.push(entry(&name, &version, &described));
            }
            kept.insert(name, (version, described));
        }
        *known = kept;
        Ok(format!("{}\n", json!({ "images": listed })))
    }

    fn look_into(&self, name: &str, image: Image) -> Described {
        (self.describe)(name, image.file)
    }
}

fn entry(name: &str, version: &Version, described: &Described) -> Value {
    json!({
        "name": name,
        "format": described.format,
        "virtual_size_bytes": described.virtual_size_bytes,
        "size_bytes": version.size_bytes,
        "etag": version.etag(),
    })
}

impl fmt::Debug for Lister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").finish_non_exhaustive()
    }
}
