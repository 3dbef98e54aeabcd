//! Layouts that are valid, malicious, and randomly changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use diskfs_block::{BlockRead, Error, ErrorKind, Memory, Result};
use diskfs_oci::{
    Blobs, Contents, Digest, DiskFormat, Image, LayerCompression, NewConfig, NewDisk, NewImage,
    write_layer,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Blobs in memory, and the digests that were asked for.
#[derive(Debug, Default)]
struct Store {
    blobs: BTreeMap<Digest, Vec<u8>>,
    opened: Mutex<Vec<Digest>>,
}

impl Blobs for Store {
    fn open(&self, digest: &Digest) -> Result<Arc<dyn BlockRead>> {
        self.opened.lock().unwrap().push(digest.clone());
        let missing = || Error::new(ErrorKind::NotFound, "no such blob");
        let bytes = self.blobs.get(digest).ok_or_else(missing)?;
        Ok(Arc::new(Memory::new(bytes.clone())))
    }
}

impl Store {
    /// Adds a blob and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes);
        self.blobs.insert(digest.clone(), bytes.to_vec());
        json!({"mediaType": media_type, "digest": digest.to_string(), "size": bytes.len()})
    }

    fn add_json(&mut self, media_type: &str, value: &Value) -> Value {
        self.add(media_type, value.to_string().as_bytes())
    }

    /// Adds an image with a layer of these bytes, and returns the descriptor of its manifest.
    fn image(&mut self, layer: &[u8]) -> Value {
        let layer = self.add(LAYER, layer);
        let config = json!({"rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}});
        let config = self.add_json(CONFIG, &config);
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]});
        self.add_json(MANIFEST, &manifest)
    }

    fn open_index(&self, index: &[u8], reference: Option<&str>) -> Result<Image> {
        let marker = Memory::new(b"{\"imageLayoutVersion\": \"1.0.0\"}".to_vec());
        let index = Memory::new(index.to_vec());
        Image::open(self, &marker, &index, reference)
    }

    fn open(&self, manifests: &[Value], reference: Option<&str>) -> Result<Image> {
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        self.open_index(index.to_string().as_bytes(), reference)
    }

    fn kind(&self, manifests: &[Value]) -> ErrorKind {
        let opened = self.open(manifests, None);
        opened
            .and_then(|image| image.contents(self, None))
            .unwrap_err()
            .kind()
    }
}

fn named(mut descriptor: Value, name: &str) -> Value {
    descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    descriptor
}

fn on(mut descriptor: Value, architecture: &str) -> Value {
    descriptor["platform"] = json!({"os": "linux", "architecture": architecture});
    descriptor
}

#[test]
fn an_image_is_selected() {
    let mut store = Store::default();
    let (one, two) = (store.image(b"one"), store.image(b"two"));
    let digest = |image: &Image| Value::from(image.digest().to_string());
    let only = store.open(std::slice::from_ref(&one), None).unwrap();
    assert_eq!(digest(&only), one["digest"]);
    let both = [named(one.clone(), "a"), named(two.clone(), "b")];
    assert_eq!(
        digest(&store.open(&both, Some("b")).unwrap()),
        two["digest"]
    );
    let by_digest = store.open(&both, one["digest"].as_str()).unwrap();
    assert_eq!(digest(&by_digest), one["digest"]);
    let error = store.open(&both, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = store.open(&both, Some("c")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().contains("`c`; available: a, b"),
        "{error}"
    );
}

#[test]
fn an_index_has_an_image_for_this_host() {
    let mut store = Store::default();
    let (one, two) = (store.image(b"one"), store.image(b"two"));
    let host = diskfs_oci::host_architecture();
    let attestation = json!({"os": "unknown", "architecture": "unknown"});
    let mut attested = store.image(b"attestation");
    attested["platform"] = attestation;
    let manifests = [on(one.clone(), "vax"), on(two.clone(), host), attested];
    let index = store.add_json(INDEX, &json!({"manifests": manifests}));
    let index = [named(index, "41")];
    let image = store.open(&index, Some("41")).unwrap();
    assert_eq!(two["digest"], image.digest().to_string());
    let other = store.open(&index, one["digest"].as_str()).unwrap();
    assert_eq!(one["digest"], other.digest().to_string());
}

#[test]
fn a_blob_of_an_artifact_is_the_disk() {
    let mut store = Store::default();
    let config = store.add("application/vnd.oci.empty.v1+json", b"{}");
    let mut raw = store.add("application/vnd.kubevirt.disk.raw+zstd", b"disk");
    raw["annotations"] = json!({"io.kubevirt.disk.name": "root"});
    let mut data = store.add("application/vnd.kubevirt.disk.qcow2", b"data");
    data["annotations"] = json!({"io.kubevirt.disk.name": "data"});
    let text = store.add("text/plain", b"readme");
    let manifest = json!({"config": config, "layers": [text, raw, data]});
    let manifest = [store.add_json(MANIFEST, &manifest)];
    let image = store.open(&manifest, None).unwrap();
    let disk = |name| match image.contents(&store, name)? {
        Contents::Blob(disk) => Ok((disk.name.clone(), disk.format, disk.is_compressed)),
        Contents::Layers(_) => Err(Error::invalid("layers")),
    };
    assert_eq!(
        disk(Some("root")).unwrap(),
        ("root".into(), DiskFormat::Raw, true)
    );
    assert_eq!(
        disk(Some("data")).unwrap(),
        ("data".into(), DiskFormat::Qcow2, false)
    );
    assert!(disk(None).unwrap_err().to_string().contains("root, data"));
    assert_eq!(disk(Some("x")).unwrap_err().kind(), ErrorKind::NotFound);
    // ORAS has the type of layers for single files.
    let mut file = store.add(LAYER, b"file");
    file["annotations"] = json!({"org.opencontainers.image.title": "disk.qcow2"});
    let manifest = store.add_json(MANIFEST, &json!({"config": config, "layers": [file]}));
    let image = store.open(&[manifest], None).unwrap();
    let Contents::Blob(disk) = image.contents(&store, None).unwrap() else {
        panic!("a blob");
    };
    assert_eq!((&*disk.name, disk.is_compressed), ("disk.qcow2", false));
}

#[test]
fn hostile_layouts_are_refused() {
    let mut store = Store::default();
    let image = store.image(b"layer");
    let with = |key: &str, value: Value| {
        let mut changed = image.clone();
        changed[key] = value;
        store.kind(&[changed])
    };
    for digest in [
        "sha256:../../../../etc/passwd",
        "../x:00",
        "sha256:/etc/passwd",
        "",
    ] {
        assert_eq!(
            with("digest", digest.into()),
            ErrorKind::Corrupt,
            "{digest}"
        );
    }
    // No blob was opened by such a name.
    assert!(store.opened.lock().unwrap().is_empty());
    for size in [0, 1, 1_000_000] {
        assert_eq!(with("size", size.into()), ErrorKind::Corrupt);
    }
    assert_eq!(with("size", u64::MAX.into()), ErrorKind::Unsupported);
    assert_eq!(with("size", (-1).into()), ErrorKind::Corrupt);
    assert_eq!(
        with("mediaType", "text/plain".into()),
        ErrorKind::Unsupported
    );
    let text = b"[".repeat(100_000);
    for index in [&b""[..], b"null", b"{", b"{\"manifests\": 7}", &text] {
        let kind = store.open_index(index, None).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Corrupt);
    }
    let large = vec![b' '; (4 << 20) + 1];
    let kind = store.open_index(&large, None).unwrap_err().kind();
    assert_eq!(kind, ErrorKind::Unsupported);
    assert_eq!(store.kind(&[]), ErrorKind::NotFound);
}

#[test]
fn changed_documents_are_refused() {
    let mut store = Store::default();
    let image = store.image(b"layer");
    let digest = Digest::parse(image["digest"].as_str().unwrap()).unwrap();
    let manifest = store.blobs.get_mut(&digest).unwrap();
    let at = manifest.iter().position(|byte| *byte == b'2').unwrap();
    manifest[at] = b'3';
    assert_eq!(store.kind(&[image]), ErrorKind::Corrupt);
}

#[test]
fn indexes_without_end_are_refused() {
    let mut store = Store::default();
    let mut deep = store.image(b"layer");
    for _ in 0..10 {
        deep = store.add_json(INDEX, &json!({"manifests": [deep]}));
    }
    assert_eq!(store.kind(&[deep]), ErrorKind::Unsupported);
    // A thousand different indexes, and one that is there a thousand times.
    let mut many = Vec::new();
    for number in 0..1000 {
        let index = json!({"manifests": [], "number": number});
        many.push(store.add_json(INDEX, &index));
    }
    assert_eq!(store.kind(&many), ErrorKind::Unsupported);
    assert_eq!(
        store.kind(&vec![many[0].clone(); 1000]),
        ErrorKind::NotFound
    );
}

#[test]
fn layers_and_configuration_must_agree() {
    let mut store = Store::default();
    let layer = store.add(LAYER, b"layer");
    let config = store.add_json(CONFIG, &json!({"rootfs": {"diff_ids": []}}));
    let manifest = json!({"config": config, "layers": [layer]});
    let manifest = store.add_json(MANIFEST, &manifest);
    assert_eq!(store.kind(&[manifest]), ErrorKind::Corrupt);
    let layers = vec![layer.clone(); 2000];
    let manifest = store.add_json(MANIFEST, &json!({"config": config, "layers": layers}));
    assert_eq!(store.kind(&[manifest]), ErrorKind::Unsupported);
    let encrypted = store.add(
        "application/vnd.oci.image.layer.v1.tar+gzip+encrypted",
        b"x",
    );
    let config = json!({"rootfs": {"diff_ids": [layer["digest"]]}});
    let config = store.add_json(CONFIG, &config);
    let manifest = json!({"config": config, "layers": [encrypted]});
    let manifest = store.add_json(MANIFEST, &manifest);
    assert_eq!(store.kind(&[manifest]), ErrorKind::Unsupported);
}

fn new_disk(path: &str, size_bytes: u64) -> NewDisk {
    NewDisk {
        path: path.to_owned(),
        size_bytes,
        owner: (107, 107),
        seconds: 1,
    }
}

#[test]
fn a_new_image_is_read_again() {
    let disk = b"a disk".repeat(1000);
    for compression in [
        LayerCompression::None,
        LayerCompression::Gzip,
        LayerCompression::Zstd,
    ] {
        let write = || {
            let mut blob = Vec::new();
            let new = new_disk("/disk/d.img", disk.len() as u64);
            let layer = write_layer(&mut blob, compression, &new, &mut &disk[..], &mut |_| {});
            (layer.unwrap(), blob)
        };
        let ((layer, blob), (_, again)) = (write(), write());
        assert_eq!(blob, again);
        assert_eq!(
            (layer.digest.clone(), layer.size_bytes),
            (Digest::of(&blob), blob.len() as u64)
        );
        let config = NewConfig {
            architecture: "amd64".into(),
            ..NewConfig::default()
        };
        let new = NewImage::new(&layer, &config, "41").unwrap();
        let mut store = Store::default();
        store.add(LAYER, &blob);
        store.add(MANIFEST, &new.manifest.bytes);
        store.add(CONFIG, &new.config.bytes);
        let image = store.open_index(&new.index.bytes, Some("41")).unwrap();
        let Contents::Layers(layers) = image.contents(&store, None).unwrap() else {
            panic!("layers");
        };
        assert_eq!(layers[0].digest().unwrap(), layer.digest);
    }
}

#[test]
fn paths_that_cannot_be_in_an_image_are_refused() {
    let long = format!("/{}", "a".repeat(101));
    for path in [
        "",
        "/",
        "/disk/",
        "../x",
        "/disk/./a",
        "/disk/.wh.a",
        "/a\0b",
        &long,
    ] {
        let new = new_disk(path, 0);
        let made = write_layer(
            Vec::new(),
            LayerCompression::None,
            &new,
            &mut &b""[..],
            &mut |_| {},
        );
        assert_eq!(made.unwrap_err().kind(), ErrorKind::Invalid, "{path:?}");
    }
    // A file that becomes shorter meanwhile.
    let new = new_disk("/disk/a", 10);
    let made = write_layer(
        Vec::new(),
        LayerCompression::Zstd,
        &new,
        &mut &b"short"[..],
        &mut |_| {},
    );
    assert!(made.is_err());
}

proptest! {
    /// Whatever the documents contain, they are refused or accepted, but nothing else happens.
    #[test]
    fn random_changes_are_survived(
        document in 0..3_usize,
        at in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut store = Store::default();
        let image = store.image(b"layer");
        let mut texts: Vec<Vec<u8>> = store.blobs.values().cloned().collect();
        texts.retain(|text| text.starts_with(b"{"));
        texts.push(json!({"manifests": [image]}).to_string().into_bytes());
        let text = &mut texts[document];
        let at = at.index(text.len());
        let end = (at + bytes.len()).min(text.len());
        text.splice(at..end, bytes);
        // The changed document has a valid digest, so that it is parsed.
        let changed = text.clone();
        let descriptors = [
            store.add(MANIFEST, &changed),
            store.add(INDEX, &changed),
        ];
        for descriptor in &descriptors {
            let opened = store.open(std::slice::from_ref(descriptor), None);
            let _ = opened.and_then(|image| image.contents(&store, None));
        }
        let _ = store.open_index(&changed, None);
    }

    /// A layer of any disk is decompressed to the archive of its digest.
    #[test]
    fn layers_have_their_digests(disk in prop::collection::vec(any::<u8>(), 0..200_000)) {
        let mut blob = Vec::new();
        let new = new_disk("/disk/d", disk.len() as u64);
        let gzip = LayerCompression::Gzip;
        let layer = write_layer(&mut blob, gzip, &new, &mut &disk[..], &mut |_| {}).unwrap();
        let mut plain = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(&blob[..]), &mut plain).unwrap();
        prop_assert_eq!(layer.diff_id, Digest::of(&plain));
        prop_assert_eq!(&plain[1024..1024 + disk.len()], &disk[..]);
    }
}
