//! LVM2 volume groups.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Overlay, Slice};
use diskfs_volume::edit::NewSize;
use diskfs_volume::lvm::{
    LogicalVolume, LvmId, MetadataOrigin, NewVolume, PhysicalVolume, PvEntry, VolumeGroup,
    volume_groups,
};
use diskfs_volume::read_table;

use crate::volume::{read_some, write_some};
use crate::{Sparse, persistent};

/// Devices that may be physical volumes, with their offsets.
pub(crate) type Places = Vec<(u64, Arc<dyn BlockRead>)>;

/// The maximum number of volumes of a group to write to, and to change.
const MAX_WRITTEN: usize = 24;

/// The maximum size of the changes to a mutated image in memory: headers and blocks of metadata.
pub(crate) const SEALED_BYTES: u64 = 16 << 20;

/// Reads the volume groups on the device and its partitions, with corrected checksums, which
/// mutations never hit.
pub(crate) fn groups(device: &Arc<dyn BlockRead>) {
    let sealed = Arc::new(Overlay::in_memory(Arc::clone(device), SEALED_BYTES));
    let whole: Arc<dyn BlockRead> = sealed.clone();
    let places = places(&whole, 8);
    for (start, place) in &places {
        for sector in 0..4 {
            // Structures that are outside of the device or invalid cannot be sealed.
            let _ = seal(&*sealed, *start, start + sector * 512, place.size_bytes());
        }
    }
    let physical: Vec<_> = places
        .iter()
        .filter_map(|(_, place)| Some((PhysicalVolume::read(&**place).ok()??, place)))
        .collect();
    let starts: Vec<_> = places
        .iter()
        .filter_map(|(start, place)| Some((PhysicalVolume::read(&**place).ok()??, *start)))
        .collect();
    for group in volume_groups(physical.iter().map(|(read, _)| read)) {
        seal_pools(&group, &starts, &sealed);
        follow(&group, &physical);
        write(&group, &starts, &sealed);
        edit(&group, &starts, &sealed);
    }
}

/// Returns the device and up to `partitions` of its partitions.
pub(crate) fn places(whole: &Arc<dyn BlockRead>, partitions: usize) -> Places {
    let mut places = vec![(0, Arc::clone(whole))];
    if let Ok(Some(table)) = read_table(&**whole) {
        for partition in table.partitions.iter().take(partitions) {
            if let Ok(slice) = partition.open(Arc::clone(whole)) {
                let slice: Slice = slice;
                places.push((partition.start_bytes, Arc::new(slice)));
            }
        }
    }
    places
}

/// Corrects the checksums in the metadata of thin pools and caches.
fn seal_pools(group: &VolumeGroup, physical: &[(PhysicalVolume, u64)], sealed: &Arc<Overlay>) {
    let ends = ["_tmeta", "_cmeta", "_cvol"];
    let volumes = group.logical_volumes.iter();
    for volume in volumes.filter(|volume| ends.iter().any(|end| volume.name.ends_with(end))) {
        if let Ok(opened) = group.open_writable(volume, &|entry| find(entry, physical, sealed)) {
            persistent::seal(&opened);
        }
    }
}

/// Returns the device of a physical volume.
fn find(
    entry: &PvEntry,
    physical: &[(PhysicalVolume, u64)],
    sealed: &Arc<Overlay>,
) -> diskfs_block::Result<Option<Arc<Slice<Overlay>>>> {
    let found = physical.iter().find(|(read, _)| read.id == entry.id);
    let slice = found.map(|(_, start)| {
        let len_bytes = sealed.size_bytes().saturating_sub(*start);
        Slice::new(Arc::clone(sealed), *start, len_bytes)
    });
    Ok(slice.transpose()?.map(Arc::new))
}

/// Returns some volumes that are not parts of others.
fn some(group: &VolumeGroup) -> impl Iterator<Item = &LogicalVolume> {
    let volumes = group.logical_volumes.iter();
    volumes.filter(|volume| volume.visible).take(MAX_WRITTEN)
}

/// Writes to the volumes.
fn write(group: &VolumeGroup, physical: &[(PhysicalVolume, u64)], sealed: &Arc<Overlay>) {
    for volume in some(group) {
        let opened = group.open_writable(volume, &|entry| find(entry, physical, sealed));
        if let Ok(opened) = opened {
            write_some(&opened);
        }
    }
}

/// Changes the group in memory, and writes it.
fn edit(group: &VolumeGroup, physical: &[(PhysicalVolume, u64)], sealed: &Arc<Overlay>) {
    let find = |entry: &PvEntry| find(entry, physical, sealed);
    let reading = |entry: &PvEntry| Ok(find(entry)?.map(|slice| slice as Arc<dyn BlockRead>));
    let Ok(mut editor) = group.editor(&reading) else {
        return;
    };
    let _ = (group.size_bytes(), editor.free_bytes(), editor.is_changed());
    let _ = editor.set_origin(MetadataOrigin {
        time_seconds: 1,
        host: "host".to_owned(),
        description: "fuzz".to_owned(),
    });
    for volume in some(group) {
        let _ = editor.reduce(&volume.name, volume.size_bytes / 2);
        let _ = editor.extend(&volume.name, NewSize::More(1 << 20));
    }
    let _ = editor.add(&NewVolume {
        name: "new".to_owned(),
        id: LvmId::from_random([7; 32]),
        size: NewSize::More(1),
    });
    let _ = (editor.grow_physical_volumes(), editor.check());
    for entry in group.physical_volumes.iter().take(4) {
        let least = editor.least_device_bytes(&entry.id).unwrap_or(0);
        let _ = editor.shrink_physical_volume(&entry.id, least);
    }
    let _ = editor.group().free_bytes();
    let _ = editor.write(&|entry| Ok(find(entry)?.map(|slice| slice as Arc<dyn BlockWrite>)));
}

fn follow(group: &VolumeGroup, physical: &[(PhysicalVolume, &Arc<dyn BlockRead>)]) {
    let is_there = |id: &_| physical.iter().any(|(read, _)| read.id == *id);
    for volume in &group.logical_volumes {
        let _ = group.missing_for(volume, &is_there);
        let opened = group.open(volume, &|entry| {
            let found = physical.iter().find(|(read, _)| read.id == entry.id);
            Ok(found.map(|(_, place)| Arc::clone(place)))
        });
        if let Ok(opened) = opened {
            read_some(&opened);
        }
    }
}

/// Returns the group with segments of the types `zero` and `error`, which no command makes without
/// device-mapper, instead of those on disks.
pub(crate) fn without_areas(image: &Sparse) -> Sparse {
    const STORED: &[u8] = b"\"striped\"";
    let mut changed = image.clone();
    let types = [b"\"zero\"   ", b"\"error\"  "];
    let mut types = types.iter().cycle();
    for block in image.block_offsets() {
        let bytes: Vec<u8> = (block..block + 4096).map(|at| image.byte(at)).collect();
        for (at, window) in (block..).zip(bytes.windows(STORED.len())) {
            if window == STORED
                && let Some(other) = types.next()
            {
                changed.write(at, *other);
            }
        }
    }
    changed
}

/// Computes LVM's checksum.
fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!0xf597_a6cf);
    hasher.update(bytes);
    !hasher.finalize()
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Corrects the checksums of the label in a sector, of its first metadata areas and their texts.
fn seal(
    device: &dyn BlockWrite,
    start: u64,
    sector: u64,
    size_bytes: u64,
) -> diskfs_block::Result<()> {
    let mut label = vec![0; 512];
    device.read_at(sector, &mut label)?;
    if !label.starts_with(b"LABELONE") {
        return Ok(());
    }
    // One data area, then the metadata areas, as the tools write them.
    for at in [104, 120] {
        let area = number(&label, at);
        if area != 0 && area < size_bytes {
            // Broken areas are valid input, too.
            let _ = seal_area(device, start + area);
        }
    }
    let sum = crc(&label[20..]);
    label[16..20].copy_from_slice(&sum.to_le_bytes());
    device.write_at(sector, &label)
}

fn seal_area(device: &dyn BlockWrite, area: u64) -> diskfs_block::Result<()> {
    let mut header = vec![0; 512];
    device.read_at(area, &mut header)?;
    let [size, at, len] = [32, 40, 48].map(|field| number(&header, field));
    if len <= 1 << 20 && at <= size {
        let first = len.min(size - at);
        let mut text = vec![0; usize::try_from(len).unwrap_or(0)];
        let (one, two) = text.split_at_mut(usize::try_from(first).unwrap_or(0));
        device.read_at(area.saturating_add(at), one)?;
        device.read_at(area.saturating_add(512), two)?;
        header[56..60].copy_from_slice(&crc(&text).to_le_bytes());
    }
    let sum = crc(&header[4..]);
    header[..4].copy_from_slice(&sum.to_le_bytes());
    device.write_at(area, &header)
}
