//! The stack of `OpenWrt`: `/etc/config/network` (its documentation, "Network configuration").

use super::super::super::guest::Guest;
use super::files::{Files, with_block, without_block};
use super::links::{Link, LinkKind, Setup};
use super::settings::{Addressing, Route};
use diskfs_disk::Result;

const PATH: &str = "/etc/config/network";

/// Writes our sections after the others.
pub(super) fn render(guest: &Guest, setup: &Setup, files: &mut Files) -> Result<()> {
    let before = guest.stage.text(PATH)?.unwrap_or_default();
    let others = without_block(&before);
    let others = if setup.is_clean {
        without_interfaces(&others)
    } else {
        others
    };
    // Before 21.02, interfaces named their devices with `ifname`, and devices had no sections.
    let is_old = before.contains("option ifname") && !before.contains("option device");
    let mut uci = Uci {
        text: String::new(),
        is_old,
    };
    for link in &setup.links {
        if matches!(link.kind, LinkKind::Bond { .. }) || link.bond.is_some() {
            return Err(guest.invalid("bonds are not supported for OpenWrt"));
        }
        uci.add(link);
    }
    let body = uci.text.trim_start_matches('\n');
    files.edit(
        PATH,
        with_block(&format!("{}\n\n", others.trim_end()), body),
    );
    Ok(())
}

/// Returns the text without the sections of interfaces (except the loopback) and routes.
fn without_interfaces(text: &str) -> String {
    let mut is_kept = true;
    let keep = |line: &&str| {
        let mut words = line.split_whitespace();
        if words.next() == Some("config") {
            let bare = |word: &str| word.trim_matches(['\'', '"']).to_owned();
            let kind = words.next().map(bare);
            let name = words.next().map(bare);
            is_kept = match kind.as_deref() {
                Some("interface") => name.as_deref() == Some("loopback"),
                Some("route" | "route6") => false,
                _ => true,
            };
        }
        is_kept
    };
    text.split_inclusive('\n').filter(keep).collect()
}

/// A text of sections under construction.
struct Uci {
    text: String,
    is_old: bool,
}

impl Uci {
    fn section(&mut self, kind: &str, name: &str) {
        self.text.extend(["\nconfig ", kind]);
        if !name.is_empty() {
            self.text.extend([" '", name, "'"]);
        }
        self.text.push('\n');
    }

    fn option(&mut self, name: &str, value: impl std::fmt::Display) {
        let value = value.to_string();
        self.text.extend(["\toption ", name, " '", &value, "'\n"]);
    }

    fn list<T: std::fmt::Display>(&mut self, name: &str, values: impl IntoIterator<Item = T>) {
        for value in values {
            let value = value.to_string();
            self.text.extend(["\tlist ", name, " '", &value, "'\n"]);
        }
    }

    fn add(&mut self, link: &Link) {
        let ip = &link.ip;
        let name = plain(&link.name);
        if !self.is_old {
            self.device(link, &name);
        }
        let has_static = !ip.addresses.is_empty();
        if has_static {
            self.begin(link, &name, "static");
            self.add_static(ip);
        }
        let mut next = if has_static {
            format!("{name}_dhcp")
        } else {
            name.clone()
        };
        if ip.dhcp4 {
            self.begin(link, &next, "dhcp");
            if !has_static {
                self.resolver(ip);
            }
            next = format!("{name}_6");
        }
        if ip.dhcp6 {
            next = if ip.dhcp4 || has_static {
                format!("{name}_6")
            } else {
                next
            };
            self.begin(link, &next, "dhcpv6");
            if !has_static && !ip.dhcp4 {
                self.resolver(ip);
            }
        }
        if !has_static && !ip.dhcp4 && !ip.dhcp6 {
            self.begin(link, &name, "none");
        }
        let mut routes = ip.routes_with_links();
        if ip.gateway_on_link || !has_static {
            routes.extend(ip.all_routes().into_iter().take(ip.gateways().count()));
        }
        for route in &routes {
            self.route(route, &name);
        }
    }

    /// Writes the section of the device: its hardware address, or the settings of a VLAN.
    fn device(&mut self, link: &Link, name: &str) {
        self.section("device", &format!("dev_{name}"));
        self.option("name", &link.name);
        match &link.kind {
            LinkKind::Vlan { parent, id } => {
                self.option("type", "8021q");
                self.option("ifname", parent);
                self.option("vid", id);
            }
            _ => {
                if let Some(mac) = link.mac() {
                    self.option("macaddr", mac);
                }
            }
        }
        if let Some(mtu) = link.ip.mtu {
            self.option("mtu", mtu);
        }
    }

    fn begin(&mut self, link: &Link, name: &str, protocol: &str) {
        self.section("interface", name);
        if self.is_old {
            // The name of a VLAN device is determined by its parent and its ID there.
            let device = match &link.kind {
                LinkKind::Vlan { parent, id } => format!("{parent}.{id}"),
                _ => link.name.clone(),
            };
            self.option("ifname", device);
            if let Some(mac) = link.mac() {
                self.option("macaddr", mac);
            }
            if let Some(mtu) = link.ip.mtu {
                self.option("mtu", mtu);
            }
        } else {
            self.option("device", &link.name);
        }
        self.option("proto", protocol);
        if link.ip.standby {
            self.option("auto", "0");
        }
    }

    fn add_static(&mut self, ip: &Addressing) {
        self.list("ipaddr", ip.v4());
        self.list("ip6addr", ip.v6());
        if !ip.gateway_on_link {
            if let Some(gateway) = ip.gateway4 {
                self.option("gateway", gateway);
            }
            if let Some(gateway) = ip.gateway6 {
                self.option("ip6gw", gateway);
            }
        }
        self.resolver(ip);
    }

    fn resolver(&mut self, ip: &Addressing) {
        self.list("dns", &ip.nameservers);
        self.list("dns_search", &ip.search);
    }

    fn route(&mut self, route: &Route, name: &str) {
        let is_v4 = route.to.address.is_ipv4();
        self.section(if is_v4 { "route" } else { "route6" }, "");
        self.option("interface", name);
        if is_v4 {
            self.option("target", route.to.address);
            self.option("netmask", route.to.mask_v4());
        } else {
            self.option("target", route.to);
        }
        if let Some(via) = route.via {
            self.option("gateway", via);
        }
        if let Some(metric) = route.metric {
            self.option("metric", metric);
        }
    }
}

/// Converts a name to a section name, which has only letters, digits and `_`.
fn plain(name: &str) -> String {
    name.replace(['.', '-'], "_")
}
