//! systemd-boot, with a type 1 entry of the Boot Loader Specification.

use super::entry::{Entry, PlacedFile};
use super::files::BootFiles;
use super::{Architecture, EspFile, EspSource, default_path, program};

/// The directory of kernels on the system partition.
const DIRECTORY: &str = "linux";

/// The name of the entry.
const ENTRY: &str = "diskfs";

/// Returns the program of systemd-boot, under the firmware's default name and its own.
pub(super) fn programs(architecture: Architecture, files: &BootFiles) -> Option<Vec<EspFile>> {
    let name = format!("systemd-boot{}.efi", architecture.efi);
    let from = format!("usr/lib/systemd/boot/efi/{name}");
    let default = program(files, &from, &default_path(architecture))?;
    let own = program(files, &from, &format!("EFI/systemd/{name}"))?;
    Some(vec![default, own])
}

/// Returns the settings, the kernel and the initramfs.
pub(super) fn files(entry: &Entry, timeout: u32, title: &str) -> Vec<EspFile> {
    let (kernel, copied_kernel) = place(&entry.kernel);
    let initrd = entry.initrd.as_ref().map(place);
    let mut lines = vec![
        format!("title {}", entry.title.as_deref().unwrap_or(title)),
        format!("linux {kernel}"),
    ];
    lines.extend(initrd.as_ref().map(|(path, _)| format!("initrd {path}")));
    lines.push(format!("options {}\n", entry.arguments));
    let text = |to: &str, text: String| EspFile {
        to: to.to_owned(),
        from: EspSource::Text(text),
    };
    let settings = format!("default {ENTRY}.conf\ntimeout {timeout}\n");
    let mut files = vec![
        text("loader/loader.conf", settings),
        text(&format!("loader/entries/{ENTRY}.conf"), lines.join("\n")),
    ];
    files.extend(copied_kernel);
    files.extend(initrd.and_then(|(_, copied)| copied));
    files
}

/// Returns the path of a file on the system partition, and its copy if it is not there already.
fn place(placed: &PlacedFile) -> (String, Option<EspFile>) {
    if placed.is_on_esp {
        return (placed.path.clone(), None);
    }
    let to = format!("{DIRECTORY}/{}", placed.name());
    let copy = EspFile {
        to: to.clone(),
        from: EspSource::Image {
            path: placed.file.path.clone(),
            size_bytes: placed.file.size_bytes,
        },
    };
    (format!("/{to}"), Some(copy))
}
