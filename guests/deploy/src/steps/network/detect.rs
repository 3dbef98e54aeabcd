//! Detection of a guest's network stack. It checks what is enabled, not which directories exist.

use super::super::super::EntryKind;
use super::super::super::guest::Guest;
use super::super::units;
use super::settings::Stack;
use super::{ifcfg, wicked};
use diskfs_disk::Result;

/// The paths of netplan in its different versions.
const NETPLAN: [&str; 4] = [
    "/usr/sbin/netplan",
    "/usr/libexec/netplan/generate",
    "/usr/lib/netplan/generate",
    "/lib/netplan/generate",
];

/// Returns true if one of the paths exists.
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

/// Returns true if a unit is started at boot: it is enabled, or a preset of the vendor enables it
/// at the first boot.
pub(super) fn starts(guest: &Guest, unit: &str) -> Result<bool> {
    Ok(guest.is_enabled(unit)? || units::is_on_by_preset(guest, unit)?)
}

/// Returns true if a stack that a plan names is installed, as far as that can be determined.
pub(super) fn is_installed(guest: &Guest, stack: Stack) -> Result<bool> {
    let one_of = |paths: &[&str]| exists_one_of(guest, paths);
    match stack {
        Stack::Auto => Ok(true),
        Stack::Ifupdown | Stack::OpenRc => one_of(&["/sbin/ifup", "/usr/sbin/ifup"]),
        Stack::Netplan => one_of(&NETPLAN),
        Stack::NetworkManager => has_network_manager(guest),
        // Both programs read the files.
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

/// A way to detect the stack; `None` if it has no result.
type Detector = fn(&Guest) -> Result<Option<Stack>>;

/// Detects the guest's network stack.
pub(super) fn stack(guest: &Guest) -> Result<Stack> {
    let detectors: [Detector; 4] = [
        single_stack_system,
        enabled,
        stack_of_init_system,
        installed,
    ];
    for detect in detectors {
        if let Some(stack) = detect(guest)? {
            return Ok(stack);
        }
    }
    let reason = "cannot detect the network stack of the guest; set `stack` in the plan";
    Err(guest.invalid(reason))
}

/// Detects systems that have a single stack of their own.
fn single_stack_system(guest: &Guest) -> Result<Option<Stack>> {
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

/// Detects the stack from the enabled services.
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

/// Detects the stack of systems without such services.
fn stack_of_init_system(guest: &Guest) -> Result<Option<Stack>> {
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

/// Falls back to an installed stack that does not seem to be enabled: a preset may enable it at the
/// first boot.
fn installed(guest: &Guest) -> Result<Option<Stack>> {
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

/// Returns true if a unit is started at boot, or is the target of an alias, such as
/// `network.service` on SUSE.
fn is_enabled(guest: &Guest, unit: &str) -> Result<bool> {
    if starts(guest, unit)? {
        return Ok(true);
    }
    let alias = guest
        .stage
        .link_entry("/etc/systemd/system/network.service")?;
    Ok(alias.is_some_and(|entry| match entry.kind {
        EntryKind::Symlink(target) => target.rsplit('/').next() == Some(unit),
        _ => false,
    }))
}

/// wicked and the older scripts read the same files.
fn is_suse(guest: &Guest) -> Result<bool> {
    let id = &guest.release().id;
    let is_named = id.contains("suse") || matches!(&**id, "sles" | "sled" | "sle-micro");
    let is_suse = is_named || guest.stage.exists("/etc/SuSE-release")?;
    let has_wicked = exists_one_of(guest, &["/usr/sbin/wicked"])?;
    Ok((is_suse || has_wicked) && guest.stage.is_dir(wicked::DIR)?)
}

/// Returns true if Red Hat's scripts are installed. The directory exists even without them.
fn has_scripts(guest: &Guest) -> Result<bool> {
    for name in ["ifup-eth", "ifup"] {
        if guest.stage.exists(&format!("{}/{name}", ifcfg::DIR))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true for version 7 or older, where `NetworkManager` first reads the files of the
/// scripts.
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

/// Returns true if the System V service of the scripts is enabled.
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
