//! Creation of a qcow2 image.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use diskfs_block::{BlockRead, BlockWrite, Error, File, Result};

use super::layout::{Allocated, Clusters, Layout};
use super::{
    BackingCheck, Compat, CreateOptions, Created, DataFileLayout, L2Entries, NewBacking,
    NewEncryption, NewFile, NewQcow2, Preallocation, RefcountUpdates, file, whole_sectors,
};
use crate::base::Identity;
use crate::gate::Namer;
use crate::numbers::{power_of_two, shift_right, to_u64, to_usize};
use crate::open::Opener;
use crate::qcow2::encryption_header::EncryptionHeader;
use crate::qcow2::features::{Autoclear, Compatible, Incompatible};
use crate::qcow2::header::{
    CLUSTER_BITS, CLUSTER_BITS_MIN_EXTENDED, NamedBacking, NewHeader, Table,
};
use crate::qcow2::refcounts::counts_of_one;
use crate::qcow2::units::{Geometry, HostOffset, L2Layout};
use crate::qcow2::{l1_entry, l2_entry};
use crate::{Compression, OpenOptions};

pub(super) fn write(
    path: &Path,
    image: &NewQcow2,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(NewFile, Created)> {
    let (mut header, checked) = header(path, image, options.size_bytes, options.preallocation)?;
    let size_bytes = header.size_bytes;
    let plan = Plan::new(image, checked, size_bytes, options.preallocation)?;
    plan.complete(&mut header);
    let header = header.encode()?;
    let file = NewFile::begin(path, options.existing)?;
    if let Some(data_file) = &image.data_file {
        create_data_file(path, &data_file.name, size_bytes, options, progress)?;
    }
    let layout = &plan.layout;
    file.set_len(layout.len_bytes())?;
    let (data, len) = (layout.data, layout.data.len_bytes(layout.geometry));
    file.preallocate(
        data.offset(layout.geometry),
        len,
        options.preallocation,
        progress,
    )?;
    plan.write_tables(&file.device()?)?;
    if let Some(encryption) = &image.encryption {
        let at = layout.luks.offset(layout.geometry);
        file.device()?.write_at(at, &encryption.header)?;
    }
    file.device()?.write_at(0, &header)?;
    let created = Created {
        virtual_size_bytes: size_bytes,
        file_size_bytes: layout.len_bytes(),
    };
    Ok((file, created))
}

/// Returns the header of a new image that is not encrypted, without the places of its tables.
///
/// # Errors
/// `Invalid` for options that cannot be combined, and for a disk that is too large; the errors of
/// the gate.
pub(crate) fn new_header(path: &Path, image: &NewQcow2, size_bytes: u64) -> Result<NewHeader> {
    if image.encryption.is_some() {
        return Err(Error::invalid(
            "an encrypted image cannot be written in one pass",
        ));
    }
    let (header, checked) = header(path, image, Some(size_bytes), Preallocation::Off)?;
    let (geometry, order) = (checked.geometry, checked.refcount_order);
    Layout::new(geometry, order, header.size_bytes, Allocated::Nothing, 0)?;
    Ok(header)
}

/// Returns the size of a new image's file with everything allocated.
///
/// # Errors
/// As for [`new_header`].
pub(crate) fn fully_allocated_bytes(image: &NewQcow2, size_bytes: u64) -> Result<u64> {
    let Checked {
        geometry,
        refcount_order,
    } = Checked::new(image, Preallocation::Off)?;
    let size_bytes = whole_sectors(size_bytes)?;
    let luks_bytes = luks_bytes(image);
    let layout = Layout::new(
        geometry,
        refcount_order,
        size_bytes,
        Allocated::Everything,
        luks_bytes,
    )?;
    Ok(layout.len_bytes())
}

fn header(
    path: &Path,
    image: &NewQcow2,
    size_bytes: Option<u64>,
    preallocation: Preallocation,
) -> Result<(NewHeader, Checked)> {
    /// The place of a table that has none yet.
    const NO_TABLE: Table = Table {
        at: HostOffset(0),
        entries: 0,
    };
    let checked = Checked::new(image, preallocation)?;
    let base = image
        .backing
        .as_ref()
        .map(|backing| open_backing(path, backing));
    let base = base.transpose()?.flatten();
    let data_file = image.data_file.as_ref();
    let header = NewHeader {
        version: match image.compat {
            Compat::V0_10 => 2,
            Compat::V1_1 => 3,
        },
        geometry: checked.geometry,
        size_bytes: size(size_bytes, base.and_then(|base| base.size_bytes))?,
        l1: NO_TABLE,
        refcount_table: NO_TABLE,
        refcount_order: checked.refcount_order,
        incompatible: incompatible(image),
        compatible: Compatible(flag(
            image.refcounts == RefcountUpdates::Lazy,
            Compatible::LAZY_REFCOUNTS,
        )),
        autoclear: Autoclear(flag(
            data_file.is_some_and(|file| file.layout == DataFileLayout::Raw),
            Autoclear::RAW_EXTERNAL_DATA,
        )),
        compression: image.compression,
        backing: image.backing.as_ref().map(|backing| NamedBacking {
            name: backing.name.as_os_str().as_bytes().to_vec(),
            format: backing.format.qemu_name(),
            identity: base.and_then(|base| base.identity),
        }),
        data_file: data_file.map(|file| file.name.as_os_str().as_bytes().to_vec()),
        encryption: None,
    };
    Ok((header, checked))
}

fn luks_bytes(image: &NewQcow2) -> u64 {
    image
        .encryption
        .as_ref()
        .map_or(0, NewEncryption::len_bytes)
}

const fn flag(wanted: bool, bit: u64) -> u64 {
    if wanted { bit } else { 0 }
}

fn incompatible(image: &NewQcow2) -> Incompatible {
    let zstd = image.compression != Compression::Zlib;
    let extended = image.l2_entries == L2Entries::Extended;
    Incompatible(
        flag(image.data_file.is_some(), Incompatible::EXTERNAL_DATA_FILE)
            | flag(zstd, Incompatible::COMPRESSION_TYPE)
            | flag(extended, Incompatible::EXTENDED_L2),
    )
}

/// Options that were checked for consistency.
#[derive(Debug, Clone, Copy)]
struct Checked {
    geometry: Geometry,
    refcount_order: u32,
}

impl Checked {
    fn new(image: &NewQcow2, preallocation: Preallocation) -> Result<Self> {
        check_version(image)?;
        check_together(image, preallocation)?;
        Ok(Self {
            geometry: geometry(image)?,
            refcount_order: refcount_order(image)?,
        })
    }
}

fn geometry(image: &NewQcow2) -> Result<Geometry> {
    let (layout, min_bits) = match image.l2_entries {
        L2Entries::Standard => (L2Layout::Standard, *CLUSTER_BITS.start()),
        L2Entries::Extended => (L2Layout::Extended, CLUSTER_BITS_MIN_EXTENDED),
    };
    let size = image.cluster_size_bytes;
    let bits = size.trailing_zeros();
    if !size.is_power_of_two() || !(min_bits..=*CLUSTER_BITS.end()).contains(&bits) {
        let reason = format!(
            "invalid cluster size {size}: expected a power of two from {} to 2M{}",
            power_of_two(min_bits),
            if image.l2_entries == L2Entries::Extended {
                " with extended_l2"
            } else {
                ""
            }
        );
        return Err(Error::invalid(reason));
    }
    Ok(Geometry::new(bits, layout))
}

fn refcount_order(image: &NewQcow2) -> Result<u32> {
    let bits = image.refcount_bits;
    if !bits.is_power_of_two() || bits > 64 {
        let reason = format!("invalid refcount width {bits}: expected a power of two from 1 to 64");
        return Err(Error::invalid(reason));
    }
    Ok(bits.trailing_zeros())
}

/// Refuses features of version 3 in an image of version 2.
fn check_version(image: &NewQcow2) -> Result<()> {
    let newer = [
        (image.refcount_bits != 16, "refcount_bits other than 16"),
        (image.l2_entries == L2Entries::Extended, "extended_l2"),
        (image.refcounts == RefcountUpdates::Lazy, "lazy_refcounts"),
        (
            image.compression != Compression::Zlib,
            "compression_type=zstd",
        ),
        (image.data_file.is_some(), "data_file"),
    ];
    match newer
        .iter()
        .find(|(wanted, _)| *wanted && image.compat == Compat::V0_10)
    {
        Some((_, what)) => {
            let reason = format!("{what} is not supported by compat=0.10; use compat=1.1");
            Err(Error::invalid(reason))
        }
        None => Ok(()),
    }
}

fn check_together(image: &NewQcow2, preallocation: Preallocation) -> Result<()> {
    let raw_data = image
        .data_file
        .as_ref()
        .is_some_and(|file| file.layout == DataFileLayout::Raw);
    let wrong = |reason: &'static str| Err(Error::invalid(reason));
    match &image.backing {
        _ if raw_data && image.encryption.is_some() => {
            wrong("a raw data file is readable by itself; it cannot be combined with encryption")
        }
        Some(_) if raw_data => {
            wrong("a raw data file holds the whole disk; it cannot be combined with a backing file")
        }
        // Allocated clusters hide the backing file, except where their subclusters are unallocated.
        Some(_)
            if preallocation != Preallocation::Off && image.l2_entries == L2Entries::Standard =>
        {
            wrong(
                "preallocation would hide the backing file; use extended_l2=on, which avoids that",
            )
        }
        _ => Ok(()),
    }
}

/// Returns the requested size, or the backing file's.
fn size(wanted: Option<u64>, backing: Option<u64>) -> Result<u64> {
    let size = wanted.or(backing).ok_or_else(|| {
        Error::invalid("missing size").with_hint("give one, or a backing file whose size is used")
    })?;
    whole_sectors(size)
}

/// An opened backing file.
#[derive(Debug, Clone, Copy)]
struct Base {
    /// The size, if the file was opened here.
    size_bytes: Option<u64>,
    identity: Option<Identity>,
}

/// Returns the backing file as far as it may be looked at. It is opened in the same way as opening
/// the new image will.
fn open_backing(path: &Path, backing: &NewBacking) -> Result<Option<Base>> {
    let identity = || Identity::of_file(&file::directory_of(path).join(&backing.name));
    let gate = match &backing.check {
        BackingCheck::Open(gate) | BackingCheck::OpenUnrecorded(gate) => gate,
        BackingCheck::ByCaller => {
            return Ok(Some(Base {
                size_bytes: None,
                identity: identity(),
            }));
        }
        BackingCheck::Remote {
            version,
            file_size_bytes,
        } => {
            let version = version.as_deref();
            return Ok(Some(Base {
                size_bytes: None,
                identity: version.map(|version| Identity::of_version(version, *file_size_bytes)),
            }));
        }
        BackingCheck::Skip => return Ok(None),
    };
    let options = OpenOptions {
        gate: gate.clone(),
        ..OpenOptions::default()
    };
    let name = backing.name.as_os_str().as_bytes();
    let namer = Namer {
        path,
        owner: Some(rustix::process::geteuid().as_raw()),
    };
    let (node, _) = *Opener::new(&options)?.open_as_backing(namer, name, backing.format)?;
    Ok(Some(Base {
        size_bytes: Some(node.size_bytes()),
        identity: match &backing.check {
            BackingCheck::OpenUnrecorded(_) => None,
            _ => identity(),
        },
    }))
}

/// Creates the data file under the name by which the image will look for it.
fn create_data_file(
    image: &Path,
    name: &Path,
    size_bytes: u64,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let path = file::directory_of(image).join(name);
    let in_place = |e: Error| e.in_file(&path);
    let file = NewFile::begin(&path, options.existing).map_err(in_place)?;
    file.set_len(size_bytes).map_err(in_place)?;
    file.preallocate(0, size_bytes, options.preallocation, progress)
        .map_err(in_place)?;
    file.finish().map_err(in_place)
}

/// The values and offsets of everything to write.
struct Plan {
    layout: Layout,
    /// The subcluster bits of preallocated clusters: the second half of an extended entry.
    subclusters: u64,
    size_bytes: u64,
    data: Data,
    /// The length of the LUKS header; zero without encryption.
    luks_bytes: u64,
}

/// The location of a preallocated cluster's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    Inside,
    /// The data file, at the guest's own offset.
    Outside,
}

/// The bits for 32 allocated subclusters.
const ALL_STORED: u64 = 0xffff_ffff;

impl Plan {
    fn new(
        image: &NewQcow2,
        checked: Checked,
        size_bytes: u64,
        preallocation: Preallocation,
    ) -> Result<Self> {
        let layout = image.data_file.as_ref().map(|file| file.layout);
        let data = match layout {
            Some(_) => Data::Outside,
            None => Data::Inside,
        };
        let allocated = match (layout, preallocation) {
            // Without tables, the contents of the data file would not be the guest's.
            (Some(DataFileLayout::Raw), _) => Allocated::Tables,
            (_, Preallocation::Off) => Allocated::Nothing,
            (Some(DataFileLayout::Private), _) => Allocated::Tables,
            (None, _) => Allocated::Everything,
        };
        Ok(Self {
            layout: Layout::new(
                checked.geometry,
                checked.refcount_order,
                size_bytes,
                allocated,
                luks_bytes(image),
            )?,
            // The subclusters are unallocated, so that the backing file shows through; a raw data
            // file is always valid.
            subclusters: if layout == Some(DataFileLayout::Raw) {
                ALL_STORED
            } else {
                0
            },
            size_bytes,
            data,
            luks_bytes: luks_bytes(image),
        })
    }

    /// Sets the places of the tables.
    fn complete(&self, header: &mut NewHeader) {
        let layout = &self.layout;
        let at = |clusters: Clusters| HostOffset(clusters.offset(layout.geometry));
        header.l1 = Table {
            at: at(layout.l1),
            entries: layout.l1_entries,
        };
        header.encryption = (self.luks_bytes > 0).then(|| EncryptionHeader {
            at: at(layout.luks),
            size_bytes: self.luks_bytes,
        });
        header.refcount_table = Table {
            at: at(layout.refcount_table),
            entries: layout.refcount_table.len_bytes(layout.geometry) / 8,
        };
    }

    /// Writes everything but the header.
    fn write_tables(&self, file: &File) -> Result<()> {
        let layout = &self.layout;
        let geometry = layout.geometry;
        let blocks = entries(layout.refcount_blocks, geometry, |at| at.0);
        file.write_at(layout.refcount_table.offset(geometry), &blocks)?;
        self.write_counts(file)?;
        let tables = entries(layout.l2, geometry, l1_entry::entry_for);
        file.write_at(layout.l1.offset(geometry), &tables)?;
        (0..layout.l2.count).try_for_each(|index| self.write_l2_table(file, index))
    }

    /// Writes the refcounts in pieces, because those of a large preallocated disk do not fit in
    /// memory.
    fn write_counts(&self, file: &File) -> Result<()> {
        /// The number of refcounts to write at once, a multiple of the refcounts in a byte.
        const PIECE: u64 = 1 << 17;
        let layout = &self.layout;
        let mut at = layout.refcount_blocks.offset(layout.geometry);
        let mut left = layout.clusters();
        while left > 0 {
            let counts = counts_of_one(left.min(PIECE), layout.refcount_order);
            file.write_at(at, &counts)?;
            at = at.saturating_add(to_u64(counts.len()));
            left = left.saturating_sub(PIECE);
        }
        Ok(())
    }

    fn write_l2_table(&self, file: &File, index: u64) -> Result<()> {
        let geometry = self.layout.geometry;
        let cluster_size = geometry.cluster_size();
        let guest_clusters = self.size_bytes.div_ceil(cluster_size);
        let per_table = shift_right(geometry.l1_coverage(), geometry.cluster_bits());
        let first = index.saturating_mul(per_table);
        let last = first.saturating_add(per_table).min(guest_clusters);
        let data_at = match self.data {
            Data::Inside => self.layout.data.offset(geometry),
            Data::Outside => 0,
        };
        let mut table = Vec::with_capacity(to_usize(cluster_size));
        for cluster in first..last {
            let host = data_at.saturating_add(cluster.saturating_mul(cluster_size));
            table.extend_from_slice(&l2_entry::descriptor_for(HostOffset(host)).to_be_bytes());
            if geometry.layout() == L2Layout::Extended {
                table.extend_from_slice(&self.subclusters.to_be_bytes());
            }
        }
        debug_assert!(
            to_u64(table.len()) <= cluster_size,
            "a table is one cluster"
        );
        let at = self.layout.l2.offset(geometry);
        file.write_at(
            at.saturating_add(index.saturating_mul(cluster_size)),
            &table,
        )
    }
}

/// Returns the table entries for consecutive clusters.
fn entries(clusters: Clusters, geometry: Geometry, entry: impl Fn(HostOffset) -> u64) -> Vec<u8> {
    let start = clusters.offset(geometry);
    (0..clusters.count)
        .map(|index| start.saturating_add(index.saturating_mul(geometry.cluster_size())))
        .flat_map(|at| entry(HostOffset(at)).to_be_bytes())
        .collect()
}
