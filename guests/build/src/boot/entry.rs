//! The entry of the boot loader's menu: kernel, initramfs and arguments.

use std::cmp::Ordering;

use diskfs_disk::{Error, ErrorKind, Result};

use super::files::{BootFile, BootFiles};
use super::{System, encrypted_around};
use crate::plan::BootloaderPlan;
use crate::slot::{FilesystemSlot, Slot};

/// A kernel with its initramfs and its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kernel: PlacedFile,
    pub(crate) initrd: Option<PlacedFile>,
    pub(crate) arguments: String,
    pub(crate) title: Option<String>,
}

/// A file, and the filesystem on which it is.
#[derive(Debug, Clone)]
pub(crate) struct PlacedFile {
    pub(crate) file: BootFile,
    /// The path from the root of its filesystem, with a slash in front.
    pub(crate) path: String,
    /// The UUID of its filesystem.
    pub(crate) uuid: String,
    /// True if its filesystem is the system partition.
    pub(crate) is_on_esp: bool,
}

impl Entry {
    pub(super) fn plan(plan: &BootloaderPlan, system: System<'_>) -> Result<Self> {
        let files = system.files;
        let kernel = match &plan.kernel {
            Some(path) => files.find(path).ok_or_else(|| missing(path)),
            None => newest_kernel(files).ok_or_else(|| missing("/boot/vmlinuz-*")),
        };
        let kernel = kernel.map_err(|error| error.with_hint("give the key `kernel`"))?;
        let initrd = match plan.initrd.as_deref() {
            Some("") => None,
            Some(path) => Some(files.find(path).ok_or_else(|| missing(path))?),
            None => initrd_of(&kernel, files),
        };
        Ok(Self {
            kernel: PlacedFile::new(&kernel, system)?,
            initrd: initrd
                .map(|file| PlacedFile::new(&file, system))
                .transpose()?,
            arguments: arguments(plan, system),
            title: plan.title.clone(),
        })
    }
}

impl PlacedFile {
    fn new(file: &BootFile, system: System<'_>) -> Result<Self> {
        let all: Vec<&Slot> = system.slots.iter().flat_map(Slot::all).collect();
        let mounted = all.into_iter().filter_map(|slot| {
            let filesystem = slot.filesystem()?;
            let mount = filesystem.mount.as_deref()?;
            let rest = file.path.strip_prefix(mount)?;
            let is_below = mount.is_empty() || rest.starts_with('/');
            is_below.then_some((mount.len(), slot, filesystem, rest))
        });
        let deepest = mounted.max_by_key(|(depth, ..)| *depth);
        let (_, slot, filesystem, rest): (_, _, &FilesystemSlot, _) =
            deepest.ok_or_else(|| missing(&file.path))?;
        let path = format!("/{}", rest.trim_start_matches('/'));
        Ok(Self {
            path,
            uuid: filesystem.uuid_text(),
            is_on_esp: slot.key == system.esp.key,
            file: file.clone(),
        })
    }

    /// Returns the last name of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

fn missing(path: &str) -> Error {
    let path = path.trim_start_matches('/');
    Error::new(
        ErrorKind::NotFound,
        format!("the sources have no file /{path}"),
    )
}

/// Returns the arguments of the kernel. Programs of an initramfs find logical volumes by their
/// device, and everything else by its UUID.
fn arguments(plan: &BootloaderPlan, system: System<'_>) -> String {
    let uuid = system.root.filesystem().map(FilesystemSlot::uuid_text);
    let root = match &system.root.device {
        Some(device) => device.clone(),
        None => format!("UUID={}", uuid.unwrap_or_default()),
    };
    let mut arguments = vec![format!("root={root}"), "ro".to_owned()];
    for (uuid, name) in encrypted_around(system.slots, system.root) {
        arguments.push(format!("rd.luks.name={uuid}={name}"));
    }
    if !plan.arguments.is_empty() {
        arguments.push(plan.arguments.clone());
    }
    arguments.join(" ")
}

/// Returns the kernel with the highest version in `/boot`, else `/vmlinuz`.
pub(super) fn newest_kernel(files: &BootFiles) -> Option<BootFile> {
    let prefixes = ["boot/vmlinuz-", "boot/vmlinux-", "boot/Image-"];
    let all = prefixes.iter().flat_map(|prefix| {
        let versions = files.beginning_with(prefix);
        versions.filter_map(move |path| Some((path.strip_prefix(prefix)?, path)))
    });
    let kernels = all.filter(|(version, _)| version.starts_with(|c: char| c.is_ascii_digit()));
    let newest = kernels.max_by(|a, b| compare_versions(a.0, b.0));
    let newest = newest.and_then(|(_, path)| files.find(path));
    newest.or_else(|| files.find("vmlinuz"))
}

/// Returns the initramfs with the version of the kernel.
fn initrd_of(kernel: &BootFile, files: &BootFiles) -> Option<BootFile> {
    let name = kernel.path.rsplit('/').next()?;
    let (_, version) = name.split_once('-')?;
    let names = [
        format!("boot/initrd.img-{version}"),
        format!("boot/initramfs-{version}.img"),
        format!("boot/initrd-{version}"),
    ];
    names.iter().find_map(|path| files.find(path))
}

/// Compares versions: runs of digits as numbers, everything else by its bytes.
fn compare_versions(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(u64, String)> {
        let digits = |c: char| c.is_ascii_digit();
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let number = rest.trim_start_matches(digits);
            let value = rest[..rest.len() - number.len()].parse().unwrap_or(0);
            let after = number.trim_start_matches(|c| !digits(c));
            parts.push((value, number[..number.len() - after.len()].to_owned()));
            rest = after;
        }
        parts
    };
    parts(a).cmp(&parts(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (a, b) in [
            ("6.1.0-9", "6.1.0-10"),
            ("5.10", "6.1"),
            ("6.1", "6.1.1"),
            ("9", "10-rc"),
        ] {
            assert_eq!(compare_versions(a, b), Ordering::Less, "{a} {b}");
            assert_eq!(compare_versions(b, a), Ordering::Greater, "{a} {b}");
        }
    }
}
