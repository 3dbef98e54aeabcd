//! Opening the disk of an OCI image.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result, Slice};
use diskfs_compressed::is_compressed;
use diskfs_oci::{
    Blobs, Contents, Descriptor, DiskBlob, DiskFile, DiskFiles, DiskFormat, INDEX_NAME, Image,
    LAYOUT_NAME, open_blob,
};
use diskfs_ova::members_where;

use super::Opener;
use super::oci_store::Store;
use crate::Format;
use crate::gate::Access;
use crate::mapped::{Mapped, MappedParts, open_compressed};
use crate::node::Node;
use crate::oci::{Hashed, OciName, StoreKind, refuse};
use crate::probe::head_of;
use crate::source::Source;

/// The limit on the headers of a layer: a million files, as large systems have.
const MAX_HEADERS: usize = 1 << 20;

/// The number of the first decompressed layer in the cache of units: higher than that of any image
/// of a chain.
const FIRST_LAYER: u32 = 1 << 16;

/// A device in an OCI image, and the warnings about it.
#[derive(Clone)]
pub(super) struct Unpacked {
    pub(super) device: Arc<dyn BlockRead>,
    pub(super) warnings: Vec<String>,
}

/// The disk of an OCI image.
pub(super) struct OciDisk {
    pub(super) unpacked: Unpacked,
    /// The name of the disk in the image; `None` for a blob without a name.
    name: Option<String>,
    format: Option<Format>,
}

impl<'a> Opener<'a> {
    /// Returns the disk of an OCI image as a source. From now on, no image may name files: a disk
    /// comes with everything that belongs to it.
    pub(super) fn oci_source(&mut self, name: &OciName<'_>, path: &Path) -> Result<Source> {
        if self.access == Access::ReadWrite {
            refuse(path)?;
        }
        let disk = self.oci_disk(name).map_err(|e| e.in_file(path))?;
        self.is_in_oci = true;
        let path = disk.name.map(|disk| name.of_disk(&disk));
        let path = path.unwrap_or_else(|| name.of_image());
        Ok(Source {
            format: disk.format,
            warnings: disk.unpacked.warnings,
            ..Source::of_device(&path, disk.unpacked.device, None)
        })
    }

    fn oci_disk(&self, name: &OciName<'_>) -> Result<OciDisk> {
        let (store, image) = self.oci_image(name)?;
        self.disk_of(&store, &image, name.disk)
    }

    /// Opens the storage of an OCI image, and the image.
    pub(super) fn oci_image(&self, name: &OciName<'_>) -> Result<(Store<'a>, Image)> {
        let store = self.store(name)?;
        let (marker, index) = (store.file(LAYOUT_NAME)?, store.file(INDEX_NAME)?);
        let image = Image::open(&store, marker.as_ref(), index.as_ref(), name.reference)?;
        Ok((store, image))
    }

    pub(super) fn disk_of(
        &self,
        blobs: &dyn Blobs,
        image: &Image,
        name: Option<&str>,
    ) -> Result<OciDisk> {
        match image.contents(blobs, name)? {
            Contents::Blob(blob) => self.disk_blob(blobs, &blob),
            Contents::Layers(layers) => self.disk_file(blobs, &layers, name),
        }
    }

    fn store(&self, name: &OciName<'_>) -> Result<Store<'a>> {
        let first = name.first_file();
        let files = self.options.files.as_ref();
        let file = files.open(&first, Access::Read)?;
        match name.kind {
            StoreKind::Layout => Store::directory(files, &self.options.gate, first, file),
            StoreKind::Archive => {
                let archive = self.unpacked(Arc::new(file), &first, FIRST_LAYER)?;
                Store::archive(archive.device)
            }
        }
    }

    /// Opens a blob that is a disk.
    fn disk_blob(&self, blobs: &dyn Blobs, disk: &DiskBlob) -> Result<OciDisk> {
        let blob = open_blob(blobs, &disk.descriptor)?;
        let unpacked = if disk.is_compressed {
            self.decompressed_blob(blob, &disk.descriptor, FIRST_LAYER.saturating_add(1))?
        } else {
            Unpacked::plain(blob)
        };
        Ok(OciDisk {
            unpacked,
            name: Some(disk.name.clone()).filter(|name| !name.is_empty()),
            format: match disk.format {
                DiskFormat::Raw => Some(Format::Raw),
                DiskFormat::Qcow2 => Some(Format::Qcow2),
                DiskFormat::Unnamed => None,
            },
        })
    }

    /// Opens the file of the layers that is the disk.
    fn disk_file(
        &self,
        blobs: &dyn Blobs,
        layers: &[Descriptor],
        path: Option<&str>,
    ) -> Result<OciDisk> {
        let mut files = DiskFiles::new(path)?;
        let mut opened: Vec<Option<Unpacked>> = Vec::new();
        for layer in layers {
            let unpacked = self.layer_at(blobs, layer, opened.len())?;
            files.apply(&members(&unpacked, opened.len(), &files)?)?;
            opened.push(Some(unpacked));
            // A layer without the disk may be a large temporary file.
            for (number, layer) in opened.iter_mut().enumerate() {
                if files.iter().all(|file| file.layer != number) {
                    *layer = None;
                }
            }
        }
        let disk = files.disk()?;
        let layer = opened.get(disk.layer).cloned().flatten();
        let Unpacked { device, warnings } = layer.ok_or_else(no_layer)?;
        let device = Slice::new(device, disk.start, disk.size_bytes)?;
        Ok(OciDisk {
            unpacked: Unpacked {
                device: Arc::new(device),
                warnings,
            },
            name: Some(format!("/{}", disk.name)),
            format: None,
        })
    }

    fn layer_at(&self, blobs: &dyn Blobs, layer: &Descriptor, number: usize) -> Result<Unpacked> {
        let blob = open_blob(blobs, layer)?;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let number = FIRST_LAYER.saturating_add(1).saturating_add(number);
        if !is_compressed(&head_of(blob.as_ref())?) {
            return Ok(Unpacked::plain(blob));
        }
        self.decompressed_blob(blob, layer, number)
    }

    /// Returns the contents of a compressed blob, and verifies its digest if that reads it as a
    /// whole.
    fn decompressed_blob(
        &self,
        blob: Arc<dyn BlockRead>,
        descriptor: &Descriptor,
        number: u32,
    ) -> Result<Unpacked> {
        let digest = descriptor.digest()?;
        let path = PathBuf::from(digest.to_string());
        let hashed = Arc::new(Hashed::new(blob, &digest));
        let file: Arc<dyn BlockRead> = hashed.clone();
        let (unpacked, is_spooled) = self.decompressed(&file, &path, number)?;
        hashed.verify(&digest, is_spooled)?;
        Ok(unpacked)
    }

    /// Returns the contents of a file that may be compressed, by its first bytes.
    fn unpacked(&self, file: Arc<dyn BlockRead>, path: &Path, number: u32) -> Result<Unpacked> {
        if !is_compressed(&head_of(file.as_ref())?) {
            return Ok(Unpacked::plain(file));
        }
        Ok(self.decompressed(&file, path, number)?.0)
    }

    /// Returns the contents of a compressed file, in place or from a temporary file, and true in the
    /// latter case.
    fn decompressed(
        &self,
        file: &Arc<dyn BlockRead>,
        path: &Path,
        layer: u32,
    ) -> Result<(Unpacked, bool)> {
        let mut image = open_compressed(Arc::clone(file), path).map_err(|e| e.in_file(path))?;
        let is_spooled = !Arc::ptr_eq(&image.file, file);
        let mapped = Mapped::new(MappedParts {
            path: path.to_owned(),
            map: image.map(&[])?,
            files: vec![image.file],
            rules: image.rules,
            tables: None,
            parent: None,
            units: Arc::clone(&self.units),
            layer,
        });
        let unpacked = Unpacked {
            device: Arc::new(Node::Mapped(mapped, None)),
            warnings: image.warnings,
        };
        Ok((unpacked, is_spooled))
    }
}

impl Unpacked {
    const fn plain(device: Arc<dyn BlockRead>) -> Self {
        Self {
            device,
            warnings: Vec::new(),
        }
    }
}

/// Returns the files of a layer that matter for finding the disk.
fn members(layer: &Unpacked, number: usize, files: &DiskFiles) -> Result<Vec<DiskFile>> {
    let mut is_wanted = |name: &str| files.is_of_interest(name);
    let members = members_where(layer.device.as_ref(), MAX_HEADERS, &mut is_wanted)?;
    let file = |member: diskfs_ova::Member| DiskFile {
        name: member.name,
        layer: number,
        start: member.start,
        size_bytes: member.size_bytes,
    };
    Ok(members.into_iter().map(file).collect())
}

fn no_layer() -> Error {
    Error::invalid("the layer of the disk is not open")
}
