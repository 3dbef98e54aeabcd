//! The step `kernel-arguments`: changes the kernel command line in the configuration of boot
//! loaders.

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use diskfs_disk::Result;

/// The settings from which the configuration of a boot loader is generated when a kernel is
/// installed.
const GRUB_DEFAULT: &str = "/etc/default/grub";
const KERNEL_CMDLINE: &str = "/etc/kernel/cmdline";
const UPDATE_EXTLINUX: &str = "/etc/update-extlinux.conf";

/// The configuration that boot loaders read at boot.
const GRUB_CFG: [&str; 3] = [
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
    "/boot/efi/EFI/*/grub.cfg",
];
const BLS_ENTRIES: &str = "/boot/loader/entries/*.conf";
const EXTLINUX: [&str; 4] = [
    "/boot/extlinux/extlinux.conf",
    "/boot/extlinux.conf",
    "/boot/syslinux/syslinux.cfg",
    "/extlinux.conf",
];

/// GRUB's environment block of 1024 bytes. Fedora's boot entries use its variable `kernelopts`.
const GRUBENV: [&str; 2] = ["/boot/grub2/grubenv", "/boot/grub/grubenv"];
const GRUBENV_BYTES: usize = 1024;

/// Arguments that may occur several times.
const REPEATED: [&str; 2] = ["console", "earlycon"];

/// Kernel command-line arguments, which are changed in all boot entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KernelArguments {
    /// Arguments to add. `NAME=VALUE` replaces another value of NAME, except for `console` and
    /// `earlycon`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// Arguments to remove: `NAME` (with any value) or `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

impl KernelArguments {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        // Characters with a meaning in GRUB's scripts or in shells would end the line or change its
        // meaning.
        let is_plain = |char: char| char.is_ascii_graphic() && !"\"'\\`$;&|<>{}".contains(char);
        let is_word = |word: &String| {
            !word.is_empty() && !word.starts_with('#') && word.chars().all(is_plain)
        };
        if let Some(word) = self.add.iter().chain(&self.remove).find(|it| !is_word(it)) {
            return Err(guest.invalid(format!(
                "invalid kernel argument `{word}`: expected one word without quotes or shell \
                 characters"
            )));
        }
        let mut is_known = false;
        for (patterns, edit) in [
            (&[GRUB_DEFAULT][..], Self::in_grub_default as Edit),
            (&[KERNEL_CMDLINE], Self::in_cmdline),
            (&[UPDATE_EXTLINUX], Self::in_update_extlinux),
            (&GRUB_CFG, Self::in_grub_cfg),
            (&[BLS_ENTRIES], Self::in_entry),
            (&EXTLINUX, Self::in_extlinux),
            (&GRUBENV, Self::in_grubenv),
        ] {
            for path in expanded(guest, patterns)? {
                let Some(text) = guest.stage.text(&path)? else {
                    continue;
                };
                is_known = true;
                guest.stage.write_text(&path, &edit(self, &text))?;
            }
        }
        if !is_known {
            guest.note(
                "no known boot loader configuration was found: the kernel arguments were not \
                 changed",
            );
        }
        Ok(())
    }

    /// Returns the arguments with the changes applied. Without a change, the text stays exactly the
    /// same.
    fn edited(&self, arguments: &str) -> String {
        let mut words: Vec<&str> = arguments.split_whitespace().collect();
        words.retain(|word| {
            let is_it =
                |gone: &String| *word == gone || (!gone.contains('=') && name(word) == gone);
            !self.remove.iter().any(is_it)
        });
        for new in &self.add {
            if words.contains(&&**new) {
                continue;
            }
            let is_repeated = REPEATED.contains(&name(new));
            match words.iter_mut().find(|word| name(word) == name(new)) {
                Some(word) if !is_repeated => *word = new,
                _ => words.push(new),
            }
        }
        if arguments.split_whitespace().eq(words.iter().copied()) {
            return arguments.to_owned();
        }
        words.join(" ")
    }

    fn in_cmdline(&self, text: &str) -> String {
        let line = text.trim_end_matches('\n');
        format!("{}\n", self.edited(line))
    }

    /// Edits `GRUB_CMDLINE_LINUX="..."`, which applies to all entries.
    fn in_grub_default(&self, text: &str) -> String {
        self.in_variable(text, "GRUB_CMDLINE_LINUX")
    }

    fn in_update_extlinux(&self, text: &str) -> String {
        self.in_variable(text, "default_kernel_opts")
    }

    fn in_variable(&self, text: &str, key: &str) -> String {
        each_line(text, |line| {
            let value = line.trim_start().strip_prefix(key)?.strip_prefix('=')?;
            let quote = value.chars().next().filter(|char| "\"'".contains(*char));
            let inner = match quote {
                Some(quote) => value.strip_prefix(quote)?.strip_suffix(quote)?,
                None => value,
            };
            Some(format!("{key}=\"{}\"", self.edited(inner)))
        })
    }

    /// Edits lines of the form `linux /vmlinuz-6.1 root=...`.
    fn in_grub_cfg(&self, text: &str) -> String {
        each_line(text, |line| {
            let rest = line.trim_start();
            let indent = line.get(..line.len() - rest.len())?;
            let mut parts = rest.splitn(2, char::is_whitespace);
            let command = parts.next()?;
            if !matches!(command, "linux" | "linux16" | "linuxefi") {
                return None;
            }
            let rest = parts.next()?.trim_start();
            let (kernel, arguments) = rest.split_once(char::is_whitespace)?;
            let gap = line.get(indent.len() + command.len()..)?;
            let gap = gap.get(..gap.len() - gap.trim_start().len())?;
            Some(format!(
                "{indent}{command}{gap}{kernel} {}",
                self.edited(arguments)
            ))
        })
    }

    /// Edits lines of the form `options root=...`. If the options are a variable, GRUB's
    /// environment block holds them.
    fn in_entry(&self, text: &str) -> String {
        each_line(text, |line| {
            let arguments = line.strip_prefix("options")?;
            if !arguments.starts_with([' ', '\t']) || arguments.trim().starts_with("$kernelopts") {
                return None;
            }
            Some(format!("options {}", self.edited(arguments.trim())))
        })
    }

    /// Edits lines of the form `APPEND root=...`.
    fn in_extlinux(&self, text: &str) -> String {
        each_line(text, |line| {
            let rest = line.trim_start();
            let indent = line.get(..line.len() - rest.len())?;
            let (key, arguments) = rest.split_once(char::is_whitespace)?;
            let is_append = key.eq_ignore_ascii_case("append");
            is_append.then(|| format!("{indent}{key} {}", self.edited(arguments.trim())))
        })
    }

    /// Edits the line `kernelopts=root=...`. The block keeps its size.
    fn in_grubenv(&self, text: &str) -> String {
        let new = each_line(text, |line| {
            let arguments = line.strip_prefix("kernelopts=")?;
            Some(format!("kernelopts={}", self.edited(arguments)))
        });
        let content = new.trim_end_matches('#');
        if new == text || text.len() != GRUBENV_BYTES || content.len() > GRUBENV_BYTES {
            return text.to_owned();
        }
        format!("{content:#<GRUBENV_BYTES$}")
    }
}

type Edit = fn(&KernelArguments, &str) -> String;

fn name(argument: &str) -> &str {
    argument.split('=').next().unwrap_or(argument)
}

/// Applies `edit` to each line. Lines for which it returns `None` stay unchanged.
fn each_line(text: &str, edit: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        match edit(content) {
            Some(new) => {
                out.push_str(&new);
                out.push_str(line.get(content.len()..).unwrap_or_default());
            }
            None => out.push_str(line),
        }
    }
    out
}

fn expanded(guest: &Guest, patterns: &[&str]) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for pattern in patterns {
        for path in guest.stage.expand(pattern)? {
            if guest.stage.is_file(&path)? {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use diskfs_fixtures::require;

    use super::super::testing::{after, apply, guest, text};

    const STEP: &str = "- kernel-arguments: {add: [net.ifnames=0, \"console=ttyS0,115200\"], remove: [quiet, rhgb]}";

    #[test]
    fn a_debian() {
        let tree = "-- /etc/default/grub --\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"console=tty0 net.ifnames=1\"\n\
            -- /boot/grub/grub.cfg --\nmenuentry 'x' {\n\tlinux\t/boot/vmlinuz root=UUID=1 ro quiet\n\tinitrd\t/boot/initrd\n}\n";
        let guest = after(tree, STEP);
        assert_eq!(
            text(&guest, "/etc/default/grub"),
            "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"console=tty0 net.ifnames=0 console=ttyS0,115200\"\n"
        );
        assert_eq!(
            text(&guest, "/boot/grub/grub.cfg"),
            "menuentry 'x' {\n\tlinux\t/boot/vmlinuz root=UUID=1 ro net.ifnames=0 console=ttyS0,115200\n\tinitrd\t/boot/initrd\n}\n"
        );
    }

    #[test]
    fn a_fedora_of_entries_and_an_environment() {
        let env = format!(
            "{:#<1024}",
            "# GRUB Environment Block\nkernelopts=root=/dev/vda1 ro rhgb quiet\n"
        );
        let tree = "-- /boot/loader/entries/a.conf --\ntitle x\noptions root=UUID=1 rhgb\n-- /boot/loader/entries/b.conf --\noptions $kernelopts\n-- /etc/kernel/cmdline --\nro quiet\n";
        let mut guest = guest(tree);
        guest.stage.make_dirs("/boot/grub2", 0o755).unwrap();
        guest.stage.write_text("/boot/grub2/grubenv", &env).unwrap();
        apply(&mut guest, STEP).unwrap();
        let new = "net.ifnames=0 console=ttyS0,115200";
        assert_eq!(
            text(&guest, "/boot/loader/entries/a.conf"),
            format!("title x\noptions root=UUID=1 {new}\n")
        );
        assert_eq!(
            text(&guest, "/boot/loader/entries/b.conf"),
            "options $kernelopts\n"
        );
        assert_eq!(text(&guest, "/etc/kernel/cmdline"), format!("ro {new}\n"));
        let env = text(&guest, "/boot/grub2/grubenv");
        assert_eq!(env.len(), 1024);
        assert!(
            env.contains(&format!("kernelopts=root=/dev/vda1 ro {new}\n#")),
            "{env}"
        );
    }

    /// The trees that the tests of `inspect` use: they contain files as distributions write them.
    #[test]
    fn grub_takes_what_is_written() {
        if require("grub-script-check").is_none() {
            return;
        }
        let judge = |script: &str| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("grub.cfg");
            std::fs::write(&path, script).unwrap();
            let run = Command::new("grub-script-check").arg(&path).output();
            let run = run.unwrap();
            (run.status.success(), run)
        };
        let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/inspect");
        let mut count = 0_usize;
        for tree in std::fs::read_dir(trees).unwrap() {
            let tree = tree.unwrap().path().join("tree.txtar");
            let Ok(tree) = std::fs::read_to_string(&tree) else {
                continue;
            };
            let guest = after(&tree, STEP);
            for path in ["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"] {
                let script = text(&guest, path);
                if !script.contains("net.ifnames=0") {
                    continue;
                }
                count += 1;
                let (is_good, run) = judge(&script);
                assert!(is_good, "{run:?}: {script}");
            }
        }
        assert!(count > 1, "{count} scripts");
        // Words that could end the argument are refused.
        for word in ["a;b", "a&b", "a|b", "a<b", "a>b", "a{b", "}", "$x", "#x"] {
            let tree = "-- /boot/grub/grub.cfg --\nlinux /vmlinuz ro\n";
            let step = format!("- kernel-arguments: {{add: ['{word}']}}");
            assert!(apply(&mut guest(tree), &step).is_err(), "{word}");
        }
        assert!(!judge("menuentry 'x' {\n\tlinux /vmlinuz {\n").0);
    }

    #[test]
    fn an_alpine_of_extlinux() {
        let tree = "-- /boot/extlinux.conf --\nLABEL a\n  LINUX vmlinuz\n  APPEND root=/dev/vda3 quiet rootfstype=ext4\n\
            -- /etc/update-extlinux.conf --\ndefault_kernel_opts=\"quiet rootfstype=ext4\"\n";
        let guest = after(tree, STEP);
        let new = "net.ifnames=0 console=ttyS0,115200";
        assert!(
            text(&guest, "/boot/extlinux.conf")
                .contains(&format!("  APPEND root=/dev/vda3 rootfstype=ext4 {new}\n"))
        );
        assert_eq!(
            text(&guest, "/etc/update-extlinux.conf"),
            format!("default_kernel_opts=\"rootfstype=ext4 {new}\"\n")
        );
    }

    #[test]
    fn an_argument_is_one_word() {
        for step in [
            "- kernel-arguments: {add: [\"a b\"]}",
            "- kernel-arguments: {add: ['a\"; reboot']}",
        ] {
            assert!(apply(&mut guest("-- /etc/kernel/cmdline --\nro\n"), step).is_err());
        }
    }
}
