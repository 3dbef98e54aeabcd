//! Writes OCI image layouts and the directories of `docker save`.

use std::io::Write;
use std::path::{Path, PathBuf};

use diskfs_archive::Digest;
use serde_json::{Value, json};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The compression of a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
}

/// An OCI image layout in a directory.
pub(crate) struct Layout(PathBuf);

impl Layout {
    pub(crate) fn new(dir: &Path) -> Self {
        std::fs::create_dir_all(dir.join("blobs/sha256")).unwrap();
        let version = json!({"imageLayoutVersion": "1.0.0"}).to_string();
        std::fs::write(dir.join("oci-layout"), version).unwrap();
        Self(dir.to_owned())
    }

    pub(crate) fn blob(&self, digest: &str) -> PathBuf {
        self.0.join("blobs/sha256").join(&digest[7..])
    }

    pub(crate) fn json(&self, descriptor: &Value) -> Value {
        let path = self.blob(descriptor["digest"].as_str().unwrap());
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    /// Adds a blob, and returns its descriptor.
    pub(crate) fn add(&mut self, bytes: &[u8], media_type: &str) -> Value {
        let digest = Digest::of(bytes).to_string();
        std::fs::write(self.blob(&digest), bytes).unwrap();
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    pub(crate) fn add_json(&mut self, value: &Value, media_type: &str) -> Value {
        self.add(value.to_string().as_bytes(), media_type)
    }

    /// Adds an image, and returns the descriptor of its manifest.
    pub(crate) fn image(
        &mut self,
        architecture: &str,
        layers: &[Vec<u8>],
        packings: impl Iterator<Item = Packing>,
    ) -> Value {
        let packed = layers.iter().zip(packings);
        let packed: Vec<_> = packed
            .map(|(layer, packing)| self.layer(layer, packing))
            .collect();
        let config = config(architecture, layers);
        let config = self.add_json(&config, "application/vnd.oci.image.config.v1+json");
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": packed});
        self.add_json(&manifest, "application/vnd.oci.image.manifest.v1+json")
    }

    fn layer(&mut self, tar: &[u8], packing: Packing) -> Value {
        let media_type = "application/vnd.oci.image.layer.v1.tar";
        match packing {
            Packing::None => self.add(tar, media_type),
            Packing::Gzip => {
                let level = flate2::Compression::fast();
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
                gzip.write_all(tar).unwrap();
                self.add(&gzip.finish().unwrap(), &format!("{media_type}+gzip"))
            }
            Packing::Zstd => {
                let packed = zstd::encode_all(tar, 1).unwrap();
                self.add(&packed, &format!("{media_type}+zstd"))
            }
        }
    }

    pub(crate) fn tagged(descriptor: &Value, tag: &str) -> Value {
        let mut descriptor = descriptor.clone();
        descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        descriptor
    }

    pub(crate) fn nested_index(&mut self, manifests: &[Value]) -> Value {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        self.add_json(&index, INDEX)
    }

    pub(crate) fn index(&self, manifests: &[Value]) {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        std::fs::write(self.0.join("index.json"), index.to_string()).unwrap();
    }

    /// Writes the files of `docker save`: before version 25 (`layer.tar`), or as blobs.
    pub(crate) fn docker(dir: &Path, layers: &[Vec<u8>], is_old: bool) {
        let config = config("amd64", layers).to_string();
        let put = |name: String, bytes: &[u8]| {
            let path = dir.join(&name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
            name
        };
        let digest = |bytes: &[u8]| Digest::of(bytes).hex();
        let name = |bytes: &[u8], is_layer: bool| match (is_old, is_layer) {
            (true, true) => format!("{}/layer.tar", digest(&[b"id", bytes].concat())),
            (true, false) => format!("{}.json", digest(bytes)),
            (false, _) => format!("blobs/sha256/{}", digest(bytes)),
        };
        let config = put(name(config.as_bytes(), false), config.as_bytes());
        let names = layers.iter().map(|layer| put(name(layer, true), layer));
        let mut names: Vec<_> = names.collect();
        if is_old {
            // Docker wrote a symlink for a layer that it had written before.
            let link = format!("{}/layer.tar", Digest::of(b"link").hex());
            let path = dir.join(&link);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(format!("../{}", names[0]), path).unwrap();
            names[0] = link;
        }
        let manifest = json!([{"Config": config, "RepoTags": ["test:latest"], "Layers": names}]);
        put("manifest.json".into(), manifest.to_string().as_bytes());
    }
}

fn config(architecture: &str, layers: &[Vec<u8>]) -> Value {
    let diff_ids = layers.iter().map(|layer| Digest::of(layer).to_string());
    json!({
        "os": "linux", "architecture": architecture,
        "config": {"Entrypoint": ["/init"], "Cmd": null},
        "rootfs": {"type": "layers", "diff_ids": diff_ids.collect::<Vec<_>>()},
    })
}

/// Returns an archive with one file.
pub(crate) fn small_tar(name: &str, contents: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name).unwrap();
    header.set_size(contents.len() as u64);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_600_000_000);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, contents).unwrap();
    builder.into_inner().unwrap()
}
