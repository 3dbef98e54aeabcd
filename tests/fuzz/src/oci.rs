//! OCI image layouts.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, Memory};
use diskfs_oci::{Blobs, Contents, Digest, DiskFile, DiskFiles, Image, open_blob};

use crate::Sparse;

/// The maximum size of all documents together.
const MAX_BYTES: u64 = 256 << 10;

/// The maximum number of documents.
const MAX_DOCUMENTS: usize = 16;

/// Blobs in memory.
#[derive(Debug, Default)]
struct Store(BTreeMap<Digest, Vec<u8>>);

impl Blobs for Store {
    fn open(&self, digest: &Digest) -> diskfs_block::Result<Arc<dyn BlockRead>> {
        let missing = || Error::new(ErrorKind::NotFound, "no such blob");
        let bytes = self.0.get(digest).ok_or_else(missing)?;
        Ok(Arc::new(Memory::new(bytes.clone())))
    }
}

/// Opens a layout: documents with zeroes between them, the index first. Its blobs have valid digests
/// and sizes, which mutations never hit: `@3` is the digest of the third document, and `"#3"` its size.
/// Then merges layers whose files are the lines of the documents.
pub(crate) fn layout(device: &Arc<dyn BlockRead>) {
    let len = device.size_bytes().min(MAX_BYTES);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    if device.read_at(0, &mut bytes).is_err() {
        return;
    }
    let texts = bytes.split(|byte| *byte == 0).take(MAX_DOCUMENTS);
    let texts: Vec<_> = texts
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect();
    let mut store = Store::default();
    let index = seal(&texts, &mut store);
    let digests: Vec<_> = store.0.keys().map(Digest::to_string).collect();
    let marker = Memory::new(b"{\"imageLayoutVersion\":\"1.0.0\"}".to_vec());
    let index = Memory::new(index.into_bytes());
    for reference in [
        None,
        Some("41"),
        Some("name/of:41"),
        digests.first().map(String::as_str),
    ] {
        if let Ok(image) = Image::open(&store, &marker, &index, reference) {
            look(&store, &image);
        }
    }
    // What a registry answers is an index or a manifest.
    for (digest, document) in &store.0 {
        let document = Memory::new(document.clone());
        for wanted in [None, Some(digest)] {
            if let Ok(image) = Image::open_root(&store, &document, wanted) {
                look(&store, &image);
            }
        }
    }
    merge(&texts);
}

/// Opens the disks or the layers of an image.
fn look(store: &Store, image: &Image) {
    let _ = (
        image.document().len(),
        image.media_type(),
        image.digest().hex(),
    );
    for blob in image.blobs() {
        let _ = (blob.digest(), open_blob(store, blob));
    }
    for name in [None, Some("root")] {
        match image.contents(store, name) {
            Ok(Contents::Blob(disk)) => drop(open_blob(store, &disk.descriptor)),
            Ok(Contents::Layers(layers)) => {
                for layer in layers {
                    drop(open_blob(store, &layer));
                }
            }
            Err(_) => {}
        }
    }
}

/// Adds all documents but the first, the last first, and returns the first one: each refers to later
/// ones.
fn seal(texts: &[String], store: &mut Store) -> String {
    let mut later: Vec<(String, String)> = Vec::new();
    let mut sealed = String::new();
    for (number, text) in texts.iter().enumerate().rev() {
        sealed.clone_from(text);
        for (placeholder, value) in &later {
            sealed = sealed.replace(placeholder, value);
        }
        let digest = Digest::of(sealed.as_bytes());
        later.push((format!("@{number}"), digest.to_string()));
        later.push((format!("\"#{number}\""), sealed.len().to_string()));
        store.0.insert(digest, sealed.clone().into_bytes());
    }
    sealed
}

/// Merges layers with the names of the lines.
fn merge(texts: &[String]) {
    for path in [None, Some("disk/a"), texts.first().map(String::as_str)] {
        let Ok(mut files) = DiskFiles::new(path) else {
            continue;
        };
        for (layer, text) in texts.iter().enumerate() {
            for line in text.lines() {
                let digest = Digest::parse(line);
                let _ = digest.map(|it| (it.blob_name(), it.verify(b"contents", "blob")));
            }
            let names = text.lines().filter(|name| files.is_of_interest(name));
            let file = |name: &str| DiskFile {
                name: name.to_owned(),
                layer,
                start: 0,
                size_bytes: 0,
            };
            let names: Vec<_> = names.map(file).collect();
            if files.apply(&names).is_err() {
                break;
            }
        }
        let _ = (files.iter().count(), files.disk().is_ok());
    }
}

const INDEX: &str = r##"{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json",
"digest":"@1","size":"#1","annotations":{"org.opencontainers.image.ref.name":"41"}},
{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"@4","size":"#4"}]}"##;
const NESTED: &str = r##"{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",
"digest":"@2","size":"#2","platform":{"os":"linux","architecture":"amd64"}}]}"##;
const MANIFEST: &str = r##"{"config":{"mediaType":"application/vnd.oci.image.config.v1+json",
"digest":"@3","size":"#3"},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",
"digest":"@6","size":"#6"}]}"##;
const CONFIG: &str = r#"{"os":"linux","rootfs":{"type":"layers","diff_ids":["@6"]}}"#;
const ARTIFACT: &str = r##"{"config":{"mediaType":"application/vnd.oci.empty.v1+json",
"digest":"@5","size":"#5"},"layers":[{"mediaType":"application/vnd.kubevirt.disk.raw+zstd",
"digest":"@6","size":"#6","annotations":{"io.kubevirt.disk.name":"root"}}]}"##;
const FILES: &str = "sha512:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nblake3:01\nmd5:01\nsha256:01\n\
    disk/a\ndisk/.wh.a\ndisk/.wh..wh..opq\n.wh.disk\n./disk/b\n";

/// Returns a layout with an image and an artifact.
pub(crate) fn seed() -> Sparse {
    let texts = [INDEX, NESTED, MANIFEST, CONFIG, ARTIFACT, "{}", FILES];
    let bytes = texts.join("\0").into_bytes();
    let mut file = Sparse::zeroes(bytes.len() as u64);
    file.write(0, &bytes);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_opened() {
        let texts = [INDEX, NESTED, MANIFEST, CONFIG, ARTIFACT, "{}", FILES].map(str::to_owned);
        let mut store = Store::default();
        let index = Memory::new(seal(&texts, &mut store).into_bytes());
        let marker = Memory::new(b"{\"imageLayoutVersion\":\"1.0.0\"}".to_vec());
        let image = Image::open(&store, &marker, &index, Some("41")).unwrap();
        let contents = image.contents(&store, None).unwrap();
        assert!(matches!(contents, Contents::Layers(layers) if layers.len() == 1));
    }
}
