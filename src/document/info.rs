//! The document of `diskfs info`.

use diskfs_disk::{ChosenDriver, Content, ContentClass, Disk, Error, Format, Group, Volume, time};
use diskfs_image::{
    Bitmap, BitmapState, Description, MappedDetails, PackagedDisk, Qcow2Details, Snapshot,
};
use diskfs_luks::Header;
use diskfs_vfs::{Identity, Statistics, Timestamp};
use diskfs_volume::{Partition, PartitionKind, PartitionTable};
use serde_json::{Map, Value, json};

use super::put_name;

/// A volume with its contents.
#[derive(Debug)]
pub struct VolumeReport {
    /// The volume.
    pub volume: Volume,
    /// The content that its magic numbers identify.
    pub content: Option<Content>,
    /// The driver of the filesystem.
    pub driver: Option<ChosenDriver>,
    /// The identity and the usage of the filesystem.
    pub filesystem: Option<(Identity, Statistics)>,
    /// The LUKS header, if the volume is encrypted.
    pub luks: Option<Header>,
}

impl VolumeReport {
    /// Looks into a volume. What can't be read is passed to `failed`, and left out.
    pub fn of(volume: Volume, failed: &mut dyn FnMut(&Error)) -> Self {
        let mut report = Self {
            volume,
            content: None,
            driver: None,
            filesystem: None,
            luks: None,
        };
        let volume = &report.volume;
        // The problem is shown with the partition table, group or array, and is not a failure.
        if volume.problem().is_some() {
            return report;
        }
        let content = volume.content().inspect_err(&mut *failed);
        report.content = content.ok().flatten().cloned();
        let content = report.content.as_ref();
        report.driver = content
            .filter(|content| content.class == ContentClass::Filesystem)
            .and_then(|_| volume.driver().inspect_err(&mut *failed).ok());
        let is_opened = matches!(
            report.driver,
            Some(ChosenDriver::Native | ChosenDriver::Fallback(_))
        );
        report.filesystem = content
            .filter(|content| is_opened && content.is_readable())
            .and_then(|_| {
                let opened = volume.filesystem();
                let details = opened.and_then(|fs| Ok((fs.identity(), fs.statistics()?)));
                details.inspect_err(&mut *failed).ok()
            });
        report.luks = volume.luks().inspect_err(failed).ok().flatten();
        report
    }
}

/// Returns the body of the document: the image, its volumes and filesystems.
pub fn info(disk: &Disk, volumes: &[VolumeReport]) -> Value {
    let table = disk.partition_table().ok().flatten();
    let mut image = image(disk.description());
    image["luks"] = image_luks(disk).into();
    json!({
        "image": image,
        "partition_table": table.map(partition_table),
        "volume_groups": disk.groups().unwrap_or_default().iter().map(|group| volume_group(group)).collect::<Vec<_>>(),
        "arrays": volumes.iter().filter_map(array).collect::<Vec<_>>(),
        "volumes": volumes.iter().map(volume).collect::<Vec<_>>(),
        "filesystems": volumes.iter().filter_map(filesystem).collect::<Vec<_>>(),
        "warnings": disk.warnings(),
    })
}

fn image(description: &Description) -> Value {
    let mut object = Map::new();
    put_name(
        &mut object,
        "path",
        description.path.as_os_str().as_encoded_bytes(),
    );
    let fields = [
        ("format", description.format.map(Format::name).into()),
        ("probed", description.probed.into()),
        ("virtual_size_bytes", description.virtual_size_bytes.into()),
        ("file_size_bytes", description.file_size_bytes.into()),
        ("allocated_bytes", description.allocated_bytes.into()),
        ("qcow2", description.qcow2.as_ref().map(qcow2).into()),
        ("details", description.mapped.as_ref().map(details).into()),
        ("backing", description.backing.as_deref().map(image).into()),
        ("warnings", description.warnings.clone().into()),
    ];
    object.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    object.into()
}

/// Returns the properties of an image that is neither raw nor qcow2.
fn details(details: &MappedDetails) -> Value {
    let mut object = json!({
        "variant": details.variant,
        "block_size_bytes": details.block_size_bytes,
        "creator": details.creator,
        "id": details.id,
        "parent_name": details.parent_name,
    });
    if let Some(object) = object.as_object_mut().filter(|_| !details.disks.is_empty()) {
        let disks = details.disks.iter().map(packaged_disk).collect();
        object.insert("disks".to_owned(), disks);
    }
    object
}

/// Returns a disk of a package.
fn packaged_disk(disk: &PackagedDisk) -> Value {
    json!({
        "name": disk.name,
        "id": disk.id,
        "capacity_bytes": disk.capacity_bytes,
        "is_open": disk.is_open,
    })
}

fn qcow2(details: &Qcow2Details) -> Value {
    let data_file = details
        .data_file
        .as_ref()
        .map(|path| path.to_string_lossy().into_owned());
    let opened = details
        .opened_snapshot
        .and_then(|n| details.snapshots.get(n));
    json!({
        "compat": details.compat(),
        "cluster_size_bytes": details.cluster_size_bytes,
        "compression": details.compression.name(),
        "refcount_bits": details.refcount_bits,
        "extended_l2": details.extended_l2,
        "lazy_refcounts": details.lazy_refcounts,
        "dirty": details.dirty,
        "corrupt": details.corrupt,
        "features": details.features,
        "backing_name": details.backing_name,
        "backing_format": details.backing_format_name,
        "data_file": data_file,
        "data_file_raw": details.data_file_raw,
        "snapshots": details.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
        "opened_snapshot": opened.map(|snapshot| snapshot.id.as_str()),
        "bitmaps": details.bitmaps.iter().map(bitmap).collect::<Vec<_>>(),
        "encryption": details.encryption.map(|encryption| json!({
            "format": "luks",
            "unlocked": encryption.is_unlocked,
        })),
    })
}

fn snapshot(snapshot: &Snapshot) -> Value {
    json!({
        "id": snapshot.id,
        "name": snapshot.name,
        "virtual_size_bytes": snapshot.virtual_size_bytes,
        "vm_state_bytes": snapshot.vm_state_bytes,
        "taken_at": time::rfc3339(taken_at(snapshot)),
        "vm_clock_seconds": snapshot.vm_clock.as_secs_f64(),
        "icount": snapshot.icount,
    })
}

/// Returns the JSON object of a dirty bitmap.
pub fn bitmap(bitmap: &Bitmap) -> Value {
    json!({
        "name": bitmap.name,
        "granularity_bytes": bitmap.granularity_bytes,
        "consistent": bitmap.state == BitmapState::Consistent,
        "recording": bitmap.recording,
    })
}

fn partition_table(table: &PartitionTable) -> Value {
    json!({
        "type": table.kind.to_string(),
        "disk_id": table.disk_id,
        "sector_size_bytes": table.sector_size,
        "partitions": table.partitions.iter().map(partition).collect::<Vec<_>>(),
        "warnings": table.warnings,
    })
}

fn partition(partition: &Partition) -> Value {
    let type_id = match &partition.kind {
        PartitionKind::Gpt { type_guid, .. } => type_guid.to_string(),
        PartitionKind::Mbr { type_byte, .. } => format!("0x{type_byte:02x}"),
        PartitionKind::Bsd { fstype } => fstype.to_string(),
        PartitionKind::Sun { tag } => format!("0x{tag:02x}"),
        PartitionKind::Sgi { type_number } => format!("0x{type_number:02x}"),
        PartitionKind::Apple { kind, .. } => kind.clone(),
        _ => String::new(),
    };
    json!({
        "volume": format!("p{}", partition.number),
        "number": partition.number,
        "start_bytes": partition.start_bytes,
        "size_bytes": partition.len_bytes,
        "type": partition.type_name(),
        "type_id": type_id,
        "name": partition.name(),
        "uuid": partition.uuid(),
        "problem": partition.problem.map(|problem| problem.to_string()),
    })
}

fn volume_group(group: &Group) -> Value {
    let metadata = group.metadata();
    let physical = metadata.physical_volumes.iter().map(|entry| {
        json!({
            "uuid": entry.id.to_string(),
            "volume": group.member(&entry.id).map(Volume::name),
            "device": entry.device_hint,
            "was_missing": entry.was_missing,
        })
    });
    json!({
        "name": metadata.name,
        "uuid": metadata.id.to_string(),
        "seqno": metadata.seqno,
        "extent_size_bytes": metadata.extent_bytes,
        "size_bytes": metadata.size_bytes(),
        "free_bytes": metadata.free_bytes(),
        "exported": metadata.exported,
        "physical_volumes": physical.collect::<Vec<_>>(),
    })
}

/// Returns an md array as JSON, or `None` for any other volume.
fn array(report: &VolumeReport) -> Option<Value> {
    let array = report.volume.array()?;
    let metadata = array.metadata();
    let members = array.members().map(|member| member.map(Volume::name));
    Some(json!({
        "volume": report.volume.name(),
        "name": metadata.name,
        "uuid": metadata.id.to_string(),
        "level": metadata.level,
        "members": members.collect::<Vec<_>>(),
    }))
}

/// Returns the LVM metadata of a logical volume as JSON, or `None` for any other volume.
fn logical(report: &VolumeReport) -> Option<Value> {
    let (group, logical) = report.volume.logical()?;
    Some(json!({
        "group": group.metadata().name,
        "name": logical.name,
        "uuid": logical.id.map(|id| id.to_string()),
        "layout": logical.layout,
        "writable": logical.writable && !logical.has_snapshots,
    }))
}

/// Returns the LUKS header of an image whose own data is encrypted.
fn image_luks(disk: &Disk) -> Option<Value> {
    let header = disk.image_luks().ok()??;
    let encryption = disk.description().qcow2.as_ref()?.encryption?;
    Some(luks(&header, encryption.is_unlocked))
}

/// Returns the LUKS header of a volume or an image as JSON.
fn luks(header: &Header, unlocked: bool) -> Value {
    let keyslots = header.keyslots().map(|slot| {
        json!({
            "slot": slot.id,
            "kdf": slot.kdf,
            "problem": slot.problem,
        })
    });
    json!({
        "version": header.version().number(),
        "uuid": header.uuid(),
        "label": header.label(),
        "cipher": header.cipher(),
        "sector_size_bytes": header.sector_size(),
        "keyslots": keyslots.collect::<Vec<_>>(),
        "unlocked": unlocked,
        "problem": header.problem().map(|error| error.to_string()),
        "warnings": header.warnings(),
    })
}

fn volume(report: &VolumeReport) -> Value {
    let volume = &report.volume;
    json!({
        "volume": volume.name(),
        "start_bytes": volume.start_bytes(),
        "size_bytes": volume.size_bytes(),
        "logical": logical(report),
        "luks": report.luks.as_ref().map(|header| luks(header, volume.is_unlocked())),
        "problem": volume.problem(),
        "content": report.content.as_ref().map(|content| content.kind),
        "class": report.content.as_ref().map(|content| content.class.to_string()),
    })
}

/// Returns the contents of a volume as JSON. Volumes with unknown contents are left out.
fn filesystem(report: &VolumeReport) -> Option<Value> {
    let content = report.content.as_ref()?;
    let mut object = Map::new();
    object.insert("volume".to_owned(), report.volume.name().into());
    object.insert("type".to_owned(), content.kind.into());
    object.insert("readable".to_owned(), report.filesystem.is_some().into());
    let (driver, reason) = match &report.driver {
        Some(ChosenDriver::Native) => (Some("native"), None),
        Some(ChosenDriver::Fallback(reason)) => (Some("vm"), Some(reason)),
        Some(ChosenDriver::None(reason)) => (None, Some(reason)),
        _ => (None, None),
    };
    object.insert("driver".to_owned(), driver.into());
    object.insert("driver_reason".to_owned(), reason.cloned().into());
    put_name(&mut object, "label", &content.label);
    object.insert("uuid".to_owned(), content.uuid.clone().into());
    if let Some((identity, usage)) = &report.filesystem {
        object.insert("features".to_owned(), identity.features.clone().into());
        object.insert("notes".to_owned(), identity.notes.clone().into());
        object.extend(self::statistics(usage));
    }
    Some(object.into())
}

/// Returns the time at which a snapshot was taken, as our type of timestamps.
pub fn taken_at(snapshot: &Snapshot) -> Timestamp {
    let since = snapshot
        .taken_at
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// Returns the usage of a filesystem, in the form that all documents share.
pub fn statistics(usage: &Statistics) -> Map<String, Value> {
    let bytes = |blocks: u64| blocks.saturating_mul(usage.block_size.into());
    let used = usage.blocks.saturating_sub(usage.blocks_free);
    let fields = [
        ("size_bytes", bytes(usage.blocks)),
        ("used_bytes", bytes(used)),
        ("free_bytes", bytes(usage.blocks_free)),
        ("available_bytes", bytes(usage.blocks_available)),
        ("block_size_bytes", usage.block_size.into()),
        ("inodes", usage.inodes),
        ("inodes_free", usage.inodes_free),
    ];
    let fields = fields.map(|(name, number)| (name.to_owned(), number.into()));
    fields.into_iter().collect()
}
