//! The job of `SaveToGlance`: makes a template of a guest.

use diskfs_deploy::{CloudInit, Delete, Deployment, Fstab, Plan, SshHostKeys, Step, Write};
use diskfs_disk::{Disk, ErrorKind, Filesystem, Result};
use diskfs_vfs::FileType;
use serde::{Deserialize, Serialize};

use super::guest::{Guest, System, SystemKind};
use super::plan::apply;
use super::{Access, JobContext, Phase, Source, enter};

/// Removes the identity of the guest on an image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Save {
    /// The image.
    pub disk: Source,
    /// Discards the unused space of all filesystems.
    pub compresses: bool,
}

/// Directories whose files are truncated, at any depth.
const TRUNCATED: [&str; 3] = ["/var/log", "/usr/local/var/log", "/usr/local/var/cache"];

/// Patterns of files that are deleted.
const DELETED: [&str; 17] = [
    "/tmp/*",
    "/tmp/.[!.]*",
    "/var/tmp/*",
    "/var/tmp/.[!.]*",
    "/var/lib/cloud/*",
    "/var/cache/apt/archives/*.deb",
    "/var/cache/apt/*.bin",
    "/var/cache/dnf/*",
    "/var/cache/yum/*",
    "/var/cache/zypp/*",
    "/run/*",
    "/usr/local/var/run/*",
    "/etc/openvswitch/*",
    "/etc/netplan/*.yaml",
    "/etc/sysconfig/network-scripts/route-*",
    "/etc/sysconfig/network/ifroute-*",
    "/etc/NetworkManager/system-connections/*",
];

/// Directories of network scripts whose interfaces, except the loopback, are deleted.
const SCRIPTS: [&str; 2] = ["/etc/sysconfig/network-scripts", "/etc/sysconfig/network"];

const INTERFACES: &str = "/etc/network/interfaces";
const INTERFACES_TEXT: &str = "auto lo\niface lo inet loopback\n";

/// The number of files that the truncation looks at.
const MAX_FILES: usize = 100_000;

impl Save {
    pub(super) fn run(&self, context: &mut dyn JobContext) -> Result<Option<System>> {
        enter(context, Phase::Open)?;
        let disk = context.open(&self.disk, Access::Write)?;
        enter(context, Phase::Prepare)?;
        let system = match Guest::find(&disk)? {
            None => {
                disk.close()?;
                None
            }
            Some(guest) => Some(clean(disk, guest, context)?),
        };
        if self.compresses {
            let disk = context.open(&self.disk, Access::Write)?;
            trim(&disk, context)?;
            disk.close()?;
        }
        Ok(system)
    }
}

fn clean(disk: Disk, guest: Guest, context: &mut dyn JobContext) -> Result<System> {
    let system = guest.system.clone();
    if guest.is_read_only()? || system.kind != SystemKind::Linux {
        disk.close()?;
        return Ok(system);
    }
    let plan = Plan {
        steps: steps(&guest.filesystem)?,
    };
    let deployment = Deployment::prepare_on(&disk, guest.filesystem, &plan)?;
    apply(disk, &guest.found, deployment, context)?;
    Ok(system)
}

fn steps(fs: &Filesystem) -> Result<Vec<Step>> {
    let disks = ('b'..='z').map(|letter| format!("/dev/vd{letter}*"));
    let mut steps = vec![Step::SshHostKeys(SshHostKeys::Remove)];
    if fs.exists("/etc/fstab")? {
        steps.push(Step::Fstab(Fstab {
            add: Vec::new(),
            remove: disks.collect(),
        }));
    }
    if fs.exists("/etc/cloud")? {
        steps.push(Step::CloudInit(CloudInit {
            enabled: Some(true),
            ..CloudInit::default()
        }));
    }
    steps.extend(DELETED.map(|pattern| Step::Delete(Delete(pattern.to_owned()))));
    for dir in SCRIPTS {
        steps.extend(
            interfaces(fs, dir)?
                .into_iter()
                .map(|path| Step::Delete(Delete(path))),
        );
    }
    if fs.exists(INTERFACES)? {
        steps.push(write(INTERFACES.to_owned(), INTERFACES_TEXT));
    }
    for dir in TRUNCATED {
        let files = full_files(fs, dir)?.into_iter();
        steps.extend(files.map(|path| write(path, "")));
    }
    Ok(steps)
}

fn write(path: String, text: &str) -> Step {
    Step::Write(Write {
        path,
        text: text.to_owned(),
        mode: None,
        owner: None,
        only_if_missing: false,
    })
}

/// Returns the paths of the interfaces in a directory of network scripts, without the loopback.
fn interfaces(fs: &Filesystem, dir: &str) -> Result<Vec<String>> {
    if !fs.exists(dir)? || fs.metadata(dir)?.file_type != FileType::Directory {
        return Ok(Vec::new());
    }
    let names = fs.names_at_most(dir, MAX_FILES)?.names.into_iter();
    let is_interface = |name: &String| name.starts_with("ifcfg-") && name != "ifcfg-lo";
    let is_plain = |name: &String| !name.contains(['*', '?', '[', '\\']);
    let names = names.filter(is_interface).filter(is_plain);
    Ok(names.map(|name| format!("{dir}/{name}")).collect())
}

/// Returns the paths of the files below a directory that are not empty. A symlink to a directory
/// is not followed.
fn full_files(fs: &Filesystem, dir: &str) -> Result<Vec<String>> {
    if !fs.exists(dir)? || fs.symlink_metadata(dir)?.file_type != FileType::Directory {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs.walk(dir)?.take(MAX_FILES) {
        let entry = entry?;
        let is_full =
            entry.metadata.file_type == FileType::Regular && entry.metadata.size_bytes > 0;
        let path = String::from_utf8(entry.path).ok().filter(|_| is_full);
        files.extend(path.map(|path| format!("{dir}/{path}")));
    }
    Ok(files)
}

/// Discards the unused space of all filesystems that diskfs writes itself.
fn trim(disk: &Disk, context: &mut dyn JobContext) -> Result<()> {
    enter(context, Phase::Write)?;
    for volume in disk.volumes()? {
        let is_candidate = volume.problem().is_none() && !disk.is_member(volume)?;
        if !is_candidate || volume.content()?.is_none() {
            continue;
        }
        let mut progress = super::written(context);
        let trimmed = volume.trim(&mut |bytes| progress(bytes, 0));
        match trimmed {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                tracing::info!(volume = volume.name(), %error, "unused space was not discarded");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
