//! GRUB: the entries of `grub.cfg`, and of the `menu.lst` of GRUB Legacy.

use super::Entry;
use crate::files::Files;
use diskfs_etc::shell::{settings, unquote};

/// The configuration files of GRUB 2.
const CONFIGURATIONS: [&str; 2] = ["/boot/grub2/grub.cfg", "/boot/grub/grub.cfg"];

/// The configuration files of GRUB Legacy.
const LEGACY: [&str; 2] = ["/boot/grub/menu.lst", "/boot/grub/grub.conf"];

/// The environment blocks of GRUB.
const ENVIRONMENTS: [&str; 4] = [
    "/boot/grub2/grubenv",
    "/boot/grub/grubenv",
    "/boot/efi/EFI/redhat/grubenv",
    "/boot/efi/EFI/centos/grubenv",
];

/// The names and values of variables.
pub(super) type Environment = [(String, String)];

/// Returns the entry that starts by default.
pub(super) fn default_entry(files: &Files<'_>, environment: &Environment) -> Option<Entry> {
    let of_2 = CONFIGURATIONS.iter().find_map(|path| {
        let text = files.text(path)?;
        Some((path, parse(&text, environment)?))
    });
    let of_1 = || {
        LEGACY.iter().find_map(|path| {
            let text = files.text(path)?;
            Some((path, parse_legacy(&text)?))
        })
    };
    let (path, entry) = of_2.or_else(of_1)?;
    files.add_source("boot", path, None);
    Some(entry)
}

/// Reads the variables that GRUB keeps between boots (its manual, "The GRUB environment block").
pub(super) fn environment(files: &Files<'_>) -> Vec<(String, String)> {
    let text = ENVIRONMENTS.iter().find_map(|path| files.text(path));
    let text = text.unwrap_or_default();
    let variables = settings(&text).filter_map(|(_, line)| line.split_once('='));
    variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// An entry, and the names by which it can be chosen: its title, its ID, and those of the submenus
/// that contain it.
#[derive(Debug, Default)]
struct MenuEntry {
    entry: Entry,
    id: Option<String>,
}

/// Returns the chosen entry, or else the first one.
fn parse(text: &str, environment: &Environment) -> Option<Entry> {
    let mut entries = entries(text);
    let saved = environment.iter().find(|(name, _)| name == "saved_entry");
    let chosen = saved.map(|(_, id)| id.as_str());
    // In `Menu>Entry`, the entry's name is last.
    let chosen = chosen.and_then(|it| it.rsplit('>').next());
    let position = entries.iter().position(|found| {
        let names = [&found.entry.title, &found.id];
        names
            .into_iter()
            .any(|name| chosen.is_some() && name.as_deref() == chosen)
    });
    let number = chosen.and_then(|it| it.parse().ok());
    let index = position.or(number).unwrap_or(0);
    let index = if index < entries.len() { index } else { 0 };
    (!entries.is_empty()).then(|| entries.swap_remove(index).entry)
}

/// Returns the entries that start a Linux kernel: the text between `menuentry` and its closing
/// brace.
fn entries(text: &str) -> Vec<MenuEntry> {
    let mut found: Vec<MenuEntry> = Vec::new();
    let mut open: Option<MenuEntry> = None;
    for (_, line) in settings(text) {
        let mut words = line.split_whitespace();
        let word = words.next().unwrap_or_default();
        match (word, &mut open) {
            ("menuentry", _) => open = Some(begin(line)),
            ("linux" | "linuxefi" | "linux16", Some(entry)) => {
                entry.entry.kernel = words.next().map(unquote);
                let words: Vec<&str> = words.collect();
                entry.entry.command_line = words.join(" ");
            }
            ("initrd" | "initrdefi" | "initrd16", Some(entry)) => {
                entry.entry.initramfs = words.next().map(unquote);
            }
            ("}", Some(_)) => found.extend(open.take().filter(|it| it.entry.kernel.is_some())),
            _ => {}
        }
    }
    found
}

/// Parses the head of an entry: `menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option
/// 'gnulinux-simple-...' {`.
fn begin(line: &str) -> MenuEntry {
    let rest = line.trim_start_matches("menuentry").trim_start();
    let id = rest.split_once("menuentry_id_option").map(|(_, id)| id);
    let id = id.or_else(|| rest.split_once("--id").map(|(_, id)| id));
    MenuEntry {
        entry: Entry {
            title: Some(unquote(rest)),
            ..Entry::default()
        },
        id: id.map(|id| unquote(id.trim_start_matches('=').trim_start())),
    }
}

/// Parses `menu.lst`: `default 0`, and entries that start with `title`.
fn parse_legacy(text: &str) -> Option<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut default = 0;
    for (_, line) in settings(text) {
        let (word, rest) = line
            .split_once(|c: char| c.is_whitespace() || c == '=')
            .unwrap_or((line, ""));
        let rest = rest.trim();
        match (word, entries.last_mut()) {
            ("default", _) => default = rest.parse().unwrap_or(0),
            ("title", _) => entries.push(Entry {
                title: Some(rest.to_owned()),
                ..Entry::default()
            }),
            ("kernel", Some(entry)) => {
                let (kernel, options) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                entry.kernel = Some(kernel.to_owned());
                options.trim().clone_into(&mut entry.command_line);
            }
            ("initrd", Some(entry)) => entry.initramfs = Some(rest.to_owned()),
            _ => {}
        }
    }
    let index = if default < entries.len() { default } else { 0 };
    (!entries.is_empty()).then(|| entries.swap_remove(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRUB: &str = "set default=\"0\"\nif x; then\n  set y\nfi\nmenuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {\n\tif [ $x = y ]; then set a=b; fi\n\tlinux\t/boot/vmlinuz-6.1.0-9-amd64 root=UUID=1 ro  quiet\n\tinitrd\t/boot/initrd.img-6.1.0-9-amd64\n}\nsubmenu 'Advanced' $menuentry_id_option 'adv' {\n\tmenuentry 'Old' --id old {\n\t\tlinux /boot/vmlinuz-5.10 ro single\n\t}\n}\nmenuentry 'Firmware' { fwsetup\n}\n";

    #[test]
    fn the_first_entry_or_the_one_that_was_saved() {
        let first = parse(GRUB, &[]).unwrap();
        assert_eq!(first.title.as_deref(), Some("Debian GNU/Linux"));
        assert_eq!(first.kernel.as_deref(), Some("/boot/vmlinuz-6.1.0-9-amd64"));
        assert_eq!(first.command_line, "root=UUID=1 ro quiet");
        for saved in ["adv>old", "Old", "1"] {
            let saved = [("saved_entry".to_owned(), saved.to_owned())];
            let found = parse(GRUB, &saved).unwrap();
            assert_eq!(found.command_line, "ro single", "{saved:?}");
        }
        assert_eq!(parse("nothing", &[]), None);
    }

    #[test]
    fn menus_of_grub_before_2() {
        let text = "default=1\ntimeout 5\ntitle A\n\troot (hd0,0)\n\tkernel /vmlinuz-1 ro\ntitle B\n\tkernel /vmlinuz-2 ro root=LABEL=/\n\tinitrd /initrd-2\n";
        let found = parse_legacy(text).unwrap();
        assert_eq!(found.command_line, "ro root=LABEL=/");
        assert_eq!(found.initramfs.as_deref(), Some("/initrd-2"));
    }
}
