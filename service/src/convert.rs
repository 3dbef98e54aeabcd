//! The conversion of messages into jobs, and of answers into messages.

mod deploy;
mod nic;
mod path;

use base64ct::{Base64, Encoding};
use uuid::Uuid;

use crate::failure::{Failure, FailureKind};
use crate::job::{
    BootDevice, BootDeviceKind, BootOrder, Format, FormatKind, ImageReport, Job, Probe, Resize,
    Save, Secret, Source, System,
};
use crate::proto::apis;

pub(crate) use deploy::{deploy, deployed};

/// Returns the job of `ProbeImageInfo`.
pub(crate) fn probe(request: apis::ProbeImageInfoPramas) -> Result<Job, Failure> {
    let disk = source(request.disk_info, None)?;
    Ok(Job::Probe(Probe { disk }))
}

/// Returns the job of `ResizeFs`.
pub(crate) fn resize(request: apis::ResizeFsParams) -> Result<Job, Failure> {
    let disk = source(request.disk_info, request.guest_desc.as_ref())?;
    Ok(Job::Resize(Resize { disk }))
}

/// Returns the job of `SaveToGlance`.
pub(crate) fn save(request: apis::SaveToGlanceParams) -> Result<Job, Failure> {
    let disk = source(request.disk_info, None)?;
    Ok(Job::Save(Save {
        disk,
        compresses: request.compress,
    }))
}

/// Returns the job of `FormatFs`.
pub(crate) fn format(request: apis::FormatFsParams) -> Result<Job, Failure> {
    let disk = source(request.disk_info, None)?;
    let kind = FormatKind::parse(&request.fs_format).ok_or_else(|| {
        let message = format!(
            "making a filesystem `{}` is not supported; known: ext2, ext3, ext4, swap, fat, exfat, \
             xfs, btrfs, f2fs",
            request.fs_format
        );
        Failure::new(FailureKind::Unsupported, message)
    })?;
    let uuid = match request.uuid.trim() {
        "" => None,
        text => {
            let wrong = |_| Failure::invalid(format!("invalid UUID `{text}`"));
            Some(Uuid::parse_str(text).map_err(wrong)?.into_bytes())
        }
    };
    let features = request.fs_features.unwrap_or_default();
    let (ext4, f2fs) = (
        features.ext4.unwrap_or_default(),
        features.f2fs.unwrap_or_default(),
    );
    let (casefold, percent) = match kind {
        FormatKind::F2fs => (f2fs.case_insensitive, f2fs.overprovision_ratio_percentage),
        _ => (ext4.case_insensitive, ext4.reserved_blocks_percentage),
    };
    if casefold && !matches!(kind, FormatKind::Ext4 | FormatKind::F2fs) {
        let message = format!(
            "names that ignore case are not supported for {}",
            request.fs_format
        );
        return Err(Failure::new(FailureKind::Unsupported, message));
    }
    let reserved_percent = match percent {
        0 => None,
        1..=50 => u8::try_from(percent).ok(),
        _ => {
            let message = format!("invalid percentage of reserved blocks: {percent}");
            return Err(Failure::invalid(message));
        }
    };
    Ok(Job::Format(Format {
        disk,
        kind,
        uuid,
        casefold,
        reserved_percent,
    }))
}

/// Returns the job of `SetOvmfBootOrder`.
pub(crate) fn boot_order(request: &apis::OvmfBootOrderParams) -> Result<Job, Failure> {
    let variables = Source {
        path: path::checked(&request.ovmf_vars_path)?,
        // A variable store could be mistaken for another format.
        format: Some("raw".to_owned()),
        passphrase: None,
    };
    let devices = request.devs.iter().map(device);
    Ok(Job::BootOrder(BootOrder {
        variables,
        devices: devices.collect::<Result<_, _>>()?,
    }))
}

fn device(device: &apis::BootDevices) -> Result<BootDevice, Failure> {
    use apis::DevType;
    let wrong = |what: &str, number: i32| {
        Failure::invalid(format!("invalid {what} {number} of a boot device"))
    };
    let kind = match DevType::try_from(device.dev_type) {
        Ok(DevType::Cdrom) => BootDeviceKind::Cdrom,
        Ok(DevType::Ide) => BootDeviceKind::Ide,
        Ok(DevType::Scsi) => BootDeviceKind::Scsi,
        Ok(DevType::ScsiCdrom) => BootDeviceKind::ScsiCdrom,
        Ok(DevType::Pci) => BootDeviceKind::Pci,
        Ok(DevType::Sata) => BootDeviceKind::Sata,
        Ok(DevType::Unknown) | Err(_) => return Err(wrong("type", device.dev_type)),
    };
    let order = u32::try_from(device.boot_order).map_err(|_| wrong("order", device.boot_order))?;
    let attached = usize::try_from(device.attach_order);
    Ok(BootDevice {
        order,
        kind,
        attached: attached.map_err(|_| wrong("position", device.attach_order))?,
    })
}

/// Returns the image of a request. The description of the guest has its format.
fn source(
    disk: Option<apis::DiskInfo>,
    guest: Option<&apis::GuestDesc>,
) -> Result<Source, Failure> {
    let disk = disk.ok_or_else(|| Failure::invalid("missing `disk_info`"))?;
    let path = path::checked(&disk.path)?;
    let disks = guest
        .map(|guest| guest.disks.as_slice())
        .unwrap_or_default();
    let is_it = |other: &&apis::Disk| {
        other.path == disk.path || !disk.disk_id.is_empty() && other.disk_id == disk.disk_id
    };
    let format = disks.iter().find(is_it).map(|disk| disk.format.clone());
    Ok(Source {
        path,
        format: format.filter(|format| !format.is_empty()),
        passphrase: passphrase(&disk)?,
    })
}

fn passphrase(disk: &apis::DiskInfo) -> Result<Option<Secret>, Failure> {
    if !matches!(&*disk.encrypt_format, "" | "luks") {
        let message = format!(
            "unknown encryption format `{}`: expected luks",
            disk.encrypt_format
        );
        return Err(Failure::invalid(message));
    }
    if disk.encrypt_password.is_empty() {
        return Ok(None);
    }
    let bytes = Base64::decode_vec(disk.encrypt_password.trim())
        .map_err(|_| Failure::invalid("invalid `encrypt_password`: expected base64"))?;
    Ok(Some(Secret(bytes)))
}

/// Returns the answer to `ProbeImageInfo`.
pub(crate) fn image_info(report: ImageReport) -> apis::ImageInfo {
    let os_type = report.system.as_ref().map(|system| system.kind.name());
    apis::ImageInfo {
        os_type: os_type.unwrap_or_default().to_owned(),
        os_info: report.system.map(release_info),
        is_uefi_support: report.boots_uefi,
        is_lvm_partition: report.is_lvm,
        is_readonly: report.is_read_only,
        physical_partition_type: report.partition_table,
        is_installed_cloud_init: report.has_cloud_init,
        is_bios_support: report.boots_bios,
    }
}

/// Returns the answer to `SaveToGlance`.
pub(crate) fn saved(system: Option<System>) -> apis::SaveToGlanceResponse {
    let os_info = system.as_ref().map(|system| system.kind.name());
    apis::SaveToGlanceResponse {
        os_info: os_info.unwrap_or_default().to_owned(),
        release_info: system.map(release_info),
    }
}

fn release_info(system: System) -> apis::ReleaseInfo {
    apis::ReleaseInfo {
        distro: system.distro,
        version: system.version,
        arch: system.arch,
        language: system.language,
        current_version: system.current_version,
    }
}
