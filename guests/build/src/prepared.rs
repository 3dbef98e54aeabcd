//! A plan that is ready to be built: all sizes, identifiers and files are known, and nothing is
//! written yet.

mod table;

use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_vfs::Timestamp;

use crate::boot::{self, Boot, BootFiles, System};
use crate::ids::Ids;
use crate::layout::{DiskLayout, Sizes};
use crate::plan::{Extra, FilesystemKind, Plan, Size};
use crate::problem::{at, invalid};
use crate::scan::{MountUsage, add_tree};
use crate::slot::{Contents, Slot};
use crate::sources::Sources;
use crate::{filesystem::FormatDetails, fstab};

pub(crate) use table::Table;

/// A plan that is ready to be built.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) sources: Sources,
    pub(crate) time: Timestamp,
    pub(crate) table: Table,
    pub(crate) slots: Vec<Slot>,
    pub(crate) disk: DiskLayout,
    pub(crate) mounts: Vec<MountUsage>,
    pub(crate) boot: Option<Boot>,
}

/// The room for small settings of the boot loader that are not known yet.
const SETTINGS_BYTES: u64 = 64 << 10;

impl Prepared {
    /// Computes the layout of the image. Nothing is written.
    ///
    /// # Errors
    /// `Invalid`, `NoSpace`, `NotFound` or `Unsupported`, with the key of the plan.
    pub fn new(plan: Plan, sources: Sources) -> Result<Self> {
        let ids = Ids::new(plan.seed.as_deref());
        let table = Table::new(&plan, &ids)?;
        let mut slots = Vec::new();
        for (index, partition) in plan.partitions.iter().enumerate() {
            let key = format!("partitions[{index}]");
            let volume = table.volume_name(index);
            slots.push(Slot::of_partition(partition, &key, volume, &ids)?);
        }
        check(&plan, &slots)?;
        let time = match plan.time {
            Some(seconds) => Timestamp {
                seconds: seconds.into(),
                nanoseconds: 0,
            },
            None => Timestamp::now(),
        };
        let mut mounts = mounts(&slots)?;
        let mut files = BootFiles::default();
        if let Some(tree) = &sources.tree {
            let _ = root(&slots)?;
            add_tree(tree, &mut mounts)?;
            files = BootFiles::of(tree);
        }
        let boot = plan_boot(&plan, &table, &slots, &files)?;
        add_made_files(&plan, &slots, boot.as_ref(), &table, &mut mounts);
        let sizes = Sizes {
            mounts: &mounts,
            time,
        };
        let disk = sizes.place(&plan.disk, &mut slots)?;
        Ok(Self {
            plan,
            sources,
            time,
            table,
            slots,
            disk,
            mounts,
            boot,
        })
    }

    /// Returns the number of bytes of the sources, of which [`build`](Self::build) reports its
    /// progress.
    pub fn stream_bytes(&self) -> u64 {
        self.sources.stream_bytes()
    }

    /// Returns the details of a filesystem in a slot.
    pub(crate) fn format_details(&self, slot: &Slot) -> FormatDetails {
        let sizes = Sizes {
            mounts: &self.mounts,
            time: self.time,
        };
        let extra = match slot.size {
            Size::Fit(extra) => extra,
            Size::Bytes(_) | Size::Rest => Extra::Percent(100),
        };
        let filesystem = slot.filesystem();
        FormatDetails {
            time: self.time,
            is_time_fixed: self.plan.time.is_some(),
            sector_bytes: self.plan.disk.sector_size,
            inodes: filesystem.and_then(|filesystem| sizes.inodes(filesystem, extra)),
        }
    }

    /// Returns the slot of the system partition that the boot loader is on.
    pub(crate) fn esp(&self) -> Option<&Slot> {
        self.slots.get(self.table.esp()?)
    }

    /// Returns true if `/etc/fstab` is written.
    pub(crate) fn has_fstab(&self) -> bool {
        self.plan.fstab && self.sources.tree.is_some()
    }
}

impl Sources {
    /// Returns true if the files contain a UEFI boot loader and a kernel.
    pub fn has_boot_loader(&self) -> bool {
        let files = self.tree.as_ref().map(BootFiles::of);
        files.is_some_and(|files| boot::has_boot_loader(&files))
    }
}

/// Returns the slot of the root filesystem.
///
/// # Errors
/// `Invalid` if there is none.
pub(crate) fn root(slots: &[Slot]) -> Result<&Slot> {
    let mut all = slots.iter().flat_map(Slot::all);
    let root = all.find(|slot| {
        let mount = slot.filesystem().and_then(|found| found.mount.as_deref());
        mount == Some("")
    });
    root.ok_or_else(|| {
        let error = invalid("partitions", "no filesystem is mounted at /");
        error.with_hint("add `mount: /` to the filesystem for the files")
    })
}

/// Returns the filesystems with mount points, the root first, each before those below it.
fn mounts(slots: &[Slot]) -> Result<Vec<MountUsage>> {
    let mut mounts: Vec<MountUsage> = Vec::new();
    for slot in slots.iter().flat_map(Slot::all) {
        let Some(filesystem) = slot.filesystem() else {
            continue;
        };
        let Some(path) = &filesystem.mount else {
            continue;
        };
        if mounts.iter().any(|mount| mount.path == *path) {
            let reason = format!("two filesystems have the mount point /{path}");
            return Err(invalid(&format!("{}.filesystem.mount", slot.key), reason));
        }
        mounts.push(MountUsage::new(path, filesystem.plan.kind));
    }
    mounts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(mounts)
}

fn plan_boot(
    plan: &Plan,
    table: &Table,
    slots: &[Slot],
    files: &BootFiles,
) -> Result<Option<Boot>> {
    let Some(bootloader) = &plan.bootloader else {
        return Ok(None);
    };
    let esp = table.esp().and_then(|index| slots.get(index));
    let esp = esp.filter(|slot| {
        let filesystem = slot.filesystem();
        filesystem.is_some_and(|found| found.plan.kind == FilesystemKind::Fat)
    });
    let Some(esp) = esp else {
        let error = invalid("bootloader", "missing system partition");
        return Err(error.with_hint("add a partition with `type: esp` and a FAT filesystem"));
    };
    let has_mount = esp.filesystem().is_some_and(|found| found.mount.is_some());
    if !has_mount && !matches!(esp.size, Size::Bytes(_)) {
        let reason = "a system partition without a mount point needs a fixed size";
        return Err(invalid(&format!("{}.size", esp.key), reason));
    }
    let system = System {
        slots,
        files,
        root: root(slots)?,
        esp,
    };
    Boot::plan(bootloader, system).map(Some)
}

/// Adds the files that are written besides the sources.
fn add_made_files(
    plan: &Plan,
    slots: &[Slot],
    boot: Option<&Boot>,
    table: &Table,
    mounts: &mut [MountUsage],
) {
    if let Some(root) = mounts
        .first_mut()
        .filter(|root| root.path.is_empty() && plan.fstab)
    {
        root.add_file(fstab::fstab(slots).len() as u64);
        root.add_file(fstab::crypttab(slots).map_or(0, |text| text.len() as u64));
    }
    let esp = table.esp().and_then(|index| slots.get(index)?.filesystem());
    let esp = esp.and_then(|found| found.mount.as_deref());
    let esp = esp.and_then(|path| mounts.iter_mut().find(|mount| mount.path == path));
    if let (Some(esp), Some(boot)) = (esp, boot) {
        for file in boot.files("", "") {
            esp.add_file(file.from.size_bytes());
        }
        esp.add_file(SETTINGS_BYTES);
    }
}

/// Checks what concerns the plan as a whole.
fn check(plan: &Plan, slots: &[Slot]) -> Result<()> {
    if !matches!(plan.disk.sector_size, 512 | 4096) {
        let reason = format!(
            "invalid sector size {}: expected 512 or 4096",
            plan.disk.sector_size
        );
        return Err(invalid("disk.sector-size", reason));
    }
    let mut names = Vec::new();
    for slot in slots.iter().flat_map(Slot::all) {
        let (key, name) = match &slot.contents {
            Contents::Luks(luks) => ("luks.name", &luks.plan.name),
            Contents::Lvm(lvm) => ("lvm.group", &lvm.group),
            _ => continue,
        };
        if names.contains(&name) {
            let reason = format!("the name `{name}` occurs twice");
            return Err(invalid(&format!("{}.{key}", slot.key), reason));
        }
        names.push(name);
        if let Contents::Luks(luks) = &slot.contents
            && plan.seed.is_some()
            && luks.plan.volume_key.is_none()
        {
            let reason = "a plan with a seed needs the volume key: a key that follows from the \
                          seed would be known to everybody who knows the plan";
            let error = Error::new(ErrorKind::Invalid, reason);
            let error = at(&format!("{}.luks", slot.key), error);
            return Err(error.with_hint("add `volume-key`, or remove `seed`"));
        }
    }
    Ok(())
}
