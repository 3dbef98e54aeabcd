//! DHCP clients. Some stacks include one, the others start a separate program.

use super::super::super::guest::Guest;
use super::detect::exists_one_of;
use super::links::{Setup, joined};
use super::settings::Stack;
use diskfs_disk::Result;

/// The directories of programs.
const DIRS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Returns the client programs of which a stack starts one; empty for stacks that include a client.
fn clients(stack: Stack) -> &'static [&'static str] {
    match stack {
        // In the order of each stack's documentation, such as interfaces(5).
        Stack::Ifupdown => &["dhclient", "udhcpc", "dhcpcd", "dhcpcd5", "pump"],
        Stack::OpenRc => &["udhcpc", "dhcpcd", "dhclient"],
        Stack::Netifrc => &["dhcpcd", "dhclient", "udhcpc", "pump"],
        Stack::Netctl => &["dhcpcd", "dhclient"],
        // NetworkManager also reads these files, and includes a client.
        Stack::Ifcfg => &["dhclient", "dhcpcd", "NetworkManager"],
        Stack::Uci => &["udhcpc"],
        Stack::Auto
        | Stack::Netplan
        | Stack::NetworkManager
        | Stack::Wicked
        | Stack::Networkd
        | Stack::CloudInit
        | Stack::RcConf => &[],
    }
}

/// Adds a note if no DHCP client is installed for the interfaces that need one.
pub(super) fn note_missing(guest: &mut Guest, stack: Stack, setup: &Setup) -> Result<()> {
    let asking = setup.links.iter().filter(|it| it.ip.dhcp4 || it.ip.dhcp6);
    let asking = joined(asking.map(|link| &link.name), ", ");
    let clients = clients(stack);
    if asking.is_empty() || clients.is_empty() {
        return Ok(());
    }
    let paths: Vec<String> = DIRS
        .iter()
        .flat_map(|dir| clients.iter().map(move |name| format!("{dir}/{name}")))
        .collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    if !exists_one_of(guest, &paths)? {
        guest.note(format!(
            "no DHCP client is installed in the guest ({}): {asking} will get no address until \
             one is installed",
            clients.join(", ")
        ));
    }
    Ok(())
}
