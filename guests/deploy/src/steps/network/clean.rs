//! Removal of the previous network configuration: that of the stack in use, and that of other
//! stacks which would configure the same interfaces.
//!
//! Settings of other kinds, such as radios, tunnels and bridges, are kept, and so is the loopback.

use super::super::super::guest::Guest;
use super::files::{Files, is_deployed};
use super::settings::Stack;
use super::{ifcfg, ifupdown, netctl, wicked};
use diskfs_disk::Result;
use diskfs_etc::shell::{assigned, settings};

/// A predicate for files to remove, by name and text.
type IsOld = fn(&str, &str) -> bool;

/// The directories of the stacks, and the predicates for their files.
const PLACES: [(&str, IsOld); 6] = [
    ("/etc/netplan", is_of_netplan),
    ("/etc/NetworkManager/system-connections", is_connection),
    ("/etc/systemd/network", is_of_networkd),
    (ifcfg::DIR, is_ifcfg),
    (wicked::DIR, is_of_wicked),
    ("/etc/network/interfaces.d", is_of_interfaces),
];

/// The directory of cloud-init's settings. Other files there are irrelevant if cloud-init is not
/// the stack.
const CLOUD_INIT: &str = "/etc/cloud/cloud.cfg.d";

/// Removes the previous configuration.
pub(super) fn apply(guest: &mut Guest, stack: Stack, files: &Files) -> Result<()> {
    for (dir, is_old) in PLACES {
        files.clean(guest, dir, |name, text| {
            is_deployed(text) || is_old(name, text)
        })?;
    }
    files.clean(guest, CLOUD_INIT, |name, text| {
        is_deployed(text) || stack == Stack::CloudInit && is_of_cloud_init(name, text)
    })?;
    if stack == Stack::Netctl {
        files.clean(guest, netctl::DIR, |_, _| true)?;
    }
    // `/etc/network/interfaces` of a system that also has another stack.
    let is_other = !files.has(ifupdown::PATH);
    let text = guest.stage.text(ifupdown::PATH)?.filter(|_| is_other);
    if let Some(text) = text.filter(|text| is_of_interfaces("", text)) {
        let text = ifupdown::without_interfaces(&text);
        guest.stage.write_text(ifupdown::PATH, &text)?;
    }
    Ok(())
}

/// Removes only files that an earlier deployment wrote.
pub(super) fn remove_deployed(guest: &mut Guest, files: &Files) -> Result<()> {
    for (dir, _) in PLACES {
        files.clean(guest, dir, |_, text| is_deployed(text))?;
    }
    files.clean(guest, CLOUD_INIT, |_, text| is_deployed(text))?;
    files.clean(guest, netctl::DIR, |_, text| is_deployed(text))
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, it)| it == extension)
}

fn is_of_netplan(name: &str, text: &str) -> bool {
    let sorts = ["ethernets", "bonds", "vlans", "renderer"];
    let is_of = |line: &str| {
        let key = line.trim().trim_start_matches(['{', ' ']);
        sorts.iter().any(|sort| key.starts_with(sort)) || line.contains("ethernets")
    };
    has_extension(name, "yaml") && settings(text).any(|(_, line)| is_of(line))
}

fn is_connection(_: &str, text: &str) -> bool {
    let kinds = ["ethernet", "802-3-ethernet", "bond", "vlan", "infiniband"];
    let kind = assigned(text, "type").map(|(_, kind)| kind);
    kind.is_some_and(|kind| kinds.contains(&&*kind))
}

/// Returns true for a file of networkd, except files of other types, such as radios.
fn is_of_networkd(name: &str, text: &str) -> bool {
    if has_extension(name, "netdev") {
        let kind = assigned(text, "Kind").map(|(_, kind)| kind);
        return kind.is_some_and(|kind| matches!(&*kind, "bond" | "vlan"));
    }
    let is_radio = assigned(text, "Type").is_some_and(|(_, kind)| kind == "wlan");
    has_extension(name, "network") && !is_radio
}

fn is_ifcfg(name: &str, text: &str) -> bool {
    let routes = ["route-", "route6-", "rule-", "rule6-"];
    if routes.iter().any(|before| name.starts_with(before)) {
        return true;
    }
    let kinds = ["ethernet", "bond", "vlan", "infiniband"];
    let kind = assigned(text, "TYPE").map(|(_, kind)| kind.to_ascii_lowercase());
    name.starts_with("ifcfg-")
        && name != "ifcfg-lo"
        && kind.is_none_or(|kind| kinds.contains(&&*kind))
}

fn is_of_wicked(name: &str, text: &str) -> bool {
    let others = ["BRIDGE", "WIRELESS_MODE", "WIRELESS", "TUNNEL"];
    let is_interface =
        name.starts_with("ifcfg-") && name != "ifcfg-lo" && !name.ends_with(".template");
    let is_other = others.iter().any(|it| assigned(text, it).is_some());
    let is_routes = name.starts_with("ifroute-") && name != "ifroute-lo" || name == "routes";
    is_interface && !is_other || is_routes
}

/// Returns true for a file of ifupdown with an interface other than the loopback.
fn is_of_interfaces(_: &str, text: &str) -> bool {
    settings(text).any(|(_, line)| {
        let mut words = line.split_whitespace();
        let is_stanza = matches!(words.next(), Some("iface" | "auto" | "mapping"));
        is_stanza && words.any(|word| word != "lo") && !line.starts_with("iface lo ")
            || line.starts_with("allow-")
    })
}

/// Returns true if a file of cloud-init contains only network settings.
fn is_of_cloud_init(name: &str, text: &str) -> bool {
    let mut keys = settings_at_margin(text);
    let is_network = keys.next().is_some_and(|it| it.starts_with("network:"));
    has_extension(name, "cfg") && is_network && keys.next().is_none()
}

/// Returns the lines of a document that are not indented.
fn settings_at_margin(text: &str) -> impl Iterator<Item = &str> {
    let is_key =
        |line: &&str| !line.starts_with([' ', '\t', '#', '-', '}', ']']) && !line.is_empty();
    text.lines().filter(is_key)
}
