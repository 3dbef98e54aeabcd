//! `extlinux.conf` of SYSLINUX, and of U-Boot (the wiki of SYSLINUX, "Config").

use super::Entry;
use super::grub::Environment;
use crate::files::Files;
use diskfs_etc::shell::settings;

const CONFIGURATIONS: [&str; 3] = [
    "/boot/extlinux/extlinux.conf",
    "/boot/extlinux.conf",
    "/boot/syslinux/syslinux.cfg",
];

/// Returns the entry that starts by default.
pub(super) fn default_entry(files: &Files<'_>, _: &Environment) -> Option<Entry> {
    let (path, entry) = CONFIGURATIONS
        .iter()
        .find_map(|path| Some((path, parse(&files.text(path)?)?)))?;
    files.add_source("boot", path, None);
    Some(entry)
}

/// Returns the entry that `DEFAULT` names, or else the first one.
fn parse(text: &str) -> Option<Entry> {
    let mut default = None;
    let mut entries: Vec<(&str, Entry)> = Vec::new();
    for (_, line) in settings(text) {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let open = entries.last_mut().map(|(_, entry)| entry);
        match (word.to_ascii_lowercase().as_str(), open) {
            ("default", _) => default = Some(rest),
            ("label", _) => entries.push((rest, Entry::default())),
            ("menu", Some(entry)) => {
                let label = rest.get(..6).filter(|it| it.eq_ignore_ascii_case("label "));
                entry.title = label
                    .map(|_| rest[6..].trim().to_owned())
                    .or(entry.title.take());
            }
            ("kernel" | "linux", Some(entry)) => entry.kernel = Some(rest.to_owned()),
            ("initrd", Some(entry)) => entry.initramfs = Some(rest.to_owned()),
            ("append", Some(entry)) => rest.clone_into(&mut entry.command_line),
            _ => {}
        }
    }
    let is_default = |(label, _): &(&str, Entry)| Some(*label) == default;
    let index = entries.iter().position(is_default).unwrap_or(0);
    (!entries.is_empty()).then(|| entries.swap_remove(index).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_entry() {
        let text = "DEFAULT virt\nLABEL lts\n  LINUX vmlinuz-lts\nLABEL virt\n  MENU LABEL Linux virt\n  LINUX vmlinuz-virt\n  INITRD initramfs-virt\n  APPEND root=UUID=1 modules=ext4\n";
        let found = parse(text).unwrap();
        assert_eq!(found.title.as_deref(), Some("Linux virt"));
        assert_eq!(found.command_line, "root=UUID=1 modules=ext4");
        assert_eq!(found.kernel.as_deref(), Some("vmlinuz-virt"));
        assert_eq!(parse("TIMEOUT 1\n"), None);
    }
}
