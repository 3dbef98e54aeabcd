//! New volume groups on new physical volumes, as pvcreate, vgcreate and lvcreate make them.

use std::sync::Arc;

use diskfs_block::{BlockWrite, Error, ErrorKind, Result};

use super::super::label_header::Label;
use super::super::mda_header::MdaHeader;
use super::super::members::MAX_PHYSICAL_VOLUMES;
use super::super::pv_header::{self, DiskLocn};
use super::super::volume_group::{SECTOR_BYTES, check_name};
use super::super::{LvmId, VolumeGroup};
use super::draft::{Draft, MAX_EXTENTS};
use super::new_volume::{self, NewVolume};
use super::origin::MetadataOrigin;
use super::physical::rounded_down;

/// The offset of the metadata area, LVM's default.
const AREA_START: u64 = 4096;

/// The offset of the first extent, LVM's default (`devices/default_data_alignment`).
const DATA_START: u64 = 1 << 20;

/// The extent sizes that LVM accepts without a stricter alignment: powers of two from 4 KiB on.
const LEAST_EXTENT_BYTES: u64 = 4096;

/// The largest extent size; LVM stores it in 32 bits of sectors.
const MOST_EXTENT_BYTES: u64 = 1 << 40;

/// A new volume group with its logical volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGroup {
    /// The name of the group.
    pub name: String,
    /// The UUID of the group; random by convention.
    pub id: LvmId,
    /// The UUIDs of the physical volumes, one for each device; random by convention.
    pub physical_volumes: Vec<LvmId>,
    /// The size of an extent in bytes, a power of two; [`DEFAULT_EXTENT_BYTES`](Self::DEFAULT_EXTENT_BYTES)
    /// in LVM.
    pub extent_bytes: u64,
    /// The logical volumes, in the order in which they get their extents.
    pub volumes: Vec<NewVolume>,
    /// The record of who made the group, and when.
    pub origin: MetadataOrigin,
}

/// A new group that is complete in memory.
struct Plan {
    draft: Draft,
    /// The size of each device, in bytes.
    sizes: Vec<u64>,
}

impl NewGroup {
    /// The size of an extent in bytes, unless another one is given: 4 MiB.
    pub const DEFAULT_EXTENT_BYTES: u64 = 4 << 20;

    /// Returns the number of bytes that the group needs on a single device for volumes of these
    /// sizes, rounded up to whole extents.
    pub fn device_bytes(extent_bytes: u64, volumes: impl IntoIterator<Item = u64>) -> u64 {
        let extents = volumes
            .into_iter()
            .map(|bytes| bytes.div_ceil(extent_bytes.max(1)));
        let extents = extents.fold(0, u64::saturating_add);
        DATA_START.saturating_add(extents.saturating_mul(extent_bytes))
    }

    /// Creates the group on the devices, whose contents are lost. The same arguments lead to the
    /// same bytes. After a crash the group may lack physical volumes; the same call completes it.
    ///
    /// # Errors
    /// Before the first write: `Invalid` for an invalid name or extent size, and for UUIDs that
    /// occur twice or do not match the devices; `NoSpace` for devices that are too small. Then
    /// errors of the devices.
    pub fn create(&self, devices: &[Arc<dyn BlockWrite>]) -> Result<VolumeGroup> {
        let plan = self.plan(devices)?;
        let text = plan.draft.text.clone() + "\0";
        let area = MdaHeader::with_first_text(AREA_START, DATA_START - AREA_START, text.as_bytes());
        if !area.has_room_for_two(area.text.size_bytes) {
            return Err(Error::new(
                ErrorKind::NoSpace,
                "the metadata of the group is too large for a metadata area",
            ));
        }
        for device in devices {
            device.write_zeroes(0, AREA_START)?;
            area.write_whole(&**device, text.as_bytes())?;
            device.flush()?;
        }
        for ((device, id), size_bytes) in devices.iter().zip(&self.physical_volumes).zip(plan.sizes)
        {
            let place = DiskLocn {
                offset: AREA_START,
                size_bytes: DATA_START - AREA_START,
            };
            let label = Label::new(&pv_header::new_header(*id, size_bytes, place, DATA_START));
            device.write_at(label.start_bytes, &label.sector)?;
            device.flush()?;
        }
        Ok(plan.draft.group)
    }

    /// Checks that the group can be created on devices of these sizes, and returns it.
    ///
    /// # Errors
    /// As for [`create`](Self::create) before its first write.
    pub fn check(&self, device_bytes: &[u64]) -> Result<VolumeGroup> {
        self.planned(device_bytes).map(|plan| plan.draft.group)
    }

    fn plan(&self, devices: &[Arc<dyn BlockWrite>]) -> Result<Plan> {
        let sizes: Vec<u64> = devices.iter().map(|device| device.size_bytes()).collect();
        self.planned(&sizes)
    }

    fn planned(&self, sizes: &[u64]) -> Result<Plan> {
        self.check_arguments(sizes.len())?;
        let sizes = sizes.iter().map(|size| rounded_down(*size, SECTOR_BYTES));
        let sizes: Vec<u64> = sizes.collect();
        let text = self.text(&sizes)?;
        let mut draft = Draft::new(text)?;
        for volume in &self.volumes {
            (draft, _) = new_volume::add(&draft, volume, Some(&self.origin))?;
        }
        Ok(Plan { draft, sizes })
    }

    fn check_arguments(&self, devices: usize) -> Result<()> {
        check_name(&self.name).map_err(Error::invalid)?;
        self.origin.check()?;
        let extents = LEAST_EXTENT_BYTES..=MOST_EXTENT_BYTES;
        if !self.extent_bytes.is_power_of_two() || !extents.contains(&self.extent_bytes) {
            return Err(Error::invalid(format!(
                "invalid extent size: {} bytes; a power of two of at least {LEAST_EXTENT_BYTES}",
                self.extent_bytes
            )));
        }
        let count = self.physical_volumes.len();
        if count != devices || !(1..=MAX_PHYSICAL_VOLUMES).contains(&count) {
            return Err(Error::invalid(format!(
                "invalid physical volumes: {count} UUIDs for {devices} devices"
            )));
        }
        let mut ids = self.physical_volumes.clone();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(Error::invalid("two physical volumes have the same UUID"));
        }
        Ok(())
    }

    /// Returns the text of the group without logical volumes.
    fn text(&self, sizes: &[u64]) -> Result<String> {
        let mut physical = String::new();
        for (n, (id, size_bytes)) in self.physical_volumes.iter().zip(sizes).enumerate() {
            let extents = size_bytes
                .saturating_sub(DATA_START)
                .checked_div(self.extent_bytes);
            let extents = extents.unwrap_or(0).min(MAX_EXTENTS);
            if extents == 0 {
                let reason = format!(
                    "the device of physical volume {id} is too small: {size_bytes} bytes, at least \
                     {} are needed",
                    DATA_START.saturating_add(self.extent_bytes)
                );
                return Err(Error::new(ErrorKind::NoSpace, reason));
            }
            let (sectors, start) = (size_bytes / SECTOR_BYTES, DATA_START / SECTOR_BYTES);
            physical = format!(
                "{physical}pv{n} {{ id = \"{id}\" status = [\"ALLOCATABLE\"] flags = [] \
                 dev_size = {sectors} pe_start = {start} pe_count = {extents} }}\n"
            );
        }
        let (name, id, extent) = (&self.name, self.id, self.extent_bytes / SECTOR_BYTES);
        let MetadataOrigin {
            host,
            time_seconds,
            description,
        } = &self.origin;
        Ok(format!(
            "{name} {{ id = \"{id}\" seqno = 1 format = \"lvm2\" \
             status = [\"RESIZEABLE\", \"READ\", \"WRITE\"] flags = [] extent_size = {extent} \
             max_lv = 0 max_pv = 0 metadata_copies = 0 physical_volumes {{\n{physical}}} }}\n\
             contents = \"Text Format Volume Group\" version = 1 description = \"{description}\" \
             creation_host = \"{host}\" creation_time = {time_seconds}"
        ))
    }
}
