//! An open disk.

use std::collections::HashMap;
use std::sync::Arc;

use diskfs_block::{BlockRead, CompressedUnit, Error, ImageMap, MappedRun, Result, check_bounds};

use crate::descriptor::{Descriptor, DescriptorPlace};
use crate::extent::{Extent, Storage};
use crate::grain_map::GrainMap;
use crate::inflate::Inflater;
use crate::sectors::to_bytes;
use crate::tables::Tables;

/// A VMDK disk: the map from the guest's disk to the files of the image.
///
/// File 0 is the image. The others are those of [`Descriptor::extent_files`], in their order.
#[derive(Debug)]
pub struct Vmdk {
    descriptor: Descriptor,
    /// The extents in the order of the disk, without gaps.
    pub(crate) extents: Vec<Extent>,
    size_bytes: u64,
    tables: Tables,
    inflater: Inflater,
}

impl Vmdk {
    /// Opens a disk: `image` is the descriptor file or the single sparse file, and `files` are
    /// those that [`Descriptor::extent_files`] names, in the same order.
    ///
    /// # Errors
    /// `Invalid` for another number of files; `Unsupported` for devices and unknown features, by
    /// name; `Corrupt` with the byte of the file.
    pub fn open(image: Arc<dyn BlockRead>, files: &[Arc<dyn BlockRead>]) -> Result<Self> {
        let descriptor = Descriptor::read(&*image)?;
        check_files(&descriptor, files.len())?;
        let extents = match descriptor.place {
            DescriptorPlace::Embedded => embedded(image)?,
            DescriptorPlace::File => of_descriptor(&descriptor, files)?,
        };
        let end = extents
            .last()
            .map(|it| it.start.saturating_add(it.len_bytes));
        Ok(Self {
            descriptor,
            extents,
            size_bytes: end.unwrap_or(0),
            tables: Tables::new(),
            inflater: Inflater::default(),
        })
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns the size of a grain in bytes, if all extents are sparse with the same one.
    pub fn grain_bytes(&self) -> Option<u64> {
        let mut sizes = self.extents.iter().map(|it| match &it.storage {
            Storage::Sparse(map) => Some(map.layout.grain_bytes.get()),
            _ => None,
        });
        let first = sizes.next()??;
        sizes.all(|it| it == Some(first)).then_some(first)
    }

    /// Returns true if an extent is compressed.
    pub fn is_compressed(&self) -> bool {
        let is_compressed = |it: &Extent| match &it.storage {
            Storage::Sparse(map) => map.layout.compression.is_some(),
            _ => false,
        };
        self.extents.iter().any(is_compressed)
    }

    /// Returns the extent with a byte of the disk.
    fn extent(&self, offset: u64) -> Option<&Extent> {
        let after = self.extents.partition_point(|it| it.start <= offset);
        after.checked_sub(1).and_then(|it| self.extents.get(it))
    }

    /// Adds the name of the extent's file to an error.
    fn named(&self, file: usize, e: Error) -> Error {
        let names = self.descriptor.extent_files().unwrap_or_default();
        let name = file.checked_sub(1).and_then(|it| names.get(it));
        match name {
            Some(name) => e.in_file(name),
            None => e,
        }
    }
}

impl ImageMap for Vmdk {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        check_bounds(offset, max_len.max(1), self.size_bytes)?;
        let extent = self.extent(offset);
        let extent = extent.ok_or_else(|| Error::invalid("no extent has the byte").at(offset))?;
        let skip_bytes = offset.saturating_sub(extent.start);
        let left = extent.len_bytes.saturating_sub(skip_bytes);
        let run = extent
            .storage
            .run_at(&self.tables, skip_bytes, max_len.min(left));
        run.map_err(|e| self.named(extent.file(), e))
    }

    fn decompress(&self, unit: CompressedUnit) -> Result<Arc<[u8]>> {
        let map = self.extents.iter().find_map(|it| match &it.storage {
            Storage::Sparse(map) if map.file == unit.file => Some(map),
            _ => None,
        });
        let map = map.filter(|it| it.layout.compression.is_some());
        let map = map.ok_or_else(|| Error::invalid("the extent is not compressed"))?;
        let grain = map.decompress(&self.tables, &self.inflater, unit);
        grain.map_err(|e| self.named(unit.file, e))
    }
}

impl Extent {
    /// Returns the number of the extent's file; 0 if it has none.
    fn file(&self) -> usize {
        match &self.storage {
            Storage::Zero => 0,
            Storage::Flat { file, .. } => *file,
            Storage::Sparse(map) => map.file,
        }
    }
}

fn check_files(descriptor: &Descriptor, given: usize) -> Result<()> {
    let wanted = descriptor.extent_files()?.len();
    if wanted == given {
        return Ok(());
    }
    let reason = format!("the disk has {wanted} extent files, but {given} were given");
    Err(Error::invalid(reason))
}

/// Returns the extents of a sparse file with a descriptor. The header's size counts, as in QEMU.
fn embedded(image: Arc<dyn BlockRead>) -> Result<Vec<Extent>> {
    let map = GrainMap::open(0, image)?;
    let len_bytes = map.layout.capacity_bytes;
    if len_bytes == 0 {
        return Ok(Vec::new());
    }
    Ok(vec![Extent {
        start: 0,
        len_bytes,
        storage: Storage::Sparse(map),
    }])
}

/// Returns the extents of a descriptor file, in their order.
fn of_descriptor(descriptor: &Descriptor, files: &[Arc<dyn BlockRead>]) -> Result<Vec<Extent>> {
    let names = descriptor.extent_files()?;
    let numbers: HashMap<_, _> = names.iter().copied().zip(0..).collect();
    let mut extents = Vec::new();
    let mut start = 0_u64;
    for extent in descriptor.extents.iter().filter(|it| it.sectors > 0) {
        let len_bytes = to_bytes(extent.sectors, "extent size", 0)?;
        let name = extent.file_name.as_deref();
        let number: Option<usize> = name.and_then(|it| numbers.get(it).copied());
        let device = number.and_then(|it| files.get(it));
        let storage = match (number, device) {
            (Some(number), Some(device)) => {
                let file = number.saturating_add(1);
                Storage::open(extent, file, Arc::clone(device))
                    .map_err(|e| e.in_file(name.unwrap_or_default()))?
            }
            _ => Storage::Zero,
        };
        extents.push(Extent {
            start,
            len_bytes,
            storage,
        });
        start = start
            .checked_add(len_bytes)
            .filter(|it| i64::try_from(*it).is_ok())
            .ok_or_else(|| Error::corrupt("invalid VMDK: the disk has more than 2^63 bytes"))?;
    }
    Ok(extents)
}
