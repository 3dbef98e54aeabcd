//! Opening the map of each format.

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ImageMap, Result};
use diskfs_dmg::Dmg;
use diskfs_parallels::Parallels;
use diskfs_qcow::Qcow;
use diskfs_qed::Qed;
use diskfs_vdi::{ImageType, Vdi};
use diskfs_vhd::{DiskType, Vhd};
use diskfs_vhdx::Vhdx;
use diskfs_vmdk::{Descriptor, ExtentType, Vmdk};

use crate::Format;
use crate::description::MappedDetails;
use crate::gate::NamedFor;
use crate::mapped::StorageRules;
use crate::mapped::check::CheckedTables;
use crate::mapped::package;
use crate::mapped::windows_path::to_unix;

/// An image of which the file itself is open, but no file that it names.
pub(crate) struct MapImage {
    map: PendingMap,
    /// The file in which runs of file 0 are stored.
    pub(crate) file: Arc<dyn BlockRead>,
    /// The names of the other files, in their order.
    pub(crate) extents: Vec<Vec<u8>>,
    pub(crate) rules: StorageRules,
    /// The tables to check, of a format that `qemu-img check` knows. A VMDK has them when its map is
    /// open.
    pub(crate) tables: Option<CheckedTables>,
    pub(crate) parent: Option<ParentLink>,
    pub(crate) details: MappedDetails,
    pub(crate) warnings: Vec<String>,
}

/// A map that may still need the files that the image names.
enum PendingMap {
    Complete(Arc<dyn ImageMap>),
    Vmdk,
    /// The only other file is a VMDK, which must be complete: the disk of an OVF.
    Packaged,
}

/// The parent or backing file of an image, as the image names it.
pub(crate) struct ParentLink {
    /// The name; of a VDI both identifiers of the parent, as they are stored.
    pub(crate) name: Vec<u8>,
    pub(crate) format: ParentFormat,
    /// The identifiers of the parent that are accepted; empty if the image stores none.
    pub(crate) ids: Vec<String>,
    /// The time at which the parent was last modified, in seconds since 1970.
    pub(crate) modified: Option<i64>,
}

/// The format of a parent. It is never probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParentFormat {
    /// The format that the image's own format, or the image, says.
    Fixed(Format),
    /// The image does not say it.
    Unnamed,
}

impl ParentLink {
    /// Returns the name for messages.
    pub(crate) fn shown_name(&self) -> String {
        match self.format {
            ParentFormat::Fixed(Format::Vdi) => NamedFor::ParentByIds,
            _ => NamedFor::Parent,
        }
        .shown(&self.name)
    }
}

impl MapImage {
    /// Opens the image in `file`. `disk` names the disk of a package that has several.
    pub(crate) fn open(
        format: Format,
        file: Arc<dyn BlockRead>,
        disk: Option<&str>,
    ) -> Result<Self> {
        match format {
            Format::Vdi => vdi(file),
            Format::Vhd => vhd(file),
            Format::Vhdx => vhdx(file),
            Format::Vmdk => vmdk(file),
            Format::Qed => qed(file),
            Format::Parallels => parallels(file),
            Format::Qcow => qcow(file),
            Format::Dmg => dmg(file),
            Format::Ova => package::open(file, disk),
            Format::Raw | Format::Qcow2 | Format::Compressed => Err(Error::invalid(format!(
                "{format} is not a format that only maps"
            ))),
        }
    }

    pub(super) fn new(
        map: Arc<dyn ImageMap>,
        file: Arc<dyn BlockRead>,
        details: MappedDetails,
    ) -> Self {
        Self::pending(PendingMap::Complete(map), file, details)
    }

    fn pending(map: PendingMap, file: Arc<dyn BlockRead>, details: MappedDetails) -> Self {
        Self {
            map,
            file,
            extents: Vec::new(),
            rules: StorageRules {
                absent_is_zero: true,
                ..StorageRules::default()
            },
            tables: None,
            parent: None,
            details,
            warnings: Vec::new(),
        }
    }

    /// Opens the map, and completes the details. `extents` are the other files, in the order of
    /// their names.
    pub(crate) fn map(&mut self, extents: &[Arc<dyn BlockRead>]) -> Result<Arc<dyn ImageMap>> {
        match &self.map {
            PendingMap::Complete(map) => Ok(Arc::clone(map)),
            PendingMap::Vmdk => {
                let vmdk = Vmdk::open(Arc::clone(&self.file), extents)?;
                self.details.block_size_bytes = vmdk.grain_bytes();
                let vmdk = Arc::new(vmdk);
                self.tables = Some(CheckedTables::Vmdk(Arc::clone(&vmdk)));
                Ok(vmdk)
            }
            PendingMap::Packaged => {
                let missing = || Error::invalid("the disk of the OVF is not open");
                let file = extents.first().ok_or_else(missing)?;
                let mut disk = Self::whole_vmdk(Arc::clone(file))?;
                let map = disk.map(&[])?;
                disk.details.disks = std::mem::take(&mut self.details.disks);
                (self.file, self.details, self.rules) = (disk.file, disk.details, disk.rules);
                Ok(map)
            }
        }
    }

    /// Opens a VMDK of a package. It must not refer to other files.
    pub(super) fn whole_vmdk(file: Arc<dyn BlockRead>) -> Result<Self> {
        let image = vmdk(file)?;
        if image.names_files() {
            return Err(Error::unsupported(
                "unsupported OVA: its disk refers to other files",
            ));
        }
        Ok(image)
    }

    /// Returns an image whose disk is the VMDK in another file, which an OVF names.
    pub(super) fn packaged(file: Arc<dyn BlockRead>, name: String) -> Self {
        let mut image = Self::pending(PendingMap::Packaged, file, MappedDetails::default());
        image.extents = vec![name.into_bytes()];
        image
    }

    /// Returns true if opening the image opens other files.
    pub(crate) const fn names_files(&self) -> bool {
        self.parent.is_some() || !self.extents.is_empty()
    }

    /// Adds the rules of a format whose last cluster may be truncated.
    const fn with_clusters(mut self, cluster_bytes: u64) -> Self {
        self.rules.missing_max_bytes = cluster_bytes.saturating_sub(1);
        self.details.block_size_bytes = Some(cluster_bytes);
        self
    }
}

fn vdi(file: Arc<dyn BlockRead>) -> Result<MapImage> {
    let vdi = Vdi::open(Arc::clone(&file))?;
    let parent = vdi.parent();
    let details = MappedDetails {
        variant: Some(vdi.image_type().name().to_owned()),
        block_size_bytes: Some(vdi.block_size_bytes()),
        id: Some(vdi.id().to_string()),
        parent_name: parent.map(|parent| parent.id.to_string()),
        ..MappedDetails::default()
    };
    let asks_for_holes = vdi.image_type() == ImageType::Static;
    let vdi = Arc::new(vdi);
    let tables = CheckedTables::Vdi(Arc::clone(&vdi));
    let mut image = MapImage::new(vdi, file, details);
    image.tables = Some(tables);
    image.rules.asks_for_holes = asks_for_holes;
    image.parent = parent.map(|parent| ParentLink {
        name: parent.to_bytes().to_vec(),
        format: ParentFormat::Fixed(Format::Vdi),
        ids: vec![parent.id.to_string()],
        modified: None,
    });
    Ok(image)
}

fn vhd(file: Arc<dyn BlockRead>) -> Result<MapImage> {
    let vhd = Vhd::open(Arc::clone(&file))?;
    let parent = vhd.parent().cloned();
    let details = MappedDetails {
        variant: Some(vhd.disk_type().name().to_owned()),
        block_size_bytes: vhd.block_size_bytes(),
        creator: Some(vhd.creator().to_owned()),
        id: Some(vhd.id().to_string()),
        parent_name: parent.as_ref().map(|parent| parent.name.clone()),
        ..MappedDetails::default()
    };
    let asks_for_holes = vhd.disk_type() == DiskType::Fixed;
    let mut image = MapImage::new(Arc::new(vhd), file, details);
    image.rules.asks_for_holes = asks_for_holes;
    image.parent = parent.map(|parent| ParentLink {
        name: to_unix(&parent.name),
        format: ParentFormat::Fixed(Format::Vhd),
        ids: vec![parent.id.to_string()],
        modified: parent.modified,
    });
    Ok(image)
}

fn vhdx(file: Arc<dyn BlockRead>) -> Result<MapImage> {
    let vhdx = Vhdx::open(file)?;
    let parent = vhdx.parent().cloned();
    let variant = match (&parent, vhdx.is_fixed()) {
        (Some(_), _) => "differencing",
        (None, true) => "fixed",
        (None, false) => "dynamic",
    };
    let details = MappedDetails {
        variant: Some(variant.to_owned()),
        block_size_bytes: Some(vhdx.block_size_bytes()),
        creator: Some(vhdx.creator().to_owned()),
        id: Some(vhdx.data_write_guid().to_string()),
        parent_name: parent.as_ref().map(|parent| parent.name.clone()),
        ..MappedDetails::default()
    };
    let (file, has_log) = (vhdx.file(), vhdx.has_log());
    let vhdx = Arc::new(vhdx);
    let tables = CheckedTables::Vhdx(Arc::clone(&vhdx));
    let mut image = MapImage::new(vhdx, file, details);
    image.tables = Some(tables);
    if has_log {
        let warning = "was not closed properly; its log is replayed in memory";
        image.warnings.push(warning.to_owned());
    }
    image.parent = parent.map(|parent| ParentLink {
        name: to_unix(&parent.name),
        format: ParentFormat::Fixed(Format::Vhdx),
        ids: parent.linkage.iter().map(ToString::to_string).collect(),
        modified: None,
    });
    Ok(image)
}

fn vmdk(file: Arc<dyn BlockRead>) -> Result<MapImage> {
    let descriptor = Descriptor::read(&*file)?;
    let parent = descriptor.parent.as_ref();
    let details = MappedDetails {
        variant: Some(descriptor.create_type.name().to_owned()),
        id: Some(content_id(descriptor.cid)),
        parent_name: parent.map(|parent| parent.file_name.clone()),
        ..MappedDetails::default()
    };
    let mut image = MapImage::pending(PendingMap::Vmdk, file, details);
    let is_flat = |kind: &ExtentType| matches!(kind, ExtentType::Flat | ExtentType::Vmfs);
    let mut extents = descriptor.extents.iter();
    image.rules.absent_is_zero = false;
    image.rules.asks_for_holes = extents.any(|extent| is_flat(&extent.extent_type));
    let names = descriptor.extent_files()?;
    image.extents = names.into_iter().map(to_unix).collect();
    image.parent = parent.map(|parent| ParentLink {
        name: to_unix(&parent.file_name),
        format: ParentFormat::Fixed(Format::Vmdk),
        ids: vec![content_id(parent.cid)],
        modified: None,
    });
    Ok(image)
}

/// Returns the identifier of a VMDK's contents, as its descriptor spells it.
fn content_id(id: u32) -> String {
    format!("{id:08x}")
}

fn qed(file: Arc<dyn BlockRead>) -> Result<MapImage> {
    let qed = Qed::open(Arc::clone(&file))?;
    let (cluster_bytes, needs_check) = (qed.cluster_size_bytes(), qed.needs_check());
    let backing = qed.backing().cloned();
    let details = MappedDetails {
        parent_name: backing.as_ref().map(|backing| text(&backing.name)),
        ..MappedDetails::default()
    };
    let qed = Arc::new(qed);
    let mut image = MapImage::new(qed.clone(), file, details).with_clusters(cluster_bytes);
    image.tables = Some(CheckedTables::Qed(qed));
    image.rules.absent_is_zero = false;
    if needs_check {
        image.warnings.push(not_closed());
    }
    image.parent = backing.map(|backing| ParentLink {
        name: backing.name,
        format: if backing.is_raw {
            ParentFormat::Fixed(Format::Raw)
        } else {
            ParentFormat::Unnamed
        },
        ids: Vec::new(),
        modified: None,
    });
    Ok(image)
}

fn parallels(file: Arc<dyn BlockRead>) -> Result<MapImage> {
    let parallels = Parallels::open(Arc::clone(&file))?;
    let (cluster_bytes, is_in_use) = (parallels.cluster_size_bytes(), parallels.is_in_use());
    let details = MappedDetails::default();
    let parallels = Arc::new(parallels);
    let mut image = MapImage::new(parallels.clone(), file, details).with_clusters(cluster_bytes);
    image.tables = Some(CheckedTables::Parallels(parallels));
    image.rules.absent_is_zero = false;
    if is_in_use {
        image.warnings.push(not_closed());
    }
    Ok(image)
}

fn qcow(file: Arc<dyn BlockRead>) -> Result<MapImage> {
    let qcow = Qcow::open(Arc::clone(&file))?;
    let cluster_bytes = qcow.cluster_size_bytes();
    let name = qcow.backing_name().map(<[u8]>::to_vec);
    let details = MappedDetails {
        parent_name: name.as_deref().map(text),
        ..MappedDetails::default()
    };
    let mut image = MapImage::new(Arc::new(qcow), file, details).with_clusters(cluster_bytes);
    image.rules.absent_is_zero = false;
    image.parent = name.map(|name| ParentLink {
        name,
        format: ParentFormat::Unnamed,
        ids: Vec::new(),
        modified: None,
    });
    Ok(image)
}

fn dmg(file: Arc<dyn BlockRead>) -> Result<MapImage> {
    let dmg = Dmg::open(Arc::clone(&file))?;
    Ok(MapImage::new(Arc::new(dmg), file, MappedDetails::default()))
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn not_closed() -> String {
    "was not closed properly; blocks may be leaked, which does not affect reading".to_owned()
}
