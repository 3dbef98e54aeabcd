//! The parts of `--help` around the options: the commands grouped by purpose, and examples.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

mod common;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod kept;

pub(super) use common::{CommonOptions, for_pages, print_common_options};

/// The commands, grouped by purpose. A test makes sure that no command is missing.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Look at an image",
        &["info", "inspect", "log", "df", "browse", "shell"],
    ),
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
            "create",
            "convert",
            "fetch",
            "import",
            "backup",
            "compare",
            "map",
            "measure",
            "bench",
            "build",
            "seed",
            "oci",
            "partition",
            "mkfs",
            "check",
            "validate",
            "resize",
            "sparsify",
            "snapshot",
            "bitmap",
            "amend",
            "commit",
            "rebase",
            "export",
            "hotplug",
            "serve",
            "uefi",
        ],
    ),
    (
        "Get to know diskfs",
        &[
            "demo",
            "appliance",
            "completions",
            "man",
            "schema",
            "options",
            "help",
        ],
    ),
];

pub(super) const AFTER: &str = "\
Examples:
  diskfs info debian.qcow2
  diskfs ls -l debian.qcow2:/etc
  diskfs cat debian.qcow2:/etc/os-release
  diskfs cp -a debian.qcow2:/var/log ./log
  diskfs tar debian.qcow2:/ | zstd > debian.tar.zst

See `diskfs --help` for image syntax, volume selection, configuration and exit codes.";

pub(super) const AFTER_LONG: &str = "\
Examples:
  diskfs info debian.qcow2
  diskfs ls -l debian.qcow2:/etc
  diskfs cat debian.qcow2:/etc/os-release
  diskfs find debian.qcow2:/var/log -name '*.gz' -size +1M
  diskfs cp -a debian.qcow2:/var/log ./log
  diskfs tar debian.qcow2:/ | zstd > debian.tar.zst

Images and paths:
  IMG:/path is split at the last `:/`. An image can carry options in QEMU's syntax, such as
  `disk.qcow2,format=qcow2,snapshot=before`; a comma in its file name is doubled. `,disk=NAME`
  selects a disk of an OVA or OVF with several. A path without an image belongs to the image before
  it: `diskfs cat disk.qcow2:/etc/hosts /etc/fstab`.

The disk of an OCI image:
  oci-layout:DIR:TAG names the disk in an image layout, oci-archive:FILE:TAG that in a tar archive of
  one: the only file below /disk of the layers (KubeVirt's containerDisk), or the blob of an artifact.
  A single image needs no :TAG; :sha256:... selects one by its digest. `#/disk/path` after that
  selects another file: `diskfs ls 'oci-layout:dir:41#/disk/b.qcow2:/etc'`. DIR and FILE contain no
  colon and no `#`. oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:... names the
  disk of an image in a registry. The disk is only read, and refers to no other files.

The command line of qemu-img:
  `diskfs qemu-img ...`, or a link to diskfs that is called qemu-img, takes the arguments of
  qemu-img and prints what it prints; diskfs-qemu-img(1) lists the differences.

Which files a command sees:
  By default, the files that the guest's operating system itself would see at /: its root
  filesystem, with other filesystems mounted where its fstab says (`diskfs mount --explain` shows
  which are mounted where, and which are skipped and why). --os 2 selects one of several systems.
  --add data.qcow2 adds another disk of the same machine; its partitions are disk2/p1, ...
  If the image has no operating system, commands use its only filesystem.
  --volume selects a single volume: p1 (a partition), vg0/root (an LVM logical volume), md0 (an md
  array), disk (an unpartitioned disk), or a UUID, label, PARTUUID or PARTLABEL.
  The decrypted contents of an encrypted p1 are the volume p1/luks, whose key is given with
  --key p1:ask or --key p1:file:FILE. For an image whose data is encrypted: --key disk.qcow2:ask.
  `diskfs info` lists the volumes. --offset selects the filesystem that begins at a given byte.

Configuration:
  Settings that are given neither on the command line nor in the environment are read from one file:
  $DISKFS_CONFIG if set, else ~/.config/diskfs/config.toml, else /etc/diskfs/config.toml:
    backing = \"chain-owner\"      # files that an image can refer to (backing files, data files):
                                 # \"chain-owner\": below the image's directory, with its owner;
                                 # \"none\"; or a list of directories, such as [\"/srv/templates\"]
    sandbox = \"best-effort\"      # if the host lacks Landlock or seccomp, reading commands continue
                                 # with a warning in the log; \"required\": they fail
    [cache]                      # of images on HTTP servers and in object stores, on disk
    directory = \"/var/cache/x\"  # kept between commands; without it, only in memory
    size = \"10G\"               # the least recently used blocks are removed
    [remote]
    retry = 60.0                 # seconds in which a failed request to such a server is repeated
    [vm]
    backend = \"uml\"              # same as --vm
    appliance = \"/srv/appliance\" # same as --appliance
    memory = \"512M\"              # same as --vm-memory
    deadline = 30.0              # same as --vm-deadline

Exit codes:
  0 success, 1 failure, 2 usage error, 3 not found, 4 unsupported, 5 corrupt, 6 locked or denied.
  After several failures, the code is that of the first one. `diff` and `grep` follow diff(1) and
  grep(1): 0 no difference (a match), 1 differences (no match), 2 failure. `validate`: 0 accepted,
  1 refused, 2 failure.

Changes after a crash or an error:
  A command that changes files uses one transaction of the guest's filesystem: after a crash, either
  the whole change is there or none of it. The change is durable when the command ends. (A command
  that changes several filesystems uses one transaction for each.) If the host or the guest runs out
  of space, or a disk fails, nothing is committed, the command says `nothing was changed`, and an
  overlay that it created is removed. An operand that is refused before its first change (a name
  that exists or is missing) is reported and skipped, as in the coreutils commands of that name.
  This holds for a change that fits in one transaction of the filesystem's journal. The metadata
  that it changes (inodes, directories and maps, but not contents) can take nearly the whole
  journal, and 64 MiB at most. That is enough for 200,000 new files with the 64 MiB journal that
  disks from 2 GiB on have.
  - write, edit, and cp of a single file fail, and change nothing, if they need more than that.
    They also need room for the old and the new contents at the same time.
  - Other commands (cp -r, tar-in, rm -r, ...) continue in further transactions. Each of them
    leaves a consistent filesystem. If a later one fails, they say that a part may have been made.
  - On filesystems without a journal (ext2, FAT, exFAT), an error before the commit changes nothing;
    an error or a crash during the commit can leave a part of the change.
  --dry-run shows what would change. --overlay FILE leaves the image unchanged; the image must then
  stay unchanged, because a change to it damages the disks of its overlays. diskfs refuses to open
  an overlay that it created if the backing file has changed since; --force-stale opens it anyway.

Times are shown in UTC. Names on a terminal are quoted, so that they cannot control it.";

/// Returns clap's definition of the program, with the commands listed by group.
pub(crate) fn command() -> Command {
    let command = common::summed_up(super::Cli::command());
    let list = groups(&command);
    let usage = "{about}\n\n{usage-heading} {usage}\n\n";
    let options = "Options:\n{options}{after-help}\n";
    command.help_template(format!("{usage}{list}{options}"))
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
                None if *name == "help" => "Print the help of a command".to_owned(),
                None => continue,
            };
            let _ = writeln!(list, "  {name:<12} {about}"); // Writing to a String cannot fail.
        }
        list.push('\n');
    }
    list
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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

    #[test]
    fn the_parser_has_the_same_commands_and_options() {
        let mut whole = command().disable_help_subcommand(true);
        whole.build();
        let mut parsed = BTreeSet::new();
        for command in whole.get_subcommands() {
            let words = ["diskfs", command.get_name()].map(Into::into);
            let mut parser = crate::cli::parser(&words).expect("it knows the command");
            parser.build();
            parsed.extend(arguments(&parser));
        }
        let whole = arguments(&whole);
        let missing: Vec<_> = whole.difference(&parsed).collect();
        // The parser leaves the version to the whole definition.
        let [version] = &*missing else {
            panic!("missing: {missing:#?}");
        };
        assert!(version.contains("\"version\""), "{version}");
        assert!(parsed.is_subset(&whole));
    }

    /// Returns the arguments of the command and of those below it, without their help.
    fn arguments(command: &Command) -> BTreeSet<String> {
        let below = command.get_subcommands().flat_map(|below| {
            let all = below.get_all_aliases().chain([below.get_name()]);
            let names: Vec<_> = all.collect();
            let name = names.join(", ");
            let inner = arguments(below);
            inner.into_iter().map(move |it| format!("{name}: {it}"))
        });
        let own = command.get_arguments().map(|argument| {
            let argument = argument.clone().display_order(0).help_heading("");
            let argument = argument.help("").long_help("");
            format!(
                "{:?}",
                argument.hide_short_help(false).hide_long_help(false)
            )
        });
        own.chain(below).collect()
    }
}
