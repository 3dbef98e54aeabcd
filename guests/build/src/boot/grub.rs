//! GRUB's image with all modules, and shim before the signed one.

use super::entry::{Entry, PlacedFile};
use super::files::BootFiles;
use super::{Architecture, EspFile, EspSource, default_path, program};

/// Returns GRUB's image as the firmware's default boot loader.
pub(super) fn programs(architecture: Architecture, files: &BootFiles) -> Option<Vec<EspFile>> {
    let (name, efi) = (architecture.grub, architecture.efi);
    let paths = [
        format!("usr/lib/grub/{name}/monolithic/grub{efi}.efi"),
        format!("usr/lib/grub/{name}-signed/grub{efi}.efi.signed"),
    ];
    let to = default_path(architecture);
    let found = paths.iter().find_map(|from| program(files, from, &to))?;
    Some(vec![found])
}

/// Returns shim as the firmware's default boot loader, with the signed image of GRUB and the key
/// manager beside it.
pub(super) fn signed_programs(
    architecture: Architecture,
    files: &BootFiles,
) -> Option<Vec<EspFile>> {
    let (name, efi) = (architecture.grub, architecture.efi);
    let shim = format!("usr/lib/shim/shim{efi}.efi.signed");
    let grub = format!("usr/lib/grub/{name}-signed/grub{efi}.efi.signed");
    let manager = format!("usr/lib/shim/mm{efi}.efi.signed");
    let mut programs = vec![
        program(files, &shim, &default_path(architecture))?,
        program(files, &grub, &format!("EFI/BOOT/grub{efi}.efi"))?,
    ];
    programs.extend(program(files, &manager, &format!("EFI/BOOT/mm{efi}.efi")));
    Some(programs)
}

/// Returns the settings: beside the program, and in the vendor's directory, where the images of
/// distributions look for them.
pub(super) fn settings(entry: &Entry, timeout: u32, vendor: &str, title: &str) -> Vec<EspFile> {
    let text = text(entry, timeout, title);
    let directories = ["BOOT", vendor];
    let files = directories.iter().map(|directory| EspFile {
        to: format!("EFI/{directory}/grub.cfg"),
        from: EspSource::Text(text.clone()),
    });
    files.collect()
}

fn text(entry: &Entry, timeout: u32, title: &str) -> String {
    let title = entry.title.as_deref().unwrap_or(title);
    let kernel = &entry.kernel;
    let initrd = entry.initrd.as_ref();
    let initrd = initrd.map(|file| format!("{}\tinitrd {}\n", search(file), word(&file.path)));
    format!(
        "set timeout={timeout}\nmenuentry {} {{\n{}\tlinux {} {}\n{}}}\n",
        word(title),
        search(kernel),
        word(&kernel.path),
        entry.arguments,
        initrd.unwrap_or_default()
    )
}

/// Returns the command that makes the filesystem of a file GRUB's root.
fn search(file: &PlacedFile) -> String {
    format!("\tsearch --no-floppy --fs-uuid --set=root {}\n", file.uuid)
}

/// Quotes a word for GRUB's shell.
fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
