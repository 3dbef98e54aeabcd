//! The device below, and what the descriptors say of it.

use std::sync::Arc;

use diskfs_block::{BlockRead, Cache, CacheOptions, read_within};

use crate::boot_record::BootRecord;
use crate::directory_record::{DirectoryRecord, MAX_BYTES, Run};
use crate::error::{Error, ErrorKind, Result, corrupt, device_failed};
use crate::name::Names;
use crate::susp::{self, Blocks, SystemUse};
use crate::volume_descriptor::{
    FIRST_SECTOR, Kind, MAX_DESCRIPTORS, SECTOR_BYTES, VolumeDescriptor,
};

/// What is kept of directories.
const CACHE_BYTES: u64 = 4 << 20;

/// An open volume.
#[derive(Debug)]
pub(crate) struct Volume {
    /// For contents, which the kernel caches.
    pub(crate) device: Arc<dyn BlockRead>,
    /// For records.
    metadata: Cache,
    pub(crate) descriptors: Descriptors,
    pub(crate) names: Names,
    /// Where the root's own record is.
    pub(crate) root: u64,
}

/// The descriptors that count.
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

    /// Which names the primary descriptor's tree has, told in the root's own record: `Some` with Rock
    /// Ridge, and how many bytes of each system use area are not its.
    fn rock_ridge(&self) -> Result<Option<usize>> {
        let Some(record) = self.record_at(self.root)? else {
            return Err(corrupt("root directory has no record of itself", self.root));
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

    /// The entries of Rock Ridge that belong to a record; none when there is no Rock Ridge.
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

    /// The record at a byte of the device; `None` when there is none up to the end of the sector.
    pub(crate) fn record_at(&self, place: u64) -> Result<Option<DirectoryRecord>> {
        let in_sector = SECTOR_BYTES.saturating_sub(place % SECTOR_BYTES);
        let len = usize::try_from(in_sector)
            .unwrap_or(MAX_BYTES)
            .min(MAX_BYTES);
        match self.metadata_at(place, len)? {
            Some(bytes) => DirectoryRecord::parse(&bytes, place, self.block_bytes()),
            None => Err(corrupt(
                "directory record lies outside of the device",
                place,
            )),
        }
    }

    /// Fails unless a run lies within the device.
    pub(crate) fn check(&self, run: Run, place: u64) -> Result<()> {
        let size_bytes = self.device.size_bytes();
        diskfs_block::check_bounds(run.start_bytes, run.len_bytes.into(), size_bytes).map_err(
            |_| {
                let reason = format!(
                    "{} bytes at {:#x} do not lie within the device's {size_bytes}",
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
            match Kind::of(&sector) {
                Some(Kind::Primary) if primary.is_none() => {
                    primary = Some(VolumeDescriptor::parse(&sector, at)?);
                }
                Some(Kind::Supplementary) => {
                    let found = VolumeDescriptor::parse(&sector, at)?;
                    joliet = joliet.or(Some(found).filter(|found| found.is_joliet));
                }
                Some(Kind::BootRecord) => {
                    boot_record = boot_record.or_else(|| BootRecord::parse(&sector));
                }
                Some(Kind::Primary | Kind::Other) => {}
                Some(Kind::Terminator) | None => break,
            }
        }
        let none = || {
            let reason = "there is no primary volume descriptor of ISO 9660";
            Error::new(ErrorKind::Corrupt, reason).at(FIRST_SECTOR.saturating_mul(SECTOR_BYTES))
        };
        let primary: VolumeDescriptor = primary.ok_or_else(none)?;
        // Numbers of blocks mean the same in both trees.
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
    let record = record.ok_or_else(|| corrupt("volume descriptor names no root", place))?;
    Ok(record.data.start_bytes)
}
