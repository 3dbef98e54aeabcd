//! The places of an image for contents: partitions, logical volumes and encrypted volumes, with all
//! identifiers.

mod names;

use uuid::Uuid;

use diskfs_disk::Result;
use diskfs_volume::lvm::LvmId;

use crate::ids::Ids;
use crate::plan::{
    ContentsPlan, FilesystemKind, FilesystemPlan, LuksPlan, LvmPlan, PartitionPlan, Size,
};
use crate::problem::invalid;

/// A place for contents.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The key in the plan, for errors.
    pub(crate) key: String,
    /// The name of the volume, as in `diskfs info`.
    pub(crate) volume: String,
    /// The device of the running system, if initramfs programs need it instead of a UUID.
    pub(crate) device: Option<String>,
    pub(crate) size: Size,
    /// The size in bytes, which the layout sets.
    pub(crate) bytes: u64,
    pub(crate) contents: Contents,
}

/// The contents of a slot.
#[derive(Debug)]
pub(crate) enum Contents {
    Empty,
    Filesystem(FilesystemSlot),
    Luks(Box<LuksSlot>),
    Lvm(LvmSlot),
}

/// A filesystem or a swap area.
#[derive(Debug)]
pub(crate) struct FilesystemSlot {
    pub(crate) plan: FilesystemPlan,
    /// The mount point without slashes at its ends; empty for the root.
    pub(crate) mount: Option<String>,
    /// The UUID, or a serial number in its last 4 bytes.
    pub(crate) uuid: Uuid,
    pub(crate) hash_seed: Uuid,
}

/// An encrypted volume.
#[derive(Debug)]
pub(crate) struct LuksSlot {
    pub(crate) plan: LuksPlan,
    pub(crate) uuid: Uuid,
    pub(crate) inner: Slot,
}

/// A volume group.
#[derive(Debug)]
pub(crate) struct LvmSlot {
    pub(crate) group: String,
    pub(crate) group_id: LvmId,
    pub(crate) physical_id: LvmId,
    pub(crate) volumes: Vec<(LvmId, String, Slot)>,
}

/// The place of a slot, before its contents are known.
struct Place {
    key: String,
    volume: String,
    device: Option<String>,
    size: Size,
}

impl Place {
    fn with(self, plan: ContentsPlan, ids: &Ids) -> Result<Slot> {
        let contents = match plan {
            ContentsPlan::Empty => Contents::Empty,
            ContentsPlan::Filesystem(plan) => {
                let key = format!("{}.filesystem", self.key);
                Contents::Filesystem(FilesystemSlot::new(plan, &key, ids)?)
            }
            ContentsPlan::Luks(plan) => Contents::Luks(Box::new(self.luks(*plan, ids)?)),
            ContentsPlan::Lvm(plan) => Contents::Lvm(self.lvm(plan, ids)?),
        };
        Ok(Slot {
            key: self.key,
            volume: self.volume,
            device: self.device,
            size: self.size,
            bytes: 0,
            contents,
        })
    }

    fn luks(&self, plan: LuksPlan, ids: &Ids) -> Result<LuksSlot> {
        let key = format!("{}.luks", self.key);
        names::check(&plan.name, &format!("{key}.name"))?;
        let inner = ContentsPlan::of((&plan.filesystem, &None, &plan.lvm));
        let place = Self {
            volume: format!("{}/luks", self.volume),
            device: Some(format!("/dev/mapper/{}", plan.name)),
            size: Size::Rest,
            key: key.clone(),
        };
        Ok(LuksSlot {
            uuid: uuid(plan.uuid.as_deref(), &key, ids)?,
            inner: place.with(inner.map_err(|reason| invalid(&key, reason))?, ids)?,
            plan,
        })
    }

    fn lvm(&self, plan: LvmPlan, ids: &Ids) -> Result<LvmSlot> {
        let key = format!("{}.lvm", self.key);
        names::check(&plan.group, &format!("{key}.group"))?;
        let mut volumes = Vec::new();
        for (index, volume) in plan.volumes.iter().enumerate() {
            let key = format!("{key}.volumes[{index}]");
            names::check(&volume.name, &format!("{key}.name"))?;
            let contents = ContentsPlan::of((&volume.filesystem, &volume.luks, &None));
            let contents = contents.map_err(|reason| invalid(&key, reason))?;
            let place = Self {
                volume: format!("{}/{}", plan.group, volume.name),
                device: Some(names::mapper(&plan.group, &volume.name)),
                size: volume.size,
                key: key.clone(),
            };
            let id = ids.lvm(&key)?;
            volumes.push((id, volume.name.clone(), place.with(contents, ids)?));
        }
        Ok(LvmSlot {
            group_id: ids.lvm(&key)?,
            physical_id: ids.lvm(&format!("{key} physical volume"))?,
            group: plan.group,
            volumes,
        })
    }
}

impl Slot {
    /// Returns the slot of a partition; `volume` is the name of the volume.
    pub(crate) fn of_partition(
        plan: &PartitionPlan,
        key: &str,
        volume: String,
        ids: &Ids,
    ) -> Result<Self> {
        let contents = ContentsPlan::of((&plan.filesystem, &plan.luks, &plan.lvm));
        let place = Place {
            key: key.to_owned(),
            volume,
            device: None,
            size: plan.size,
        };
        place.with(contents.map_err(|reason| invalid(key, reason))?, ids)
    }

    /// Returns this slot and all slots in it, each before those in it.
    pub(crate) fn all(&self) -> Vec<&Self> {
        let mut all = vec![self];
        match &self.contents {
            Contents::Empty | Contents::Filesystem(_) => {}
            Contents::Luks(luks) => all.extend(luks.inner.all()),
            Contents::Lvm(lvm) => {
                all.extend(lvm.volumes.iter().flat_map(|(_, _, slot)| slot.all()));
            }
        }
        all
    }

    pub(crate) fn filesystem(&self) -> Option<&FilesystemSlot> {
        match &self.contents {
            Contents::Filesystem(filesystem) => Some(filesystem),
            _ => None,
        }
    }
}

impl FilesystemSlot {
    fn new(plan: FilesystemPlan, key: &str, ids: &Ids) -> Result<Self> {
        let mount = plan.mount.as_deref().map(|mount| {
            let is_plain = mount.starts_with('/')
                && !mount.split('/').any(|name| matches!(name, "." | ".."))
                && !mount.contains(char::is_control);
            let reason = "invalid mount point: expected an absolute path without `.` and `..`";
            let names: Vec<&str> = mount.split('/').filter(|name| !name.is_empty()).collect();
            is_plain
                .then(|| names.join("/"))
                .ok_or_else(|| invalid(&format!("{key}.mount"), reason))
        });
        let mount = mount.transpose()?;
        if mount.is_some() && plan.kind == FilesystemKind::Swap {
            return Err(invalid(key, "a swap area has no mount point"));
        }
        let uuid = match plan.uuid.as_deref() {
            Some(text) if plan.kind.is_fat() => serial(text, key)?,
            given => uuid(given, key, ids)?,
        };
        Ok(Self {
            mount,
            uuid,
            hash_seed: ids.uuid(&format!("{key} hash seed"))?,
            plan,
        })
    }

    /// Returns the serial number of FAT and exFAT.
    pub(crate) fn serial(&self) -> u32 {
        let [.., a, b, c, d] = self.uuid.into_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    /// Returns the UUID as blkid(8) shows it.
    pub(crate) fn uuid_text(&self) -> String {
        if self.plan.kind.is_fat() {
            let serial = self.serial();
            return format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff);
        }
        self.uuid.to_string()
    }
}

fn uuid(given: Option<&str>, key: &str, ids: &Ids) -> Result<Uuid> {
    match given {
        Some(text) => {
            let wrong = |_| invalid(&format!("{key}.uuid"), format!("invalid UUID `{text}`"));
            Uuid::parse_str(text).map_err(wrong)
        }
        None => ids.uuid(key),
    }
}

/// Parses a serial number: `1234-ABCD`.
fn serial(text: &str, key: &str) -> Result<Uuid> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u32::from_str_radix(&digits, 16).ok();
    let number = number.filter(|_| digits.len() == 8);
    let wrong = || {
        let reason = format!("invalid serial number `{text}`: expected 1234-ABCD");
        invalid(&format!("{key}.uuid"), reason)
    };
    Ok(Uuid::from_u128(number.ok_or_else(wrong)?.into()))
}
