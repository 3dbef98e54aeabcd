//! What `--help` says around the options: the commands by what they are for, and examples.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

/// The commands by what they are for. A test holds that none is missing.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Look at an image", &["info", "inspect", "log", "df"]),
    (
        "Look at its files",
        &[
            "ls", "tree", "find", "stat", "cat", "grep", "du", "hash", "diff",
        ],
    ),
    (
        "Get files out of it, or into it",
        &["mount", "umount", "wait", "cp", "tar"],
    ),
    (
        "Change its files",
        &[
            "deploy", "write", "edit", "mkdir", "rm", "mv", "ln", "chmod", "chown", "touch",
            "truncate", "xattr", "tar-in", "run",
        ],
    ),
    (
        "Images as a whole",
        &[
            "create", "mkfs", "check", "resize", "sparsify", "snapshot", "commit", "rebase",
            "export", "uefi",
        ],
    ),
    (
        "Get to know diskfs",
        &["demo", "appliance", "completions", "man", "schema", "help"],
    ),
];

pub(super) const AFTER: &str = "\
Examples:
  diskfs info debian.qcow2
  diskfs ls -l debian.qcow2:/etc
  diskfs cat debian.qcow2:/etc/os-release
  diskfs cp -a debian.qcow2:/var/log ./log
  diskfs tar debian.qcow2:/ | zstd > debian.tar.zst

More with --help: which volume is meant, how images are spelled, exit codes.";

pub(super) const AFTER_LONG: &str = "\
Examples:
  diskfs info debian.qcow2
  diskfs ls -l debian.qcow2:/etc
  diskfs cat debian.qcow2:/etc/os-release
  diskfs find debian.qcow2:/var/log -name '*.gz' -size +1M
  diskfs cp -a debian.qcow2:/var/log ./log
  diskfs tar debian.qcow2:/ | zstd > debian.tar.zst

Images and paths:
  IMG:/path splits at the last `:/`. An image may carry options as QEMU spells them,
  `disk.qcow2,format=qcow2,snapshot=before`; a comma in its name is doubled. A path alone
  belongs to the image before it: `diskfs cat disk.qcow2:/etc/hosts /etc/fstab`.

Which files are meant:
  Those that the operating system itself would see at /: its root, with other filesystems where its
  fstab puts them (`diskfs mount --explain` tells where, and why not). --os 2 names one of several
  systems; --add data.qcow2 adds another disk of the machine, whose partitions are disk2/p1, ...
  Without a system, the only filesystem. One volume alone is named with --volume: p1 (a
  partition), vg0/root (a logical volume of LVM), md0 (an array of md), disk (no partition), a UUID,
  label, PARTUUID or PARTLABEL. What is inside of an encrypted p1 is p1/luks, with its key:
  --key p1:ask or p1:file:FILE; --key disk.qcow2:ask is for an image whose data is encrypted.
  `diskfs info` shows them. --offset takes the filesystem at a byte of the disk.

Configuration:
  What neither the command line nor the environment says is taken from the file that $DISKFS_CONFIG
  names, or from ~/.config/diskfs/config.toml, or /etc/diskfs/config.toml, the first that there is:
    backing = \"chain-owner\"      # which files images may name (backing files, data files):
                                 # \"chain-owner\": below the image's directory, of its owner;
                                 # \"none\"; or a list of directories, as [\"/srv/templates\"]
    [vm]
    backend = \"uml\"              # as --vm
    appliance = \"/srv/appliance\" # as --appliance
    memory = \"512M\"              # as --vm-memory
    pool = 2                     # as --vm-pool

Exit codes:
  0 done, 1 failed, 2 usage, 3 not found, 4 unsupported, 5 corrupt, 6 locked or denied.
  After several failures, the code is that of the first. `diff` and `grep` end as
  diff(1) and grep(1): 0 no difference (a match), 1 some (none), 2 failed.

What a change is worth after a crash or an error:
  A command that changes files is one transaction of the guest's filesystem: whatever happens, it is
  there as a whole or not at all, and it is durable when the command ends. (When a command changes
  several filesystems, each of them has its own.) When the host or the guest has no room left, or a
  disk fails, nothing is committed, and the command says `nothing was changed`; an overlay that it
  made is removed. Only what is refused before its first change (a name that is taken or missing) is
  told and left out, as by the commands of those names.
  That holds for what fits in one transaction of the filesystem's journal: changed inodes, directories
  and maps (not contents) of nearly the whole journal, 64 MiB at most. With the journal of 64 MiB that
  disks from 2 GiB on have, these are 200,000 new files.
  - write, edit, and cp of one file fail, with all as it was, where they would need more than that, or
    room that the contents have which they replace: there must be room for both.
  - Others (cp -r, tar-in, rm -r, ...) go on in further transactions, each of which leaves a sound
    filesystem. One that fails later says that a part may have been made.
  - Without a journal (ext2, FAT, exFAT) an error before the commit changes nothing either; one in
    the commit, or a crash, may leave a part.
  --dry-run shows what would change; --overlay FILE leaves the image as it is, and the image must
  stay so: a change to it damages what its overlays show. An overlay that diskfs made is refused when
  the image behind it has changed; --force-stale opens it all the same.

Times are shown in UTC. Names on a terminal are quoted, so that they can't control it.";

/// The program's definition, with the commands listed by group.
pub(crate) fn command() -> Command {
    let command = with_short_help(super::Cli::command());
    let list = groups(&command);
    let usage = "{about}\n\n{usage-heading} {usage}\n\n";
    let options = "Options:\n{options}{after-help}\n";
    command.help_template(format!("{usage}{list}{options}"))
}

/// Headings of options that many commands share.
const COMMON: [&str; 6] = [
    "Output options",
    "Image options",
    "Volume options",
    "Key options",
    "MicroVM options",
    "Writing options",
];

/// Leaves what commands share out of `-h`, which shows what is a command's own.
fn with_short_help(command: Command) -> Command {
    let mut shared = Vec::new();
    let command = command.mut_args(|argument| {
        let heading = argument.get_help_heading();
        match COMMON.iter().find(|&&common| heading == Some(common)) {
            Some(common) => {
                shared.push(*common);
                argument.hide_short_help(true)
            }
            None => argument,
        }
    });
    let command = command.mut_subcommands(with_short_help);
    if shared.is_empty() || command.get_after_long_help().is_some() {
        return command;
    }
    let long = command.get_after_help().cloned().unwrap_or_default();
    shared.dedup();
    let names: Vec<String> = shared
        .iter()
        .map(|name| name.replacen(" options", "", 1).to_lowercase())
        .collect();
    let more = format!("More with --help: options of {}.", names.join(", "));
    let short = if long.to_string().is_empty() {
        more
    } else {
        format!("{long}\n\n{more}")
    };
    command.after_help(short).after_long_help(long)
}

fn groups(command: &Command) -> String {
    let mut list = String::new();
    for (heading, names) in GROUPS {
        list.push_str(heading);
        list.push_str(":\n");
        for name in names {
            let about = match command.find_subcommand(name) {
                Some(found) => found
                    .get_about()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                None if *name == "help" => "Print help of a command".to_owned(),
                None => continue,
            };
            let _ = writeln!(list, "  {name:<12} {about}"); // Writing to a String does not fail.
        }
        list.push('\n');
    }
    list
}

#[cfg(test)]
mod examples;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound_and_every_command_is_listed() {
        let command = command();
        command.clone().debug_assert();
        for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            let name = subcommand.get_name();
            assert!(
                GROUPS.iter().any(|(_, names)| names.contains(&name)),
                "{name}"
            );
            let about = subcommand
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(!about.is_empty() && about.len() <= 66, "{name}: `{about}`");
        }
    }
}
