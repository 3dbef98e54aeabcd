//! Artifacts: manifests whose blobs are disks by themselves, as ORAS and KubeVirt's exports have
//! them.

use diskfs_block::{Error, ErrorKind, Result};

use crate::descriptor::Descriptor;
use crate::message::{list, shortened};

/// The media types of KubeVirt's disks: `application/vnd.kubevirt.disk.raw+zstd`.
const KUBEVIRT_DISK: &str = "application/vnd.kubevirt.disk.";

/// The annotation with the name of a disk (KubeVirt), and that with the name of a file (ORAS).
const DISK_NAME: &str = "io.kubevirt.disk.name";
const TITLE: &str = "org.opencontainers.image.title";

/// The annotation of a blob that ORAS has packed from a directory.
const UNPACK: &str = "io.deis.oras.content.unpack";

/// The format of a disk, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFormat {
    /// A raw disk.
    Raw,
    /// A qcow2 image.
    Qcow2,
    /// The media type doesn't tell it.
    Unnamed,
}

/// A blob that is a disk.
#[derive(Debug, Clone)]
pub struct DiskBlob {
    /// The reference to the blob.
    pub descriptor: Descriptor,
    /// The name of the disk; empty if it has none.
    pub name: String,
    /// The format of the disk.
    pub format: DiskFormat,
    /// True if the blob is compressed, by the suffix of its media type.
    pub is_compressed: bool,
}

impl DiskBlob {
    /// Returns true for the media types of disks.
    pub(crate) fn is_disk(layer: &Descriptor) -> bool {
        layer.media_type.starts_with(KUBEVIRT_DISK)
    }

    fn of(layer: &Descriptor) -> Option<Self> {
        if layer.annotation(UNPACK).is_some() {
            return None;
        }
        let (kind, suffix) = layer
            .media_type
            .rsplit_once('+')
            .unwrap_or((&layer.media_type, ""));
        let format = match kind.strip_prefix(KUBEVIRT_DISK) {
            Some("raw") => DiskFormat::Raw,
            Some("qcow2") => DiskFormat::Qcow2,
            _ => DiskFormat::Unnamed,
        };
        let name = layer.annotation(DISK_NAME);
        let name = name.or_else(|| layer.annotation(TITLE)).unwrap_or_default();
        Some(Self {
            descriptor: layer.clone(),
            name: name.to_owned(),
            format,
            is_compressed: ["gzip", "zstd"].contains(&suffix),
        })
    }
}

/// Returns the disk of an artifact: the only one, or the one with this name.
pub(crate) fn disk(layers: &[Descriptor], name: Option<&str>) -> Result<DiskBlob> {
    let mut disks: Vec<_> = layers.iter().filter_map(DiskBlob::of).collect();
    // Beside disks, exports contain descriptions.
    if layers.iter().any(DiskBlob::is_disk) {
        disks.retain(|disk| DiskBlob::is_disk(&disk.descriptor));
    }
    let names: Vec<_> = disks.iter().map(|disk| shortened(&disk.name)).collect();
    if let Some(name) = name {
        disks.retain(|disk| disk.name == name.trim_start_matches('/'));
    }
    match disks.as_slice() {
        [disk] => Ok(disk.clone()),
        [] => {
            let reason = format!("the artifact has no such disk; available: {}", list(&names));
            Err(Error::new(ErrorKind::NotFound, reason))
        }
        _ => {
            let reason = format!("the artifact has several disks: {}", list(&names));
            let hint = "append `#NAME` to the name of the image";
            Err(Error::invalid(reason).with_hint(hint))
        }
    }
}
