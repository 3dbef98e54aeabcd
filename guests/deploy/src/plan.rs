//! Plans: ordered lists of steps that change a guest.

use serde::de::DeserializeOwned;
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

/// A plan: an ordered list of steps. In YAML or JSON: `{"steps": [{"hostname": "web1"}]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The steps, which run in this order.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Parses a plan from YAML or JSON (JSON is a subset of YAML).
    ///
    /// # Errors
    /// `Invalid` with the line number if the text is not a valid plan.
    pub fn parse(text: &str) -> Result<Self> {
        parse_plan(text)
    }
}

/// Parses a plan of any kind from YAML or JSON.
///
/// # Errors
/// `Invalid` with the line number if the text is not a valid plan.
pub fn parse_plan<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_saphyr::from_str(text).map_err(|error| {
        // The first line of the message gives the position. The others show the source around it
        // and repeat the message.
        let told = error.to_string();
        let told = told.lines().next().unwrap_or_default();
        let told = told.strip_prefix("error: ").unwrap_or(told);
        Error::new(ErrorKind::Invalid, format!("invalid plan: {told}"))
    })
}

/// Defines the enum of all steps, with the name of each in a plan.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:literal $variant:ident($kind:ty),)*) => {
        /// A step of a plan.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[non_exhaustive]
        pub enum Step {
            $($(#[$doc])* #[serde(rename = $name)] $variant($kind),)*
        }

        impl Step {
            /// Returns the step's name in a plan.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }

            /// Applies the step to the guest.
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
    /// Returns true if the step changes only files, and so works on every operating system.
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

    /// Checks that the step can change a guest of this kind. The settings of Windows are in its
    /// registry, which diskfs does not write.
    fn check_system(&self, guest: &Guest) -> Result<()> {
        if self.is_of_files() || !guest.is_windows() {
            return Ok(());
        }
        let reason = format!("the step {} is not supported for Windows", self.name());
        Err(Error::new(ErrorKind::Unsupported, reason)
            .in_file(guest.stage.guest().image_path())
            .with_hint(
                "for Windows, only steps that change files are supported: write, upload, tar, ...",
            ))
    }
}

steps! {
    /// Sets the host name.
    "hostname" Hostname(Hostname),
    /// Adds or updates entries of `/etc/hosts`.
    "hosts" Hosts(Hosts),
    /// Sets the machine ID, or resets it so that the guest generates a new one.
    "machine-id" MachineId(MachineId),
    /// Renews or removes the saved random seed.
    "random-seed" RandomSeed(RandomSeed),
    /// Sets the time zone.
    "timezone" Timezone(Timezone),
    /// Sets the system locale (`LANG`).
    "locale" Locale(Locale),
    /// Configures DNS: name servers and search domains in `/etc/resolv.conf`.
    "resolver" Resolver(Resolver),
    /// Adds, replaces or removes entries of `/etc/fstab`.
    "fstab" Fstab(Fstab),
    /// Sets up swap space: a new swap file or an existing swap device.
    "swap" Swap(Swap),
    /// Sets kernel parameters (sysctl).
    "sysctl" Sysctl(Sysctl),
    /// Adds or removes kernel command-line arguments in the boot loader's configuration.
    "kernel-arguments" KernelArguments(KernelArguments),
    /// Enables a login prompt on a serial console.
    "serial-console" SerialConsole(SerialConsole),
    /// Adds a CA certificate to the guest's trust store.
    "certificate" Certificate(Certificate),
    /// Installs an agent: its program, its files and the unit or command that starts it.
    "agent" Agent(Agent),
    /// Adds a cron job.
    "cron" Cron(CronStep),
    /// Configures kernel modules to load at boot.
    "modules" Modules(Modules),
    /// Adds or removes udev rules, and sets the names of network interfaces.
    "udev" Udev(Udev),
    /// Adds or removes a package repository.
    "repository" Repository(Repository),
    /// Adds, enables, disables or masks systemd units and `OpenRC` services.
    "units" Units(Units),
    /// Adds a script that runs once, at the next boot.
    "firstboot" Firstboot(Firstboot),
    /// Enables, disables, cleans or seeds cloud-init.
    "cloud-init" CloudInit(CloudInit),
    /// Sets the `SELinux` mode and requests a relabel.
    "selinux" Selinux(Selinux),
    /// Removes machine-specific data, so that the guest can serve as a template.
    "sysprep" Sysprep(Sysprep),
    /// Configures network interfaces: addresses, routes, bonds and VLANs.
    "network" Network(Network),
    /// Creates or changes a user account.
    "user" User(User),
    /// Sets, locks, unlocks, disables or expires the password of a user.
    "password" Password(Password),
    /// Sets, locks, unlocks, disables or expires the password of root.
    "root-password" RootPassword(RootPassword),
    /// Adds or removes SSH public keys that a user can log in with.
    "ssh-key" SshKey(SshKey),
    /// Generates or removes the guest's SSH host keys.
    "ssh-host-keys" SshHostKeys(SshHostKeys),
    /// Sets options of the SSH server in `sshd_config`.
    "sshd" Sshd(Sshd),
    /// Writes a file into `/etc/sudoers.d`.
    "sudoers" Sudoers(Sudoers),
    /// Writes text to a file.
    "write" Write(Write),
    /// Writes a file from a template with variables.
    "template" Template(Template),
    /// Appends text to a file.
    "append" Append(Append),
    /// Merges an object into a JSON file.
    "json" Json(Json),
    /// Copies a local file into the guest.
    "upload" Upload(Upload),
    /// Copies a local file or directory tree into the guest.
    "copy-in" CopyIn(CopyIn),
    /// Unpacks a local tar archive into the guest.
    "tar" Tar(Tar),
    /// Creates a directory and its missing parents.
    "mkdir" MakeDir(MakeDir),
    /// Creates a symbolic link.
    "link" Link(Link),
    /// Deletes a file, a directory tree or what a glob pattern matches.
    "delete" Delete(Delete),
    /// Changes the mode or the owner of a file or directory.
    "permissions" Permissions(Permissions),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plan_is_reported_with_its_line() {
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
