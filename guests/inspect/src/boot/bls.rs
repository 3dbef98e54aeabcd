//! Entries of the Boot Loader Specification, type 1: one file each in `loader/entries`, for
//! systemd-boot and for the GRUB of Fedora and its derivatives.

use super::Entry;
use super::grub::Environment;
use crate::files::{Files, has_extension};
use diskfs_etc::shell::settings;

/// The directories of entries.
const DIRS: [&str; 3] = [
    "/boot/loader/entries",
    "/boot/efi/loader/entries",
    "/efi/loader/entries",
];

/// The settings of systemd-boot, next to the entries.
const SETTINGS: [&str; 3] = [
    "/boot/loader/loader.conf",
    "/boot/efi/loader/loader.conf",
    "/efi/loader/loader.conf",
];

/// Returns the default entry, or else the newest: the last one by file name.
pub(super) fn default_entry(files: &Files<'_>, environment: &Environment) -> Option<Entry> {
    let (dir, names) = DIRS.iter().find_map(|dir| {
        let mut names = files.names(dir);
        names.retain(|name| has_extension(name, "conf"));
        (!names.is_empty()).then_some((dir, names))
    })?;
    let chosen = chosen(files, environment);
    let is_chosen = |name: &&String| {
        let id = name.trim_end_matches(".conf");
        chosen.as_deref().is_some_and(|chosen| {
            let chosen = chosen.trim_end_matches(".conf");
            // loader.conf(5) allows a pattern; usually it is an ID with a trailing star.
            chosen == id
                || chosen
                    .strip_suffix('*')
                    .is_some_and(|it| id.starts_with(it))
        })
    };
    let newest = || names.iter().max_by(|a, b| compare_versions(a, b));
    let name = names.iter().rev().find(is_chosen).or_else(newest)?;
    let path = format!("{dir}/{name}");
    let entry = parse(&files.text(&path)?, environment);
    files.add_source("boot", &path, None);
    Some(entry)
}

/// Returns the default in GRUB's environment, or in systemd-boot's settings.
fn chosen(files: &Files<'_>, environment: &Environment) -> Option<String> {
    let saved = environment.iter().find(|(name, _)| name == "saved_entry");
    if let Some((_, id)) = saved {
        return Some(id.clone());
    }
    SETTINGS.iter().find_map(|path| {
        let text = files.text(path)?;
        let mut found = settings(&text).filter_map(|(_, line)| line.strip_prefix("default"));
        found.next().map(|id| id.trim().to_owned())
    })
}

/// Compares names and treats digits in them as numbers: `6.10` is later than `6.9`.
fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    version_key(a).cmp(&version_key(b))
}

fn version_key(name: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    for part in name.split(|c: char| !c.is_ascii_alphanumeric()) {
        let number = part.parse().unwrap_or(0);
        parts.push((number, part.to_owned()));
    }
    parts
}

fn parse(text: &str, environment: &Environment) -> Entry {
    let mut entry = Entry::default();
    let mut command_line = Vec::new();
    for (_, line) in settings(text) {
        let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let value = value.trim();
        match key {
            "title" => entry.title = Some(value.to_owned()),
            "linux" => entry.kernel = Some(value.to_owned()),
            "initrd" => {
                let first = value.split_whitespace().next();
                entry.initramfs = entry.initramfs.or_else(|| first.map(str::to_owned));
            }
            "options" => command_line.push(expand(value, environment)),
            _ => {}
        }
    }
    entry.command_line = command_line.join(" ");
    entry
}

/// Substitutes variables of GRUB's environment, such as `$kernelopts`. Unknown variables become
/// empty.
fn expand(options: &str, environment: &Environment) -> String {
    let word = |word: &str| match word.strip_prefix('$') {
        Some(name) => {
            let mut known = environment.iter();
            let value = known.find(|(known, _)| known == name.trim_matches(['{', '}']));
            value.map(|(_, value)| value.clone()).unwrap_or_default()
        }
        None => word.to_owned(),
    };
    let words = options.split_whitespace().map(word);
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::grub;
    use crate::testing::guest;
    use diskfs_disk::Filesystem;

    fn default(tree: &Filesystem) -> Option<Entry> {
        let files = Files::new(tree);
        default_entry(&files, &grub::environment(&files))
    }

    const OLD: (&str, &str) = (
        "/boot/loader/entries/0a-5.14.0-9.el9.x86_64.conf",
        "title Old\nlinux /vmlinuz-5.14.0-9\noptions root=UUID=1 ro\n",
    );
    const NEW: (&str, &str) = (
        "/boot/loader/entries/0a-5.14.0-70.el9.x86_64.conf",
        "title New\nlinux /vmlinuz-5.14.0-70\ninitrd /initramfs-5.14.0-70.img $tuned_initrd\noptions $kernelopts $tuned_params quiet\n",
    );

    #[test]
    fn the_chosen_entry_or_the_newest() {
        let environment = "# GRUB Environment Block\nkernelopts=root=/dev/vda1 ro\n";
        let tree = guest(&[OLD, NEW, ("/boot/grub2/grubenv", environment)]);
        let entry = default(&tree).unwrap();
        assert_eq!(entry.title.as_deref(), Some("New"));
        assert_eq!(entry.command_line, "root=/dev/vda1 ro quiet");
        assert_eq!(entry.initramfs.as_deref(), Some("/initramfs-5.14.0-70.img"));

        let saved = "saved_entry=0a-5.14.0-9.el9.x86_64\n";
        let tree = guest(&[OLD, NEW, ("/boot/grub2/grubenv", saved)]);
        let entry = default(&tree).unwrap();
        assert_eq!(entry.title.as_deref(), Some("Old"));

        let settings = (
            "/boot/loader/loader.conf",
            "timeout 3\ndefault 0a-5.14.0-9*\n",
        );
        let tree = guest(&[OLD, NEW, settings]);
        let entry = default(&tree).unwrap();
        assert_eq!(entry.command_line, "root=UUID=1 ro");
    }
}
