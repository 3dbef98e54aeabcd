//! Facts about a guest that does not run: its operating system, packages, users, network and
//! services.
//!
//! All facts are read from the guest's files through [`FsRead`](diskfs_vfs::FsRead), so every
//! filesystem and image format works. No program of the guest runs, and nothing is written. A file
//! that can't be read costs only the facts in it and adds a [`Problem`]; it never fails the
//! inspection.
//!
//! The files are treated as hostile: symlinks do not lead out of the guest, only regular files are
//! opened, and reads are limited to the size that a file of the kind can have.

mod accounts;
mod activity;
mod boot;
mod cloud_init;
mod cron;
mod drivers;
mod files;
mod guest_agent;
mod host;
mod ini;
mod kernels;
mod mounts;
mod network;
mod packages;
mod problem;
mod release;
mod sbom;
mod selinux;
mod services;
mod ssh;
mod sudoers;
#[cfg(test)]
mod testing;
mod windows;
mod yaml;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

pub use accounts::{Group, Password, User};
pub use activity::Activity;
pub use boot::{Boot, Entry, Firmware};
pub use cloud_init::CloudInit;
pub use cron::CronJob;
pub use drivers::DriverPlace;
pub use files::Source;
pub use guest_agent::GuestAgent;
pub use kernels::Kernel;
pub use mounts::Mount;
pub use network::{Interface, Network, Route};
pub use packages::{Package, Packages};
pub use problem::Problem;
pub use release::Release;
pub use sbom::{SbomFormat, sbom};
pub use selinux::Selinux;
pub use services::{Service, ServiceState, is_unit};
pub use ssh::{AuthorizedKey, PublicKey, Ssh};
pub use sudoers::SudoRule;
pub use windows::{Adapter, Drive, Hibernation, Program, Start, Windows, WindowsService};

use diskfs_disk::{Filesystem, guest};
use files::Files;

/// The facts about a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Report {
    /// The operating system.
    #[serde(flatten)]
    pub release: Release,
    /// The architecture of its programs, as in uname(1): `x86_64`.
    pub architecture: Option<String>,
    /// The host name.
    pub hostname: Option<String>,
    /// The machine ID (machine-id(5)).
    pub machine_id: Option<String>,
    /// The time zone: `Europe/Berlin`.
    pub timezone: Option<String>,
    /// The locale: `de_DE.UTF-8`.
    pub locale: Option<String>,
    /// The boot configuration.
    pub boot: Boot,
    /// The installed kernels.
    pub kernels: Vec<Kernel>,
    /// The filesystems that it mounts at boot, from its fstab.
    pub mounts: Vec<Mount>,
    /// The user accounts.
    pub users: Vec<User>,
    /// The groups of users.
    pub groups: Vec<Group>,
    /// The sudo rules.
    pub sudoers: Vec<SudoRule>,
    /// The SSH server.
    pub ssh: Ssh,
    /// The network configuration.
    pub network: Network,
    /// The services that it starts at boot.
    pub services: Vec<Service>,
    /// The scheduled jobs.
    pub cron: Vec<CronJob>,
    /// cloud-init, if it is installed.
    pub cloud_init: Option<CloudInit>,
    /// QEMU's guest agent, if it is installed.
    pub guest_agent: Option<GuestAgent>,
    /// The `SELinux` configuration, if there is one.
    pub selinux: Option<Selinux>,
    /// The times at which it last ran.
    pub activity: Activity,
    /// The installed packages.
    pub packages: Packages,
    /// The facts that only Windows has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<Windows>,
    /// The source of each fact, by the name of its field.
    pub sources: BTreeMap<&'static str, Vec<Source>>,
    /// The files that could not be read, with the reasons.
    pub problems: Vec<Problem>,
}

/// Returns the name of the guest's time zone, if it has one configured.
pub fn timezone(tree: &Filesystem) -> Option<String> {
    host::timezone(&Files::new(tree))
}

/// The depth of an inspection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Depth {
    /// Configuration files and databases.
    #[default]
    Files,
    /// Also the initramfs of each kernel, which must be unpacked: some 100 ms each.
    Initramfs,
}

impl Report {
    /// Inspects the tree of a guest, which
    /// [`guest::System::filesystem`](diskfs_disk::guest::System::filesystem) returns.
    pub fn of(tree: &Filesystem, depth: Depth) -> Self {
        let files = Files::new(tree);
        let users = accounts::users(&files);
        let packages = packages::of(&files);
        let report = Self {
            release: release::of(&files),
            architecture: architecture_of(&files),
            hostname: host::name(&files),
            machine_id: host::machine_id(&files),
            timezone: host::timezone(&files),
            locale: host::locale(&files),
            boot: boot::of(&files),
            kernels: kernels::of(&files, depth),
            mounts: mounts::of(&files),
            groups: accounts::groups(&files),
            sudoers: sudoers::of(&files),
            ssh: ssh::of(&files, &users),
            network: network::of(&files),
            services: services::of(&files),
            cron: cron::of(&files),
            cloud_init: cloud_init::of(&files, &packages),
            guest_agent: guest_agent::of(&files, &packages),
            selinux: selinux::of(&files),
            activity: activity::of(&files),
            users,
            packages,
            windows: None,
            sources: BTreeMap::new(),
            problems: Vec::new(),
        };
        let report = windows::answered(&files, report);
        let (mut sources, problems) = files.finish();
        for places in sources.values_mut() {
            places.dedup();
        }
        Self {
            sources,
            problems,
            ..report
        }
    }
}

/// Returns the static IP addresses of the guest's interfaces.
pub fn own_addresses(tree: &Filesystem) -> Vec<IpAddr> {
    let network = network::of(&Files::new(tree));
    let addresses = network.interfaces.iter().flat_map(|it| &it.addresses);
    let addresses = addresses.map(|address| address.split('/').next().unwrap_or_default());
    addresses.filter_map(|it| it.parse().ok()).collect()
}

/// Returns the architecture of the guest's programs.
fn architecture_of(files: &Files<'_>) -> Option<String> {
    let (program, name) = guest::architecture::of(files.filesystem())?;
    files.add_source("architecture", program, None);
    Some(name.to_owned())
}

#[cfg(test)]
mod families;
#[cfg(test)]
mod schema;

#[cfg(test)]
mod tests {
    use diskfs_vfs::FileType;
    use diskfs_vfs::testing::MemoryFs;

    use super::*;

    #[test]
    fn each_answer_says_where_it_came_from() {
        let tree = testing::guest(&[
            ("/etc/os-release", "NAME=x\nID=alpine\nVERSION_ID=3.19.1\n"),
            ("/etc/hostname", "# name\nalp\n"),
            ("/etc/timezone", "UTC\n"),
        ]);
        let report = Report::of(&tree, Depth::Files);
        assert_eq!(report.hostname.as_deref(), Some("alp"));
        let source = |file: &str, line| Source {
            file: file.to_owned(),
            line: Some(line),
        };
        assert_eq!(report.sources["hostname"], [source("/etc/hostname", 2)]);
        assert_eq!(
            report.sources["distribution"],
            [source("/etc/os-release", 2)]
        );
        assert_eq!(report.timezone.as_deref(), Some("UTC"));
        assert_eq!(report.problems, []);
    }

    #[test]
    fn hostile_files_cost_one_answer_each() {
        let mut tree = MemoryFs::new();
        for dir in ["/etc", "/bin", "/var/lib/dpkg"] {
            tree.dir(dir);
        }
        tree.special("/etc/os-release", FileType::Fifo, None);
        tree.special("/etc/passwd", FileType::CharacterDevice, None);
        tree.symlink("/etc/hostname", "/etc/HOSTNAME");
        tree.symlink("/etc/HOSTNAME", "/etc/hostname");
        tree.sparse_file("/etc/machine-id", &[], 1 << 40);
        tree.sparse_file("/var/lib/dpkg/status", &[], 10 << 30);
        tree.symlink(
            "/etc/localtime",
            "../../../../usr/share/zoneinfo/Asia/Tokyo",
        );
        tree.file("/etc/group", &[0xff; 5000]);
        let report = Report::of(&testing::of(tree), Depth::Files);
        let broken: Vec<&str> = report.problems.iter().map(|it| &*it.file).collect();
        for file in [
            "/etc/os-release",
            "/etc/passwd",
            "/etc/hostname",
            "/etc/machine-id",
            "/var/lib/dpkg/status",
            "/etc/group",
        ] {
            assert!(broken.contains(&file), "{file}: {:?}", report.problems);
        }
        assert_eq!(report.timezone.as_deref(), Some("Asia/Tokyo"));
        assert_eq!(report.packages.format, Some("deb"));
        assert_eq!(report.packages.installed, None);
        assert_eq!(report.users, []);
    }
}
