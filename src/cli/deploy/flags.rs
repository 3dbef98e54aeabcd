//! Steps as options with the names of virt-customize and virt-sysprep. The steps run in the order
//! of the command line.

mod passwords;
mod ssh_keys;

use std::path::PathBuf;

use clap::builder::StyledStr;
use clap::error::ErrorKind as ClapErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use diskfs::deploy::{
    Append, CopyIn, Delete, Firstboot, Hostname, Link, Locale, MachineId, MakeDir, Mode, Owner,
    Permissions, RootPassword, Selector, Selinux, SelinuxMode, Step, Sysprep, Tar, Timezone, Units,
    Upload, Write,
};

/// An option without a value for the step `selinux`. These steps come after all others.
struct Switch {
    name: &'static str,
    help: &'static str,
    step: Selinux,
}

const SWITCHES: [Switch; 2] = [
    Switch {
        name: "selinux-disable",
        help: "Disable SELinux in the guest; short for --selinux disabled",
        step: Selinux {
            mode: Some(SelinuxMode::Disabled),
            relabel: false,
        },
    },
    Switch {
        name: "selinux-relabel",
        help: "Relabel all files for SELinux at the next start of the guest",
        step: Selinux {
            mode: None,
            relabel: true,
        },
    },
];

/// An option with a value, which stands for one step.
struct Flag {
    name: &'static str,
    value: &'static str,
    help: &'static str,
    parse: fn(&str) -> Parsed,
}

type Parsed = std::result::Result<Step, String>;

/// The options of virt-customize that diskfs does not have, since they run a program of the guest
/// or since another command does the same, each with a replacement.
const REFUSED: [(&str, &str); 11] = [
    (
        "run-command",
        "no program of the guest is run; use --firstboot-command to run it at the next start, or `diskfs run` to run it in a microVM",
    ),
    (
        "run",
        "no program of the guest is run; use --firstboot to run a script at the next start",
    ),
    (
        "install",
        "no program of the guest is run; use --firstboot-command 'apt-get -y install ...' (or dnf, apk) to install at the next start",
    ),
    (
        "update",
        "no program of the guest is run; use --firstboot-command 'apt-get -y upgrade' (or dnf, apk) to update at the next start",
    ),
    (
        "uninstall",
        "no program of the guest is run; use --firstboot-command 'apt-get -y purge ...' (or dnf, apk) to uninstall at the next start",
    ),
    (
        "firstboot-install",
        "no program of the guest is run; use --firstboot-command 'apt-get -y install ...' (or dnf, apk), or user data with `packages`",
    ),
    ("edit", "use `diskfs edit`, or a plan that writes the file"),
    (
        "copy",
        "use `diskfs cp IMG:FILE IMG:DEST` to copy within a guest",
    ),
    ("move", "use `diskfs mv IMG:FILE DEST` to rename"),
    (
        "scrub",
        "use --delete; overwriting a file does not reliably erase its data in an image",
    ),
    (
        "commands-from-file",
        "use --plan FILE, with the steps in YAML or JSON",
    ),
];

const FLAGS: &[Flag] = &[
    Flag {
        name: "hostname",
        value: "NAME",
        help: "Set the guest's host name",
        parse: |value| Ok(Step::Hostname(Hostname(value.to_owned()))),
    },
    Flag {
        name: "root-password",
        value: "SELECTOR",
        help: "Set root's password: password:TEXT, file:FILE, hash:HASH, random, locked, unlock, disabled",
        parse: |value| {
            let password = passwords::parse(value)?;
            Ok(Step::RootPassword(RootPassword(Selector::Detailed(
                password,
            ))))
        },
    },
    Flag {
        name: "password",
        value: "USER:SELECTOR",
        help: "Set a user's password, with a selector of --root-password",
        parse: |value| {
            let (user, selector) = pair(value, "USER:SELECTOR")?;
            let mut password = passwords::parse(&selector)?;
            password.user = Some(user);
            Ok(Step::Password(password))
        },
    },
    Flag {
        name: "ssh-inject",
        value: "USER[:SELECTOR]",
        help: "Authorize an SSH key of a user: file:FILE or string:KEY [default: your own key]",
        parse: |value| Ok(Step::SshKey(ssh_keys::parse(value)?)),
    },
    Flag {
        name: "write",
        value: "FILE:TEXT",
        help: "Write a file with this text",
        parse: |value| {
            let (path, text) = pair(value, "FILE:TEXT")?;
            Ok(Step::Write(Write {
                path,
                text,
                mode: None,
                owner: None,
                only_if_missing: false,
            }))
        },
    },
    Flag {
        name: "append-line",
        value: "FILE:LINE",
        help: "Append a line to a file, unless the file already contains it",
        parse: |value| {
            let (path, line) = pair(value, "FILE:LINE")?;
            let text = line + "\n";
            Ok(Step::Append(Append {
                path,
                text,
                only_if_missing: false,
                verbatim: false,
            }))
        },
    },
    Flag {
        name: "upload",
        value: "FILE:DEST",
        help: "Copy a file of this machine into the guest",
        parse: |value| {
            let (from, to) = pair(value, "FILE:DEST")?;
            Ok(Step::Upload(Upload {
                from: PathBuf::from(from),
                to,
                mode: None,
                owner: None,
            }))
        },
    },
    Flag {
        name: "copy-in",
        value: "LOCAL:DIR",
        help: "Copy a file or a directory tree of this machine into a directory of the guest",
        parse: |value| {
            let (from, to) = pair(value, "LOCAL:DIR")?;
            Ok(Step::CopyIn(CopyIn {
                from: PathBuf::from(from),
                to,
                owner: None,
            }))
        },
    },
    Flag {
        name: "tar-in",
        value: "FILE:DIR",
        help: "Unpack an archive of this machine into a directory of the guest",
        parse: |value| {
            let (from, to) = pair(value, "FILE:DIR")?;
            Ok(Step::Tar(Tar {
                from: PathBuf::from(from),
                to,
                owner: None,
            }))
        },
    },
    Flag {
        name: "mkdir",
        value: "DIR",
        help: "Create a directory, and its missing parents",
        parse: |value| {
            Ok(Step::MakeDir(MakeDir {
                path: value.to_owned(),
                mode: None,
                owner: None,
            }))
        },
    },
    Flag {
        name: "link",
        value: "TARGET:LINK",
        help: "Create a symlink",
        parse: |value| {
            let (target, path) = pair(value, "TARGET:LINK")?;
            Ok(Step::Link(Link { path, target }))
        },
    },
    Flag {
        name: "delete",
        value: "PATH",
        help: "Delete a file or a directory tree, or all that a pattern matches",
        parse: |value| Ok(Step::Delete(Delete(value.to_owned()))),
    },
    Flag {
        name: "touch",
        value: "FILE",
        help: "Create an empty file, unless the file exists",
        parse: |value| {
            let (path, text) = (value.to_owned(), String::new());
            Ok(Step::Append(Append {
                path,
                text,
                only_if_missing: false,
                verbatim: false,
            }))
        },
    },
    Flag {
        name: "truncate",
        value: "FILE",
        help: "Truncate a file to length zero",
        parse: |value| {
            Ok(Step::Write(Write {
                path: value.to_owned(),
                text: String::new(),
                mode: None,
                owner: None,
                only_if_missing: false,
            }))
        },
    },
    Flag {
        name: "chmod",
        value: "MODE:FILE",
        help: "Set the mode of a file, in octal",
        parse: |value| {
            let (mode, path) = pair(value, "MODE:FILE")?;
            let mode = Some(Mode::parse(&mode)?);
            Ok(Step::Permissions(Permissions {
                path,
                mode,
                owner: None,
            }))
        },
    },
    Flag {
        name: "chown",
        value: "USER:GROUP:PATH",
        help: "Set the owner and group of a file, by name or number",
        parse: |value| {
            let (user, rest) = pair(value, "USER:GROUP:PATH")?;
            let (group, path) = pair(&rest, "USER:GROUP:PATH")?;
            let owner = Some(Owner(format!("{user}:{group}")));
            Ok(Step::Permissions(Permissions {
                path,
                mode: None,
                owner,
            }))
        },
    },
    Flag {
        name: "timezone",
        value: "NAME",
        help: "Set the time zone, such as Europe/Berlin",
        parse: |value| Ok(Step::Timezone(Timezone(value.to_owned()))),
    },
    Flag {
        name: "locale",
        value: "NAME",
        help: "Set the locale, such as de_DE.UTF-8",
        parse: |value| Ok(Step::Locale(Locale(value.to_owned()))),
    },
    Flag {
        name: "machine-id",
        value: "reset|ID",
        help: "Set the machine ID, or reset it, so that the guest generates a new one",
        parse: |value| Ok(Step::MachineId(MachineId(value.to_owned()))),
    },
    Flag {
        name: "firstboot",
        value: "FILE",
        help: "Copy a script of this machine, and run it once at the next start of the guest",
        parse: |value| {
            Ok(Step::Firstboot(Firstboot {
                name: None,
                script: None,
                file: Some(PathBuf::from(value)),
            }))
        },
    },
    Flag {
        name: "firstboot-command",
        value: "COMMAND",
        help: "Run shell commands once, at the next start of the guest",
        parse: |value| {
            Ok(Step::Firstboot(Firstboot {
                name: None,
                script: Some(value.to_owned()),
                file: None,
            }))
        },
    },
    Flag {
        name: "enable",
        value: "UNIT",
        help: "Enable a unit or service at boot",
        parse: |value| {
            Ok(Step::Units(Units {
                enable: vec![value.to_owned()],
                ..Units::default()
            }))
        },
    },
    Flag {
        name: "disable",
        value: "UNIT",
        help: "Disable a unit or service at boot",
        parse: |value| {
            Ok(Step::Units(Units {
                disable: vec![value.to_owned()],
                ..Units::default()
            }))
        },
    },
    Flag {
        name: "selinux",
        value: "MODE",
        help: "Set the SELinux mode: enforcing, permissive or disabled",
        parse: |value| {
            let mode = match value {
                "enforcing" => SelinuxMode::Enforcing,
                "permissive" => SelinuxMode::Permissive,
                "disabled" => SelinuxMode::Disabled,
                _ => return Err("unknown mode; known: enforcing, permissive, disabled".to_owned()),
            };
            Ok(Step::Selinux(Selinux {
                mode: Some(mode),
                relabel: false,
            }))
        },
    },
    Flag {
        name: "operations",
        value: "NAME,...",
        help: "Remove the guest's identity to make a template, as virt-sysprep does: defaults, all, NAME, -NAME",
        parse: |value| {
            let names = value.split(',').map(str::to_owned).collect();
            Ok(Step::Sysprep(Sysprep(names)))
        },
    },
];

/// The steps given as options.
#[derive(Debug, Clone, Default)]
pub(super) struct Flags {
    steps: Vec<Step>,
}

impl Flags {
    pub(super) fn steps(&self) -> Vec<Step> {
        self.steps.clone()
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let args = FLAGS.iter().map(|flag| {
            arg(flag.name)
                .value_name(flag.value)
                .help(StyledStr::from(flag.help))
                .help_heading("Steps")
        });
        let refused = REFUSED
            .iter()
            .map(|(name, _)| arg(name).hide(true).num_args(0..=1));
        let switches = SWITCHES.map(|switch| {
            Arg::new(switch.name)
                .long(switch.name)
                .action(ArgAction::SetTrue)
                .help(switch.help)
                .help_heading("Steps")
        });
        command.args(args).args(switches).args(refused)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        for (name, instead) in REFUSED {
            if matches.contains_id(name) {
                let text = format!("--{name} is not supported: {instead}\n");
                return Err(clap::Error::raw(ClapErrorKind::ValueValidation, text));
            }
        }
        let mut steps = Vec::new();
        for switch in SWITCHES {
            if matches.get_flag(switch.name) {
                steps.push((usize::MAX, Step::Selinux(switch.step)));
            }
        }
        for flag in FLAGS {
            let values = matches.get_many::<String>(flag.name);
            let places = matches.indices_of(flag.name);
            let pairs = places
                .into_iter()
                .flatten()
                .zip(values.into_iter().flatten());
            for (place, value) in pairs {
                let step = (flag.parse)(value).map_err(|reason| {
                    let text = format!("--{} {value}: {reason}\n", flag.name);
                    clap::Error::raw(ClapErrorKind::ValueValidation, text)
                })?;
                steps.push((place, step));
            }
        }
        steps.sort_by_key(|(place, _)| *place);
        Ok(Self {
            steps: steps.into_iter().map(|(_, step)| step).collect(),
        })
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arg(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::Append)
        .allow_hyphen_values(true)
}

/// Splits a value at its first colon.
fn pair(value: &str, form: &str) -> std::result::Result<(String, String), String> {
    let sides = value.split_once(':');
    let (left, right) = sides.ok_or_else(|| format!("expected {form}"))?;
    Ok((left.to_owned(), right.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(words: &[&str]) -> std::result::Result<Vec<Step>, String> {
        let command = Flags::augment_args(Command::new("deploy"));
        let matches = command.try_get_matches_from([&["deploy"], words].concat());
        let matches = matches.map_err(|error| error.to_string())?;
        let flags = Flags::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        Ok(flags.steps)
    }

    #[test]
    fn steps_have_the_order_of_the_options() {
        let words = ["--delete", "/a", "--write", "/a:x:y", "--delete", "/b"];
        let names: Vec<&str> = steps(&words).unwrap().iter().map(Step::name).collect();
        assert_eq!(names, ["delete", "write", "delete"]);
    }

    #[test]
    fn what_runs_the_guest_is_refused_with_what_to_use() {
        let error = steps(&["--run-command", "id"]).unwrap_err();
        assert!(error.contains("--firstboot-command"), "{error}");
        assert!(steps(&["--chmod", "9:/a"]).unwrap_err().contains("octal"));
        assert!(steps(&["--write", "/a"]).unwrap_err().contains("FILE:TEXT"));
    }

    #[test]
    fn switches_come_last() {
        let words = ["--selinux-relabel", "--selinux-disable", "--touch", "/a"];
        let steps = steps(&words).unwrap();
        assert_eq!(steps[1], Step::Selinux(SWITCHES[0].step.clone()));
        assert_eq!(steps[2], Step::Selinux(SWITCHES[1].step.clone()));
        assert_eq!(steps.len(), 3);
    }

    #[test]
    fn passwords_and_keys_have_selectors() {
        let words = [
            "--root-password",
            "password:a:b",
            "--password",
            "ann:locked",
            "--ssh-inject",
            "ann:string:ssh-ed25519 AAAA x",
        ];
        let steps = steps(&words).unwrap();
        let Step::RootPassword(RootPassword(Selector::Detailed(password))) = &steps[0] else {
            panic!("{steps:?}");
        };
        assert_eq!(password.text.as_deref(), Some("a:b"));
        let Step::Password(password) = &steps[1] else {
            panic!("{steps:?}");
        };
        assert_eq!(
            (password.user.as_deref(), password.locked),
            (Some("ann"), true)
        );
        let Step::SshKey(key) = &steps[2] else {
            panic!("{steps:?}");
        };
        assert_eq!(key.keys, ["ssh-ed25519 AAAA x"]);
    }

    #[test]
    fn a_password_says_what_it_is() {
        for word in ["secret", "file:/none", "locked:x"] {
            assert!(steps(&["--root-password", word]).is_err(), "{word}");
        }
    }
}
