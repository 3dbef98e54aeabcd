//! An open volume: the device and its descriptors.

use std::sync::Arc;

use diskfs_block::{BlockRead, Cache, CacheOptions, read_within};

use crate::boot_record::BootRecord;
use crate::directory_record::{DirectoryRecord, MAX_BYTES, Run};
use crate::error::{Error, ErrorKind, Result, corrupt, device_failed};
use crate::name::Names;
use crate::susp::{self, Blocks, SystemUse};
use crate::volume_descriptor::{
    DescriptorType, FIRST_SECTOR, MAX_DESCRIPTORS, SECTOR_BYTES, VolumeDescriptor,
};

/// The memory for cached directory records.
const CACHE_BYTES: u64 = 4 << 20;

/// An open volume.
#[derive(Debug)]
pub(crate) struct Volume {
    /// The device, for file contents. The kernel caches those.
    pub(crate) device: Arc<dyn BlockRead>,
    /// The cached device, for directory records.
    metadata: Cache,
    pub(crate) descriptors: Descriptors,
    pub(crate) names: Names,
    /// The offset of the root directory, where its own record is.
    pub(crate) root: u64,
}

/// The descriptors that are used.
#[derive(Debug)]
pub(crate) struct Descriptors {
    pub(crate) primary: VolumeDescriptor,
    pub(crate) joliet: Option<VolumeDescriptor>,
    pub(crate) boot_record: Option<BootRecord>,
}

impl Volume {
    pub(crate) fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        let options = CacheOptions {
            budget_bytes: CACHE_BYTES,
            ..CacheOptions::default()
        };
        let metadata = Cache::new(Arc::clone(&device), options).map_err(device_failed)?;
        let descriptors = Descriptors::read(&metadata)?;
        let root = root_of(&descriptors.primary)?;
        let mut volume = Self {
            device,
            metadata,
            descriptors,
            names: Names::Plain,
            root,
        };
        let rock_ridge = volume.rock_ridge()?;
        match (&volume.descriptors.joliet, rock_ridge) {
            (_, Some(skipped)) => volume.names = Names::RockRidge { skipped },
            (Some(joliet), None) => {
                volume.root = root_of(joliet)?;
                volume.names = Names::Joliet;
            }
            (None, None) => {}
        }
        Ok(volume)
    }

    /// Detects Rock Ridge in the primary descriptor's tree, from the root's own record. Returns the
    /// number of bytes to skip in each system use area; `None` without Rock Ridge.
    fn rock_ridge(&self) -> Result<Option<usize>> {
        let Some(record) = self.record_at(self.root)? else {
            return Err(corrupt(
                "invalid root directory: missing its own record",
                self.root,
            ));
        };
        let Some(skipped) = susp::bytes_skipped(record.system_use()) else {
            return Ok(None);
        };
        let entries = self.root_entries(&record)?;
        Ok(susp::names_rock_ridge(&entries).then_some(skipped))
    }

    fn root_entries(&self, record: &DirectoryRecord) -> Result<SystemUse> {
        let area = record.system_use();
        let area = area.get(susp::root_place(area)..).unwrap_or_default();
        SystemUse::gather(self, area, record.place)
    }

    /// Returns the SUSP entries of a record; none if the volume does not use Rock Ridge.
    pub(crate) fn system_use(&self, record: &DirectoryRecord) -> Result<SystemUse> {
        match self.names {
            Names::RockRidge { .. } if record.place == self.root => self.root_entries(record),
            Names::RockRidge { skipped } => {
                let area = record.system_use().get(skipped..).unwrap_or_default();
                SystemUse::gather(self, area, record.place)
            }
            Names::Joliet | Names::Plain => Ok(SystemUse::default()),
        }
    }

    pub(crate) fn block_bytes(&self) -> u32 {
        self.descriptors.primary.block_bytes
    }

    /// Reads the record at an offset; `None` if there is none up to the end of the sector.
    pub(crate) fn record_at(&self, place: u64) -> Result<Option<DirectoryRecord>> {
        let in_sector = SECTOR_BYTES.saturating_sub(place % SECTOR_BYTES);
        let len = usize::try_from(in_sector)
            .unwrap_or(MAX_BYTES)
            .min(MAX_BYTES);
        match self.metadata_at(place, len)? {
            Some(bytes) => DirectoryRecord::parse(&bytes, place, self.block_bytes()),
            None => Err(corrupt(
                "invalid directory record: it is outside of the device",
                place,
            )),
        }
    }

    /// Fails unless a run is within the device.
    pub(crate) fn check(&self, run: Run, place: u64) -> Result<()> {
        let size_bytes = self.device.size_bytes();
        diskfs_block::check_bounds(run.start_bytes, run.len_bytes.into(), size_bytes).map_err(
            |_| {
                let reason = format!(
                    "invalid extent: {} bytes at {:#x}, the device has {size_bytes}",
                    run.len_bytes, run.start_bytes
                );
                corrupt(reason, place)
            },
        )
    }
}

impl Blocks for Volume {
    fn byte_of(&self, block: u32) -> u64 {
        u64::from(block).saturating_mul(self.block_bytes().into())
    }

    fn metadata_at(&self, offset: u64, len: usize) -> Result<Option<Vec<u8>>> {
        read_within(&self.metadata, offset, len).map_err(device_failed)
    }
}

impl Descriptors {
    fn read(device: &dyn BlockRead) -> Result<Self> {
        let (mut primary, mut joliet, mut boot_record) = (None, None, None);
        for number in FIRST_SECTOR..FIRST_SECTOR.saturating_add(MAX_DESCRIPTORS) {
            let at = number.saturating_mul(SECTOR_BYTES);
            let len = usize::try_from(SECTOR_BYTES).unwrap_or_default();
            let Some(sector) = read_within(device, at, len).map_err(device_failed)? else {
                break;
            };
            match DescriptorType::of(&sector) {
                Some(DescriptorType::Primary) if primary.is_none() => {
                    primary = Some(VolumeDescriptor::parse(&sector, at)?);
                }
                Some(DescriptorType::Supplementary) => {
                    let found = VolumeDescriptor::parse(&sector, at)?;
                    joliet = joliet.or(Some(found).filter(|found| found.is_joliet));
                }
                Some(DescriptorType::BootRecord) => {
                    boot_record = boot_record.or_else(|| BootRecord::parse(&sector));
                }
                Some(DescriptorType::Primary | DescriptorType::Other) => {}
                Some(DescriptorType::Terminator) | None => break,
            }
        }
        let none = || {
            let reason = "missing primary volume descriptor of ISO 9660";
            Error::new(ErrorKind::Corrupt, reason).at(FIRST_SECTOR.saturating_mul(SECTOR_BYTES))
        };
        let primary: VolumeDescriptor = primary.ok_or_else(none)?;
        // Both trees must count in blocks of the same size.
        let joliet = joliet.filter(|joliet| joliet.block_bytes == primary.block_bytes);
        Ok(Self {
            primary,
            joliet,
            boot_record,
        })
    }
}

fn root_of(descriptor: &VolumeDescriptor) -> Result<u64> {
    let place = FIRST_SECTOR.saturating_mul(SECTOR_BYTES);
    let record = DirectoryRecord::parse(&descriptor.root, place, descriptor.block_bytes)?;
    let record = record.ok_or_else(|| {
        corrupt(
            "invalid volume descriptor: missing root directory record",
            place,
        )
    })?;
    Ok(record.data.start_bytes)
}
