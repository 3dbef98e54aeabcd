//! What asks for addresses by DHCP: some stacks do it themselves, the others start a program.

use super::super::super::guest::Guest;
use super::detect::exists_one_of;
use super::links::{Setup, joined};
use super::settings::Stack;
use diskfs_disk::Result;

/// Where programs are.
const DIRS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// The programs of which a stack starts one; none for those that need none.
fn clients(stack: Stack) -> &'static [&'static str] {
    match stack {
        // interfaces(5), each in their own order.
        Stack::Ifupdown => &["dhclient", "udhcpc", "dhcpcd", "dhcpcd5", "pump"],
        Stack::OpenRc => &["udhcpc", "dhcpcd", "dhclient"],
        Stack::Netifrc => &["dhcpcd", "dhclient", "udhcpc", "pump"],
        Stack::Netctl => &["dhcpcd", "dhclient"],
        // Where NetworkManager reads these files, it asks by itself.
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

/// Tells that nothing asks for the addresses that come by DHCP.
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
            "the guest has no DHCP client ({}): {asking} gets no address until one is installed",
            clients.join(", ")
        ));
    }
    Ok(())
}
