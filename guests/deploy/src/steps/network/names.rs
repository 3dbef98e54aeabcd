//! The names of interfaces: rules that name them by hardware address.

use super::super::super::guest::Guest;
use super::super::super::text::of_lines;
use super::detect::exists_one_of;
use super::files::{Files, is_deployed};
use super::links::{Link, Setup};
use super::settings::Stack;
use super::values::Mac;
use diskfs_disk::Result;

/// The directory of systemd.link(5) files.
const LINKS: &str = "/etc/systemd/network";

/// The directory of udev(7) rules, and the file for interface names from before systemd.
pub(in super::super) const RULES: &str = "/etc/udev/rules.d";
pub(in super::super) const PERSISTENT: &str = "/etc/udev/rules.d/70-persistent-net.rules";

/// The paths of udev, for all of its versions.
const UDEV: [&str; 5] = [
    "/sbin/udevd",
    "/usr/sbin/udevd",
    "/sbin/udevadm",
    "/usr/bin/udevadm",
    RULES,
];

/// Returns true if a stack identifies interfaces only by name.
fn needs_names(stack: Stack) -> bool {
    use Stack::{Ifcfg, Ifupdown, Netctl, Netifrc, OpenRc, Wicked};
    matches!(stack, Ifupdown | Ifcfg | Wicked | Netifrc | Netctl | OpenRc)
}

/// Returns true if a stack names interfaces itself, or cannot name them.
fn names_itself(stack: Stack) -> bool {
    use Stack::{CloudInit, Netplan, RcConf, Uci};
    matches!(stack, Netplan | CloudInit | Uci | RcConf)
}

/// Writes the rules that name the interfaces, unless the stack does it.
pub(super) fn render(
    guest: &mut Guest,
    setup: &Setup,
    stack: Stack,
    files: &mut Files,
) -> Result<()> {
    let physical = setup
        .links
        .iter()
        .filter_map(|link| Some((link, link.mac()?)));
    let renamed: Vec<(&Link, &Mac)> = physical
        .filter(|(link, _)| link.is_named || needs_names(stack))
        .collect();
    if names_itself(stack) {
        note_unmatched(guest, &renamed, stack);
        return Ok(());
    }
    let has_systemd = guest.has_systemd()?;
    if !has_systemd && !renamed.is_empty() && !exists_one_of(guest, &UDEV)? {
        note_unmatched(guest, &renamed, stack);
        return Ok(());
    }
    let mut rules = Vec::new();
    for (link, mac) in &renamed {
        if has_systemd && !link.is_infiniband() {
            let text = format!(
                "[Match]\nMACAddress={mac}\nType=ether\n\n[Link]\nName={}\n",
                link.name
            );
            let path = format!("{LINKS}/10-diskfs-{}.link", link.name);
            files.add(path, &text, 0o644);
        } else {
            rules.push(rule(&link.name, mac));
        }
    }
    if !rules.is_empty() {
        files.add(PERSISTENT, &of_lines(rules), 0o644);
    }
    note_kernel_names(guest, &renamed);
    Ok(())
}

/// Adds notes for guests without udev, where interfaces get the names that the kernel assigns.
fn note_unmatched(guest: &mut Guest, renamed: &[(&Link, &Mac)], stack: Stack) {
    if matches!(stack, Stack::Netplan | Stack::CloudInit) {
        return;
    }
    for (link, mac) in renamed {
        guest.note(format!(
            "the guest cannot name interfaces by hardware address: {mac} is assumed to be {}",
            link.name
        ));
    }
}

/// Adds a note about names that the kernel also assigns. systemd.link(5) warns of them: another
/// interface may already have the name.
fn note_kernel_names(guest: &mut Guest, renamed: &[(&Link, &Mac)]) {
    let is_kernels = |link: &Link| link.name.strip_prefix("eth").is_some_and(is_number);
    if renamed.iter().filter(|(link, _)| is_kernels(link)).count() > 1 {
        guest.note(
            "names like eth0 may collide with names that the kernel assigns; use other names if \
             there are several interfaces",
        );
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a rule that only matches devices with a driver, because VLANs and bonds have the address
/// of the interface below them.
pub(in super::super) fn rule(name: &str, mac: &Mac) -> String {
    let (address, kind) = if mac.is_infiniband() {
        (format!("?*{}", mac.port()), 32)
    } else {
        (mac.to_string(), 1)
    };
    format!(
        "SUBSYSTEM==\"net\", ACTION==\"add\", DRIVERS==\"?*\", ATTR{{address}}==\"{address}\", \
         ATTR{{type}}==\"{kind}\", NAME=\"{name}\""
    )
}

/// Removes rules of an earlier machine, which udev or an earlier deployment wrote.
pub(super) fn clean(guest: &mut Guest, is_clean: bool, files: &Files) -> Result<()> {
    files.clean(guest, RULES, |name, text| {
        name.ends_with("persistent-net.rules") && (is_clean || is_deployed(text))
    })?;
    files.clean(guest, LINKS, |name, text| {
        let is_link = std::path::Path::new(name)
            .extension()
            .is_some_and(|it| it == "link");
        let is_of_cloud = name.starts_with("50-cloud-init-") && is_clean;
        is_link && (is_deployed(text) || is_of_cloud)
    })
}
