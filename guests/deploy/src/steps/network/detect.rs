//! What sets a guest's network up: what is enabled, not what directories there are.

use super::super::super::Kind;
use super::super::super::guest::Guest;
use super::super::units;
use super::settings::Stack;
use super::{ifcfg, wicked};
use diskfs_disk::Result;

/// What netplan has in one place or another.
const NETPLAN: [&str; 4] = [
    "/usr/sbin/netplan",
    "/usr/libexec/netplan/generate",
    "/usr/lib/netplan/generate",
    "/lib/netplan/generate",
];

/// Whether there is one of them.
pub(super) fn exists_one_of(guest: &Guest, paths: &[&str]) -> Result<bool> {
    for path in paths {
        if guest.stage.link_entry(path)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn has_network_manager(guest: &Guest) -> Result<bool> {
    exists_one_of(
        guest,
        &["/usr/sbin/NetworkManager", "/usr/bin/NetworkManager"],
    )
}

pub(super) fn has_networkd(guest: &Guest) -> Result<bool> {
    let places = [
        "/usr/lib/systemd/systemd-networkd",
        "/lib/systemd/systemd-networkd",
    ];
    exists_one_of(guest, &places)
}

pub(super) fn has_cloud_init(guest: &Guest) -> Result<bool> {
    let places = ["/usr/bin/cloud-init", "/usr/local/bin/cloud-init"];
    Ok(guest.stage.is_dir("/etc/cloud")? && exists_one_of(guest, &places)?)
}

/// Whether a unit starts with the guest: it is enabled, or will be by a preset of the vendor at the first start.
pub(super) fn starts(guest: &Guest, unit: &str) -> Result<bool> {
    Ok(guest.is_enabled(unit)? || units::is_on_by_preset(guest, unit)?)
}

/// Whether a stack that a plan names is installed, as far as that can be seen.
pub(super) fn is_installed(guest: &Guest, stack: Stack) -> Result<bool> {
    let one_of = |paths: &[&str]| exists_one_of(guest, paths);
    match stack {
        Stack::Auto => Ok(true),
        Stack::Ifupdown | Stack::OpenRc => one_of(&["/sbin/ifup", "/usr/sbin/ifup"]),
        Stack::Netplan => one_of(&NETPLAN),
        Stack::NetworkManager => has_network_manager(guest),
        // Both read the files.
        Stack::Ifcfg => Ok(has_scripts(guest)? || has_network_manager(guest)?),
        Stack::Wicked => is_suse(guest),
        Stack::Networkd => has_networkd(guest),
        Stack::Uci => one_of(&["/sbin/uci"]),
        Stack::Netifrc => one_of(&["/etc/init.d/net.lo"]),
        Stack::Netctl => one_of(&["/usr/bin/netctl", "/usr/lib/systemd/system/netctl@.service"]),
        Stack::CloudInit => has_cloud_init(guest),
        Stack::RcConf => one_of(&["/bin/freebsd-version", "/etc/rc.subr"]),
    }
}

/// A way to tell; `None` where it says nothing.
type Way = fn(&Guest) -> Result<Option<Stack>>;

/// What sets the network up.
pub(super) fn stack(guest: &Guest) -> Result<Stack> {
    let ways: [Way; 4] = [of_its_own, enabled, of_init, only_there];
    for way in ways {
        if let Some(stack) = way(guest)? {
            return Ok(stack);
        }
    }
    let reason = "nothing is known of what sets the network up: the plan can say a `stack`";
    Err(guest.invalid(reason))
}

/// Systems that have one, and no other.
fn of_its_own(guest: &Guest) -> Result<Option<Stack>> {
    let id = &*guest.release().id;
    if id == "freebsd" || guest.stage.exists("/bin/freebsd-version")? {
        return Ok(Some(Stack::RcConf));
    }
    let openwrt = ["/sbin/uci", "/etc/openwrt_release"];
    if guest.stage.is_file("/etc/config/network")? && exists_one_of(guest, &openwrt)? {
        return Ok(Some(Stack::Uci));
    }
    Ok(exists_one_of(guest, &NETPLAN)?.then_some(Stack::Netplan))
}

/// Services that start.
fn enabled(guest: &Guest) -> Result<Option<Stack>> {
    let is_managed = has_network_manager(guest)? && is_enabled(guest, "NetworkManager.service")?;
    if is_suse(guest)? {
        return Ok(Some(if is_managed {
            Stack::NetworkManager
        } else {
            Stack::Wicked
        }));
    }
    if has_scripts(guest)? && (is_old_red_hat(guest) || starts_scripts(guest)?) {
        return Ok(Some(Stack::Ifcfg));
    }
    if is_managed {
        return Ok(Some(Stack::NetworkManager));
    }
    if has_networkd(guest)? && is_enabled(guest, "systemd-networkd.service")? {
        return Ok(Some(Stack::Networkd));
    }
    let netctl = guest
        .stage
        .names("/etc/systemd/system/multi-user.target.wants");
    let is_netctl = |name: &String| name.starts_with("netctl@");
    Ok(netctl?.iter().any(is_netctl).then_some(Stack::Netctl))
}

/// What systems without such a service start.
fn of_init(guest: &Guest) -> Result<Option<Stack>> {
    let is_alpine = guest.release().id == "alpine" || guest.stage.exists("/etc/alpine-release")?;
    if is_alpine {
        return Ok(Some(Stack::OpenRc));
    }
    let has_ifup = exists_one_of(guest, &["/sbin/ifup", "/usr/sbin/ifup"])?;
    if has_ifup && guest.stage.is_dir("/etc/network")? {
        return Ok(Some(Stack::Ifupdown));
    }
    Ok(exists_one_of(guest, &["/etc/init.d/net.lo"])?.then_some(Stack::Netifrc))
}

/// What is there, though nothing says that it starts: services that a preset enables at the first start.
fn only_there(guest: &Guest) -> Result<Option<Stack>> {
    Ok(if has_scripts(guest)? {
        Some(Stack::Ifcfg)
    } else if has_network_manager(guest)? {
        Some(Stack::NetworkManager)
    } else if has_networkd(guest)? {
        Some(Stack::Networkd)
    } else {
        None
    })
}

/// Whether a unit starts with the guest, or is what another name of a service stands for, as `network.service` of SUSE.
fn is_enabled(guest: &Guest, unit: &str) -> Result<bool> {
    if starts(guest, unit)? {
        return Ok(true);
    }
    let alias = guest
        .stage
        .link_entry("/etc/systemd/system/network.service")?;
    Ok(alias.is_some_and(|entry| match entry.kind {
        Kind::Symlink(target) => target.rsplit('/').next() == Some(unit),
        _ => false,
    }))
}

/// wicked, and the scripts before it, read the same files.
fn is_suse(guest: &Guest) -> Result<bool> {
    let id = &guest.release().id;
    let is_named = id.contains("suse") || matches!(&**id, "sles" | "sled" | "sle-micro");
    let is_suse = is_named || guest.stage.exists("/etc/SuSE-release")?;
    let has_wicked = exists_one_of(guest, &["/usr/sbin/wicked"])?;
    Ok((is_suse || has_wicked) && guest.stage.is_dir(wicked::DIR)?)
}

/// Red Hat's scripts themselves: the directory is there without them, too.
fn has_scripts(guest: &Guest) -> Result<bool> {
    for name in ["ifup-eth", "ifup"] {
        if guest.stage.exists(&format!("{}/{name}", ifcfg::DIR))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether it is version 7 or older: `NetworkManager` reads the scripts' files there first.
fn is_old_red_hat(guest: &Guest) -> bool {
    let release = guest.release();
    let families = [
        "rhel",
        "centos",
        "ol",
        "rocky",
        "almalinux",
        "scientific",
        "anolis",
    ];
    let version = release.version_id.split('.').next().unwrap_or_default();
    families.contains(&&*release.id) && version.parse().is_ok_and(|version: u32| version <= 7)
}

/// The service of the scripts, which is of System V.
fn starts_scripts(guest: &Guest) -> Result<bool> {
    for level in ["/etc/rc.d/rc3.d", "/etc/rc3.d"] {
        let names = guest.stage.names(level)?;
        let is_it = |name: &String| name.starts_with('S') && name.ends_with("network");
        if names.iter().any(is_it) {
            return Ok(true);
        }
    }
    guest.is_enabled("network.service")
}
