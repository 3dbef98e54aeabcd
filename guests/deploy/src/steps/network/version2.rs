//! The stacks netplan (netplan(5)) and cloud-init, whose network configuration of version 2 has the
//! same format.

use super::super::super::guest::Guest;
use super::bond::BondOption;
use super::detect;
use super::files::Files;
use super::links::{Link, LinkKind, Setup, joined};
use super::settings::{Addressing, Route};
use diskfs_disk::Result;

const NETPLAN: &str = "/etc/netplan/60-diskfs.yaml";

/// The name sorts after those of the image's files, and before the file that disables network
/// configuration.
const CLOUD_INIT: &str = "/etc/cloud/cloud.cfg.d/50-network-config.cfg";

/// Only root may read the file, because it may contain passwords: netplan warns about other modes.
const NETPLAN_MODE: u16 = 0o600;

/// Writes netplan's file.
pub(super) fn netplan(guest: &Guest, setup: &Setup, files: &mut Files) -> Result<()> {
    let text = document(&setup.links, Some(backend(guest)?));
    files.add(NETPLAN, &text, NETPLAN_MODE);
    Ok(())
}

/// Writes cloud-init's file.
pub(super) fn cloud_init(setup: &Setup, files: &mut Files) {
    files.add(CLOUD_INIT, &document(&setup.links, None), 0o644);
}

/// Returns the name of the backend that applies netplan's settings.
fn backend(guest: &Guest) -> Result<&'static str> {
    let has_manager = detect::has_network_manager(guest)?;
    let has_networkd = detect::has_networkd(guest)?;
    let is_managed = detect::starts(guest, "NetworkManager.service")?
        && !detect::starts(guest, "systemd-networkd.service")?;
    let is_manager = has_manager && (is_managed || !has_networkd);
    Ok(if is_manager {
        "NetworkManager"
    } else {
        "networkd"
    })
}

/// A predicate for a kind of interface.
type IsOf = fn(&LinkKind) -> bool;

fn document(links: &[Link], renderer: Option<&str>) -> String {
    let mut yaml = Yaml::default();
    yaml.open(0, "network");
    yaml.line(1, "version", "2");
    if let Some(renderer) = renderer {
        yaml.line(1, "renderer", renderer);
    }
    let sorts: [(&str, IsOf); 3] = [
        ("ethernets", |kind| {
            matches!(kind, LinkKind::Physical { .. })
        }),
        ("bonds", |kind| matches!(kind, LinkKind::Bond { .. })),
        ("vlans", |kind| matches!(kind, LinkKind::Vlan { .. })),
    ];
    for (sort, is_of) in sorts {
        let mut of_sort = links.iter().filter(|link| is_of(&link.kind)).peekable();
        if of_sort.peek().is_some() {
            yaml.open(1, sort);
        }
        for link in of_sort {
            add(&mut yaml, link);
        }
    }
    yaml.0
}

fn add(yaml: &mut Yaml, link: &Link) {
    yaml.open(2, &key(&link.name));
    match &link.kind {
        LinkKind::Physical { mac, .. } => {
            yaml.open(3, "match");
            yaml.line(4, "macaddress", &quoted(mac));
            if link.is_named {
                yaml.line(3, "set-name", &key(&link.name));
            }
        }
        LinkKind::Bond {
            members,
            mode,
            options,
        } => {
            let members = joined(members.iter().map(|it| key(it)), ", ");
            yaml.line(3, "interfaces", &format!("[{members}]"));
            yaml.open(3, "parameters");
            yaml.line(4, "mode", mode.name());
            for (key, value) in options.iter().filter_map(BondOption::of_netplan) {
                yaml.line(4, key, &value);
            }
        }
        LinkKind::Vlan { parent, id } => {
            yaml.line(3, "id", &id.to_string());
            yaml.line(3, "link", &key(parent));
        }
    }
    add_addressing(yaml, &link.ip);
}

fn add_addressing(yaml: &mut Yaml, ip: &Addressing) {
    yaml.line(3, "dhcp4", &ip.dhcp4.to_string());
    yaml.line(3, "dhcp6", &ip.dhcp6.to_string());
    if let Some(accept_ra) = ip.accept_ra {
        yaml.line(3, "accept-ra", &accept_ra.to_string());
    }
    yaml.list(3, "addresses", &ip.addresses);
    if let Some(mtu) = ip.mtu {
        yaml.line(3, "mtu", &mtu.to_string());
    }
    // The interface is brought up nevertheless, but the boot does not wait for it.
    if ip.standby {
        yaml.line(3, "optional", "true");
    }
    let routes = ip.all_routes();
    if !routes.is_empty() {
        yaml.open(3, "routes");
    }
    for route in &routes {
        add_route(yaml, route);
    }
    if !ip.nameservers.is_empty() || !ip.search.is_empty() {
        yaml.open(3, "nameservers");
        yaml.list(4, "addresses", &ip.nameservers);
        yaml.list(4, "search", &ip.search);
    }
}

fn add_route(yaml: &mut Yaml, route: &Route) {
    // netplan before 0.102 does not know `default`.
    yaml.line(4, "- to", &quoted(route.to));
    match route.via {
        Some(via) => yaml.line(5, "via", &quoted(via)),
        None => yaml.line(5, "scope", "link"),
    }
    if route.on_link {
        yaml.line(5, "on-link", "true");
    }
    if let Some(metric) = route.metric {
        yaml.line(5, "metric", &metric.to_string());
    }
}

/// YAML lines under construction.
#[derive(Default)]
struct Yaml(String);

impl Yaml {
    fn open(&mut self, depth: usize, key: &str) {
        self.0.extend([&*"  ".repeat(depth), key, ":\n"]);
    }

    fn line(&mut self, depth: usize, key: &str, value: &str) {
        self.0
            .extend([&*"  ".repeat(depth), key, ": ", value, "\n"]);
    }

    fn list<T: ToString>(&mut self, depth: usize, key: &str, all: &[T]) {
        if !all.is_empty() {
            let all = joined(all.iter().map(|one| quoted(one.to_string())), ", ");
            self.line(depth, key, &format!("[{all}]"));
        }
    }
}

/// Quotes a value, which must contain neither quotes nor backslashes.
fn quoted(value: impl std::fmt::Display) -> String {
    format!("\"{value}\"")
}

/// Writes a name of letters, digits and a few signs. It is quoted if YAML 1.1 would interpret it as
/// something else.
fn key(name: &str) -> String {
    let words = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    if words.contains(&&*name.to_ascii_lowercase()) {
        quoted(name)
    } else {
        name.to_owned()
    }
}
