//! What interfaces are called: rules that name them by their hardware's address.

use super::super::super::guest::Guest;
use super::super::super::text::of_lines;
use super::detect::exists_one_of;
use super::files::{Files, is_own};
use super::links::{Link, Setup};
use super::settings::Stack;
use super::values::Mac;
use diskfs_disk::Result;

/// systemd.link(5).
const LINKS: &str = "/etc/systemd/network";

/// udev(7): the file of udev before systemd had names of its own.
pub(in super::super) const RULES: &str = "/etc/udev/rules.d";
pub(in super::super) const PERSISTENT: &str = "/etc/udev/rules.d/70-persistent-net.rules";

/// Where udev is, of any time.
const UDEV: [&str; 5] = [
    "/sbin/udevd",
    "/usr/sbin/udevd",
    "/sbin/udevadm",
    "/usr/bin/udevadm",
    RULES,
];

/// Whether a stack finds interfaces by their names alone.
fn needs_names(stack: Stack) -> bool {
    use Stack::{Ifcfg, Ifupdown, Netctl, Netifrc, OpenRc, Wicked};
    matches!(stack, Ifupdown | Ifcfg | Wicked | Netifrc | Netctl | OpenRc)
}

/// Whether it names them itself, or can't.
fn names_itself(stack: Stack) -> bool {
    use Stack::{CloudInit, Netplan, RcConf, Uci};
    matches!(stack, Netplan | CloudInit | Uci | RcConf)
}

/// Names the interfaces, where that is for udev to do.
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

/// What has no udev calls interfaces as its kernel finds them.
fn note_unmatched(guest: &mut Guest, renamed: &[(&Link, &Mac)], stack: Stack) {
    if matches!(stack, Stack::Netplan | Stack::CloudInit) {
        return;
    }
    for (link, mac) in renamed {
        guest.note(format!(
            "nothing of the guest names interfaces by their addresses: {mac} is taken to be {}",
            link.name
        ));
    }
}

/// systemd.link(5) warns of names that the kernel gives, too: another interface may have the name when it is given.
fn note_kernel_names(guest: &mut Guest, renamed: &[(&Link, &Mac)]) {
    let is_kernels = |link: &Link| link.name.strip_prefix("eth").is_some_and(is_number);
    if renamed.iter().filter(|(link, _)| is_kernels(link)).count() > 1 {
        guest.note(
            "names like eth0 are given by the kernel, too: with several, other names are safer",
        );
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Only what has a driver: VLANs and bonds have the address of what they are on.
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

/// Removes rules of other machines: those that udev or a deployment wrote.
pub(super) fn clean(guest: &mut Guest, is_clean: bool, files: &Files) -> Result<()> {
    files.clean(guest, RULES, |name, text| {
        name.ends_with("persistent-net.rules") && (is_clean || is_own(text))
    })?;
    files.clean(guest, LINKS, |name, text| {
        let is_link = std::path::Path::new(name)
            .extension()
            .is_some_and(|it| it == "link");
        let is_of_cloud = name.starts_with("50-cloud-init-") && is_clean;
        is_link && (is_own(text) || is_of_cloud)
    })
}
