//! The stack `NetworkManager`: keyfiles (nm-settings-keyfile(5)).

use sha1::{Digest, Sha1};
use uuid::Uuid;

use super::files::Files;
use super::links::{Link, LinkKind, Setup, joined};
use super::settings::{Addressing, Route, unspecified};

const DIR: &str = "/etc/NetworkManager/system-connections";

/// `NetworkManager` ignores files that other users can read.
const MODE: u16 = 0o600;

/// Writes one file per connection.
pub(super) fn render(setup: &Setup, files: &mut Files) {
    for link in &setup.links {
        let path = format!("{DIR}/{}.nmconnection", link.name);
        files.add(path, &connection(link, &setup.links), MODE);
    }
}

/// Returns the UUID of our connection, which is the same each time: a version 5 UUID (RFC 9562) of
/// the interface's name and address.
fn uuid(link: &Link) -> Uuid {
    let mac = link.mac().map(ToString::to_string).unwrap_or_default();
    let name = format!("diskfs:{}:{mac}", link.name);
    let mut hash = Sha1::new();
    hash.update(Uuid::from_bytes([
        // The RFC's name space for OIDs.
        0x6b, 0xa7, 0xb8, 0x12, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30,
        0xc8,
    ]));
    hash.update(name);
    let hash: [u8; 20] = hash.finalize().into();
    let [first @ .., _, _, _, _] = hash;
    uuid::Builder::from_sha1_bytes(first).into_uuid()
}

fn connection(link: &Link, links: &[Link]) -> String {
    let mut ini = Ini::default();
    ini.section("connection");
    ini.set("id", &link.name);
    ini.set("uuid", uuid(link));
    ini.set("type", type_of(link));
    // An interface that is matched by its hardware address may still have another name, and both
    // would have to match.
    if link.mac().is_none_or(|mac| mac.len_bytes() == 8) {
        ini.set("interface-name", &link.name);
    }
    if link.ip.standby {
        ini.set("autoconnect", "false");
    }
    if let Some(bond) = &link.bond {
        ini.set("master", bond);
        ini.set("slave-type", "bond");
    }
    add_hardware(&mut ini, link, links);
    if link.bond.is_none() {
        add_family(&mut ini, &link.ip, IpFamily::V4);
        add_family(&mut ini, &link.ip, IpFamily::V6);
    }
    ini.0
}

fn type_of(link: &Link) -> &'static str {
    match &link.kind {
        LinkKind::Physical { is_infiniband, .. } if *is_infiniband => "infiniband",
        LinkKind::Physical { .. } => "ethernet",
        LinkKind::Bond { .. } => "bond",
        LinkKind::Vlan { .. } => "vlan",
    }
}

fn add_hardware(ini: &mut Ini, link: &Link, links: &[Link]) {
    let is_infiniband = link.is_infiniband();
    let mac = link.mac().filter(|mac| mac.len_bytes() != 8);
    if mac.is_some() || is_infiniband || link.ip.mtu.is_some() {
        ini.section(if is_infiniband {
            "infiniband"
        } else {
            "ethernet"
        });
    }
    if let Some(mac) = mac {
        ini.set("mac-address", mac);
    }
    if is_infiniband {
        ini.set("transport-mode", "datagram");
    }
    if let Some(mtu) = link.ip.mtu {
        ini.set("mtu", mtu);
    }
    match &link.kind {
        LinkKind::Physical { .. } => {}
        LinkKind::Bond { mode, options, .. } => {
            ini.section("bond");
            ini.set("mode", mode.name());
            for option in options {
                ini.set(option.name, &option.value);
                // NetworkManager accepts both only if they are equal.
                if option.name == "num_grat_arp" {
                    ini.set("num_unsol_na", &option.value);
                }
            }
        }
        LinkKind::Vlan { parent, id } => {
            ini.section("vlan");
            ini.set("id", id);
            // The parent is given by its connection, because an interface that is matched by its
            // hardware address may have another name.
            let on = links.iter().find(|it| it.name == *parent);
            let of_hardware = on.filter(|it| it.mac().is_some()).map(uuid);
            ini.set(
                "parent",
                of_hardware.map_or(parent.clone(), |it| it.to_string()),
            );
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IpFamily {
    V4,
    V6,
}

fn add_family(ini: &mut Ini, ip: &Addressing, family: IpFamily) {
    let is_v4 = family == IpFamily::V4;
    let own = ip
        .addresses
        .iter()
        .filter(|it| it.address.is_ipv4() == is_v4);
    let own: Vec<_> = own.collect();
    ini.section(if is_v4 { "ipv4" } else { "ipv6" });
    let method = match family {
        IpFamily::V4 if ip.dhcp4 => "auto",
        IpFamily::V4 if !own.is_empty() => "manual",
        // Routes need an interface that is up, which `disabled` would prevent.
        IpFamily::V4 if ip.routes.iter().any(|it| it.to.address.is_ipv4()) => "link-local",
        IpFamily::V4 => "disabled",
        IpFamily::V6 if ip.dhcp6 && ip.accept_ra == Some(false) => "dhcp",
        IpFamily::V6 if ip.dhcp6 || ip.accept_ra == Some(true) => "auto",
        IpFamily::V6 if !own.is_empty() => "manual",
        IpFamily::V6 if ip.accept_ra == Some(false) => "link-local",
        IpFamily::V6 => "auto", // the default of connections without this section
    };
    ini.set("method", method);
    for (address, number) in own.iter().zip(1_usize..) {
        ini.set(&format!("address{number}"), address);
    }
    let gateway = ip.gateways().find(|it| it.is_ipv4() == is_v4);
    let has_routes_alone = gateway.is_some() && (own.is_empty() || ip.gateway_on_link);
    if let Some(gateway) = gateway
        && !has_routes_alone
    {
        ini.set("gateway", gateway);
    }
    let servers = ip.nameservers.iter().filter(|it| it.is_ipv4() == is_v4);
    let servers = joined(servers, ";");
    if !servers.is_empty() {
        ini.set("dns", format!("{servers};"));
    }
    // NetworkManager merges the search domains of both sections, but a disabled section has none.
    let is_of_search = if is_v4 {
        method != "disabled"
    } else {
        !ip.has_v4() && !ip.dhcp4
    };
    if is_of_search && !ip.search.is_empty() {
        ini.set("dns-search", format!("{};", joined(&ip.search, ";")));
    }
    let all = if has_routes_alone {
        ip.all_routes()
    } else {
        ip.routes.clone()
    };
    let all = all.iter().filter(|it| it.to.address.is_ipv4() == is_v4);
    for (route, number) in all.zip(1_usize..) {
        add_route(ini, route, number);
    }
}

fn add_route(ini: &mut Ini, route: &Route, number: usize) {
    let via = route.via.or_else(|| {
        let needs_place = route.metric.is_some();
        needs_place.then(|| unspecified(route.to.address))
    });
    let words = [
        Some(route.to.to_string()),
        via.map(|it| it.to_string()),
        route.metric.map(|it| it.to_string()),
    ];
    ini.set(
        &format!("route{number}"),
        joined(words.into_iter().flatten(), ","),
    );
    if route.on_link && route.via.is_some() {
        ini.set(&format!("route{number}_options"), "onlink=true");
    }
}

/// An INI text under construction.
#[derive(Default)]
struct Ini(String);

impl Ini {
    fn section(&mut self, name: &str) {
        let begin = if self.0.is_empty() { "[" } else { "\n[" };
        self.0.extend([begin, name, "]\n"]);
    }

    fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        self.0.extend([key, "=", &value.to_string(), "\n"]);
    }
}
