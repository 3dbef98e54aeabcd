//! netctl of Arch: one profile per file (netctl.profile(5)).

use super::{Interface, signed, words};
use crate::files::Files;
use diskfs_etc::shell::assigned;

const DIR: &str = "/etc/netctl";

/// Returns the interfaces of all profiles.
pub(super) fn of(files: &Files<'_>) -> Vec<Interface> {
    let names = files.names(DIR);
    let profile = |name: &String| {
        let path = format!("{DIR}/{name}");
        // `examples`, `hooks` and `interfaces` are directories.
        let text = files.is_file(&path).then(|| files.text(&path))??;
        Some(signed("netctl", &path, [parse(&text)?]))
    };
    names.iter().filter_map(profile).flatten().collect()
}

fn parse(text: &str) -> Option<Interface> {
    let value = |name: &str| assigned(text, name).map(|(_, value)| value);
    let list = |name: &str| array(text, name);
    let mut interface = Interface::named(&value("Interface")?);
    interface.kind = value("Connection").filter(|kind| kind != "ethernet");
    interface.dhcp4 = value("IP").is_some_and(|it| it == "dhcp");
    interface.dhcp6 = value("IP6").is_some_and(|it| it.starts_with("dhcp"));
    interface.addresses = [list("Address"), list("Address6")].concat();
    interface.dns = list("DNS");
    interface.search = [list("DNSSearch"), list("DNSDomain")].concat();
    interface.members = list("BindsToInterfaces");
    for gateway in ["Gateway", "Gateway6"].iter().filter_map(|it| value(it)) {
        interface.add_gateway(&gateway);
    }
    Some(interface)
}

/// Parses `NAME=('a' 'b')`, or a single value, on one line.
fn array(text: &str, name: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let mut value = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let value = value.next_back().unwrap_or_default();
    let inner = value.trim_start_matches('(');
    let inner = inner.split_once(')').map_or(inner, |(inner, _)| inner);
    let inner = inner.replace(['\'', '"'], " ");
    words::words(&inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile() {
        let found = parse("Interface=eth0\nConnection=ethernet\nIP=static\nAddress=('192.0.2.7/24' '192.0.2.8/24')\nGateway='192.0.2.1'\nDNS=('192.0.2.53')\n").unwrap();
        assert_eq!(found.addresses, ["192.0.2.7/24", "192.0.2.8/24"]);
        assert_eq!(found.gateways, ["192.0.2.1"]);
        assert_eq!(found.dns, ["192.0.2.53"]);
        assert!(!found.dhcp4 && found.kind.is_none());
    }
}
