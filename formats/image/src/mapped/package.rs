//! The disk of a package: of an archive (OVA), or of an envelope beside its files (OVF).

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, Result};
use diskfs_ova::{Disk, Envelope, Ova, is_tar, percent_decoded};

use crate::description::PackagedDisk;
use crate::mapped::MapImage;
use crate::probe::head_of;

/// The largest number of disks that an error lists.
const LISTED_MAX: usize = 20;

/// Opens the only disk of a package, or the one with this name.
pub(super) fn open(file: Arc<dyn BlockRead>, wanted: Option<&str>) -> Result<MapImage> {
    if !is_tar(&head_of(file.as_ref())?) {
        return ovf(file, wanted);
    }
    let ova = Ova::open(file)?;
    let disk = choose(ova.disks(), wanted)?;
    let device = ova.device(disk)?.ok_or_else(no_disk)?;
    let start_bytes = device.start_bytes();
    let image = MapImage::whole_vmdk(Arc::new(device));
    let mut image = image.map_err(|e| e.in_file(name_of(disk)))?;
    image.rules.start_bytes = start_bytes;
    image.details.disks = list(ova.disks(), disk);
    Ok(image)
}

fn ovf(file: Arc<dyn BlockRead>, wanted: Option<&str>) -> Result<MapImage> {
    let envelope = Envelope::read(file.as_ref())?;
    let disk = choose(&envelope.disks, wanted)?;
    disk.file.as_ref().ok_or_else(no_disk)?.check_encoding()?;
    let mut image = MapImage::packaged(file, name_of(disk));
    image.details.disks = list(&envelope.disks, disk);
    Ok(image)
}

/// Returns the disk with this name or identifier; without one, the only disk.
fn choose<'a>(disks: &'a [Disk], wanted: Option<&str>) -> Result<&'a Disk> {
    let stored = || disks.iter().filter(|disk| disk.file.is_some());
    let Some(wanted) = wanted else {
        let first = stored().next().ok_or_else(no_disk)?;
        return match stored().count() {
            1 => Ok(first),
            count => Err(ambiguous(disks, first, count)),
        };
    };
    let is_named = |disk: &&Disk| name_of(disk) == wanted || disk.file_name() == Some(wanted);
    let has_id = |disk: &&Disk| disk.id == wanted;
    let found = stored().find(is_named).or_else(|| stored().find(has_id));
    found.ok_or_else(|| {
        let reason = format!(
            "no such disk: `{}`; the package has {}",
            wanted.escape_debug(),
            names(disks)
        );
        Error::new(ErrorKind::NotFound, reason)
    })
}

fn ambiguous(disks: &[Disk], first: &Disk, count: usize) -> Error {
    let reason = format!("the package has {count} disks: {}", names(disks));
    let name = name_of(first).replace(',', ",,");
    Error::invalid(reason).with_hint(format!(
        "name one after the package, as in `,disk={}`",
        name.escape_debug()
    ))
}

/// Returns the names of the disks that have a file, with their sizes.
fn names(disks: &[Disk]) -> String {
    let stored = || disks.iter().filter(|disk| disk.file.is_some());
    let listed = stored().take(LISTED_MAX).map(|disk| {
        let name = name_of(disk);
        let size = disk.capacity_bytes;
        let size = size.map(|bytes| format!(" ({bytes} bytes)"));
        format!("`{}`{}", name.escape_debug(), size.unwrap_or_default())
    });
    let mut listed: Vec<String> = listed.collect();
    let more = stored().count().saturating_sub(LISTED_MAX);
    if more > 0 {
        listed.push(format!("{more} others"));
    }
    if listed.is_empty() {
        return "no disk".to_owned();
    }
    listed.join(", ")
}

/// Returns the disks that have a file, for the description of the package.
fn list(disks: &[Disk], open: &Disk) -> Vec<PackagedDisk> {
    let stored = disks.iter().filter(|disk| disk.file.is_some());
    let entry = |disk| PackagedDisk {
        name: name_of(disk),
        id: disk.id.clone(),
        capacity_bytes: disk.capacity_bytes,
        is_open: std::ptr::eq(disk, open),
    };
    stored.map(entry).collect()
}

/// Returns the name of the file of a disk.
fn name_of(disk: &Disk) -> String {
    let href = disk.file_name().unwrap_or_default();
    percent_decoded(href).unwrap_or_else(|| href.to_owned())
}

fn no_disk() -> Error {
    Error::unsupported("the OVA has no disk")
}
