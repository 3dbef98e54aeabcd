//! What is to be done to a guest: steps, in their order.

use serde::{Deserialize, Serialize};

use super::guest::Guest;
use super::steps::{
    Agent, Append, Certificate, CloudInit, CopyIn, CronStep, Delete, Firstboot, Fstab, Hostname,
    Hosts, Json, KernelArguments, Link, Locale, MachineId, MakeDir, Modules, Network, Password,
    Permissions, RandomSeed, Repository, Resolver, RootPassword, Selinux, SerialConsole,
    SshHostKeys, SshKey, Sshd, Sudoers, Swap, Sysctl, Sysprep, Tar, Template, Timezone, Udev,
    Units, Upload, User, Write,
};
use diskfs_disk::{Error, ErrorKind, Result};

/// Steps, in their order. In YAML or JSON: `{"steps": [{"hostname": "web1"}]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What is done.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Reads a plan from YAML, of which JSON is a part.
    ///
    /// # Errors
    /// `Invalid`, with the line.
    pub fn parse(text: &str) -> Result<Self> {
        serde_saphyr::from_str(text).map_err(|error| {
            // The first line says where; the others show the place, with the same words once more.
            let told = error.to_string();
            let told = told.lines().next().unwrap_or_default();
            let told = told.strip_prefix("error: ").unwrap_or(told);
            Error::new(ErrorKind::Invalid, format!("no plan: {told}"))
        })
    }
}

/// Each kind of step, with its name.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:literal $variant:ident($kind:ty),)*) => {
        /// One thing that is to be so.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[non_exhaustive]
        pub enum Step {
            $($(#[$doc])* #[serde(rename = $name)] $variant($kind),)*
        }

        impl Step {
            /// What a plan calls it.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }

            /// Works it out.
            pub(super) fn apply(&self, guest: &mut Guest) -> Result<()> {
                self.check_system(guest)?;
                match self {
                    $(Self::$variant(step) => step.apply(guest),)*
                }
            }
        }
    };
}

impl Step {
    /// Whether it is of files alone, which every system has.
    fn is_of_files(&self) -> bool {
        matches!(
            self,
            Self::Write(_)
                | Self::Template(_)
                | Self::Append(_)
                | Self::Json(_)
                | Self::Upload(_)
                | Self::CopyIn(_)
                | Self::Tar(_)
                | Self::MakeDir(_)
                | Self::Link(_)
                | Self::Delete(_)
                | Self::Permissions(_)
        )
    }

    /// That the step is for a guest of this kind: settings of Windows are in its registry, which is not written.
    fn check_system(&self, guest: &Guest) -> Result<()> {
        if self.is_of_files() || !guest.is_windows() {
            return Ok(());
        }
        let reason = format!("the step {} is not for Windows", self.name());
        Err(Error::new(ErrorKind::Unsupported, reason)
            .in_file(guest.stage.guest().image_path())
            .with_hint(
                "of Windows only files are changed: write, upload, copy-in, tar, delete, ...",
            ))
    }
}

steps! {
    /// The guest's name.
    "hostname" Hostname(Hostname),
    /// Hosts whose names the guest knows by itself.
    "hosts" Hosts(Hosts),
    /// The machine ID.
    "machine-id" MachineId(MachineId),
    /// The seed of random numbers.
    "random-seed" RandomSeed(RandomSeed),
    /// The time zone.
    "timezone" Timezone(Timezone),
    /// The locale.
    "locale" Locale(Locale),
    /// Servers of names.
    "resolver" Resolver(Resolver),
    /// What the guest mounts.
    "fstab" Fstab(Fstab),
    /// Where the guest swaps to.
    "swap" Swap(Swap),
    /// Settings of the kernel.
    "sysctl" Sysctl(Sysctl),
    /// What the kernel is started with.
    "kernel-arguments" KernelArguments(KernelArguments),
    /// A login on a serial line.
    "serial-console" SerialConsole(SerialConsole),
    /// An authority whose certificates the guest trusts.
    "certificate" Certificate(Certificate),
    /// A program that watches or serves the guest from within.
    "agent" Agent(Agent),
    /// A command that the guest runs at set times.
    "cron" Cron(CronStep),
    /// Modules that the kernel loads.
    "modules" Modules(Modules),
    /// What the guest does with devices.
    "udev" Udev(Udev),
    /// Where the guest gets packages from.
    "repository" Repository(Repository),
    /// Units and services that the guest starts by itself, or does not.
    "units" Units(Units),
    /// A script that the guest runs once, when it starts next.
    "firstboot" Firstboot(Firstboot),
    /// What cloud-init does.
    "cloud-init" CloudInit(CloudInit),
    /// What the guest does with `SELinux`.
    "selinux" Selinux(Selinux),
    /// What is taken away for a template.
    "sysprep" Sysprep(Sysprep),
    /// Addresses and routes of the interfaces.
    "network" Network(Network),
    /// A user.
    "user" User(User),
    /// A user's password.
    "password" Password(Password),
    /// The password of root.
    "root-password" RootPassword(RootPassword),
    /// Keys that let a user in.
    "ssh-key" SshKey(SshKey),
    /// The keys that sshd shows who it is with.
    "ssh-host-keys" SshHostKeys(SshHostKeys),
    /// Settings of sshd.
    "sshd" Sshd(Sshd),
    /// A file of sudo.
    "sudoers" Sudoers(Sudoers),
    /// A file with a text.
    "write" Write(Write),
    /// A file with a text in which variables are put.
    "template" Template(Template),
    /// A text behind what a file has.
    "append" Append(Append),
    /// Merges an object into a JSON file.
    "json" Json(Json),
    /// A file of this machine.
    "upload" Upload(Upload),
    /// A file or directory of this machine, with all below.
    "copy-in" CopyIn(CopyIn),
    /// An archive of this machine, unpacked.
    "tar" Tar(Tar),
    /// A directory, with those above it.
    "mkdir" MakeDir(MakeDir),
    /// A symlink.
    "link" Link(Link),
    /// A path or pattern that is not to be, with all below it.
    "delete" Delete(Delete),
    /// Mode and owner of what is there.
    "permissions" Permissions(Permissions),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plan_is_told_with_its_line() {
        let error = Plan::parse("steps:\n  - hostnam: x\n").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.contains("hostnam") && text.contains('2'), "{text}");
    }

    #[test]
    fn a_plan_is_json_too() {
        let text = r#"{"steps":[{"hostname":"web1"},{"delete":"/etc/motd"}]}"#;
        let plan = Plan::parse(text).unwrap();
        assert_eq!(serde_json::to_string(&plan).unwrap(), text);
    }
}
