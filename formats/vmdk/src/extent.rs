//! The extents of an open disk.

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, MappedRun, Result, RunStorage};

use crate::descriptor::{ExtentDescriptor, ExtentType};
use crate::grain_map::GrainMap;
use crate::sectors::to_bytes;
use crate::tables::Tables;

/// An extent at its place on the disk.
#[derive(Debug)]
pub(crate) struct Extent {
    /// The offset on the disk.
    pub(crate) start: u64,
    /// The size in bytes; never zero.
    pub(crate) len_bytes: u64,
    pub(crate) storage: Storage,
}

/// The storage of an extent.
#[derive(Debug)]
pub(crate) enum Storage {
    Zero,
    Flat {
        file: usize,
        device: Arc<dyn BlockRead>,
        /// The byte of the file at which the extent begins.
        offset: u64,
    },
    Sparse(GrainMap),
}

impl Storage {
    /// Opens an extent that is described by a descriptor file.
    ///
    /// # Errors
    /// `Corrupt` if a sparse extent has another size than the descriptor states.
    pub(crate) fn open(
        extent: &ExtentDescriptor,
        file: usize,
        device: Arc<dyn BlockRead>,
    ) -> Result<Self> {
        match extent.extent_type {
            ExtentType::Flat | ExtentType::Vmfs => Ok(Self::Flat {
                file,
                device,
                offset: to_bytes(extent.offset_sectors, "extent offset", 0)?,
            }),
            ExtentType::Sparse | ExtentType::VmfsSparse | ExtentType::SeSparse => {
                let map = GrainMap::open(file, device)?;
                check_size(extent, &map)?;
                Ok(Self::Sparse(map))
            }
            ExtentType::Zero => Ok(Self::Zero),
            ExtentType::VmfsRdm | ExtentType::VmfsRaw => {
                Err(Error::unsupported("unsupported extent: a device"))
            }
        }
    }

    /// Returns the run at `offset` of the extent.
    pub(crate) fn run_at(&self, tables: &Tables, offset: u64, max_len: u64) -> Result<MappedRun> {
        match self {
            Self::Zero => Ok(MappedRun {
                len_bytes: max_len,
                storage: RunStorage::Zero,
            }),
            Self::Flat {
                file,
                device,
                offset: start,
            } => flat_run(*file, &**device, start.saturating_add(offset), max_len),
            Self::Sparse(map) => map.run_at(tables, offset, max_len),
        }
    }
}

/// Returns a run of a flat extent. Bytes that the file lacks are an error: zeroes in place of a
/// guest's data are worse.
fn flat_run(file: usize, device: &dyn BlockRead, offset: u64, max_len: u64) -> Result<MappedRun> {
    let left = device.size_bytes().saturating_sub(offset);
    if left == 0 {
        let reason = "the file of a flat extent is shorter than its descriptor states";
        return Err(Error::corrupt(reason).at(offset));
    }
    Ok(MappedRun {
        len_bytes: max_len.min(left),
        storage: RunStorage::Stored { file, offset },
    })
}

/// Checks the size of a sparse extent. Its header may round the size up to a grain.
fn check_size(extent: &ExtentDescriptor, map: &GrainMap) -> Result<()> {
    let stated = to_bytes(extent.sectors, "extent size", 0)?;
    let stored = map.layout.capacity_bytes;
    let excess = stored.checked_sub(stated);
    if excess.is_some_and(|it| it < map.layout.grain_bytes.get()) {
        return Ok(());
    }
    let reason =
        format!("the extent has {stored} bytes, but the descriptor of the disk states {stated}");
    Err(Error::corrupt(reason).at(0))
}
