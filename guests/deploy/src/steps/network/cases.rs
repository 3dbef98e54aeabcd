//! Tests of the files that are written in guests of each stack: they are compared with the expected
//! files (`tests/deploy/network`), and read back by `inspect`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_vfs::testing::MemoryFs;

use super::super::super::guest::Guest;
use super::super::super::plan::{Plan, Step};
use super::super::super::{Change, Contents, EntryKind};
use super::super::testing;
use super::links::{self, Link, LinkKind};
use super::settings::Route;
use diskfs_disk::Filesystem;
use diskfs_inspect::{Depth, Interface, Report};

/// A case of the folder: a guest's tree, the plan, and the expected result.
pub(super) struct Case {
    folder: PathBuf,
    pub(super) name: String,
    guest: String,
    plan: Plan,
}

/// Returns all cases.
pub(super) fn all() -> Vec<Case> {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/deploy/network");
    let mut cases = Vec::new();
    for folder in fs::read_dir(&folders).unwrap() {
        let folder = folder.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let read = |name| fs::read_to_string(folder.join(name)).unwrap();
        cases.push(Case {
            name: folder.file_name().unwrap().to_str().unwrap().to_owned(),
            guest: read("guest.txtar"),
            plan: Plan::parse(&read("plan.yaml")).unwrap(),
            folder,
        });
    }
    cases
}

impl Case {
    /// Returns the guest after the plan. Applying the plan again must not change anything.
    pub(super) fn after(&self) -> Guest {
        let mut guest = testing::guest(&self.guest);
        for step in &self.plan.steps {
            step.apply(&mut guest)
                .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        }
        guest
    }

    fn expected(&self) -> PathBuf {
        self.folder.join("expected.txtar")
    }
}

/// Returns the text of the changes in a guest: first the notes, the removed paths and the changed
/// modes, then the files.
pub(super) fn changes_text(guest: &mut Guest) -> String {
    let notes = guest.report("network").notes;
    let mut head: Vec<String> = notes.iter().map(|note| format!("note: {note}\n")).collect();
    let mut body = Vec::new();
    for Change { path, after, .. } in guest.stage.changes().unwrap() {
        let Some(after) = after else {
            head.push(format!("removed: {path}\n"));
            continue;
        };
        match after.kind {
            EntryKind::File(Contents::Bytes(bytes)) => {
                if after.permissions != 0o644 {
                    head.push(format!("mode {:04o}: {path}\n", after.permissions));
                }
                let text = String::from_utf8_lossy(&bytes);
                body.push(format!("-- {path} --\n{text}"));
            }
            EntryKind::Symlink(target) => body.push(format!("-- {path} -> {target} --\n")),
            EntryKind::Directory => head.push(format!("directory: {path}\n")),
            kind => panic!("{path}: {kind:?}"),
        }
    }
    head.concat() + &body.concat()
}

/// Returns the guest's tree after the changes.
fn tree(case: &Case, changes: &str) -> MemoryFs {
    let removed: BTreeSet<&str> = changes
        .lines()
        .filter_map(|it| it.strip_prefix("removed: "))
        .collect();
    let mut text = changes.to_owned();
    let mut is_kept = false;
    for line in case.guest.split_inclusive('\n') {
        let head = line.trim_end().strip_prefix("-- ");
        if let Some(head) = head.and_then(|it| it.strip_suffix(" --")) {
            let path = head.split(" -> ").next().unwrap();
            is_kept = !removed
                .iter()
                .any(|it| path == *it || path.starts_with(&format!("{it}/")));
        }
        if is_kept {
            text += line;
        }
    }
    MemoryFs::of_txtar(&text)
}

#[test]
fn each_stack_is_written_as_expected() {
    let mut count = 0;
    for case in all() {
        let mut guest = case.after();
        let text = changes_text(&mut guest);
        if std::env::var_os("DISKFS_WRITE_EXPECTED").is_some() {
            fs::write(case.expected(), &text).unwrap();
        }
        let expected = fs::read_to_string(case.expected()).unwrap();
        assert_eq!(text, expected, "{}", case.name);
        count += 1;
        // Applying the plan again must not change anything.
        for step in &case.plan.steps {
            step.apply(&mut guest).unwrap();
        }
        let again = guest.stage.take_touched();
        assert!(again.is_empty(), "{}: changed again: {again:?}", case.name);
    }
    assert!(count >= 16, "{count} cases");
}

#[test]
fn what_is_written_is_read_back() {
    for case in all() {
        let mut guest = case.after();
        let tree = tree(&case, &changes_text(&mut guest));
        let tree = Filesystem::new(Arc::new(tree), Path::new("guest.img"), "p1");
        let report = Report::of(&tree, Depth::Files);
        // On SUSE, the path of the host name's file is a directory, which `inspect` reports.
        let unreadable = report
            .problems
            .iter()
            .filter(|it| it.file != "/etc/sysconfig/network");
        let unreadable: Vec<_> = unreadable.collect();
        assert!(unreadable.is_empty(), "{}: {unreadable:?}", case.name);
        for step in &case.plan.steps {
            let Step::Network(network) = step else {
                continue;
            };
            let stack = match network.stack {
                super::Stack::Auto => super::detect::stack(&testing::guest(&case.guest)).unwrap(),
                stack => stack,
            };
            let links = links::checked_links(network, super::unnamed(stack)).unwrap();
            // netctl's bonds name their members, which have no profiles.
            let is_told = |link: &&Link| stack != super::Stack::Netctl || link.bond.is_none();
            for link in links.iter().filter(is_told) {
                let found = found(&case.name, &report.network.interfaces, link);
                compare(&case.name, link, &found, &report.network.dns);
            }
            // An interface without name and MAC address is of a kind that is kept, such as radios.
            let known = |it: &Interface| {
                it.name.is_none() && it.mac.is_none() || links.iter().any(|link| is_of(it, link))
            };
            let others: Vec<_> = report
                .network
                .interfaces
                .iter()
                .filter(|it| !known(it))
                .collect();
            assert!(
                others.is_empty() || case.name.contains("keep"),
                "{}: {others:?}",
                case.name
            );
        }
    }
}

/// Returns true if an interface that was read belongs to a link of the plan.
fn is_of(found: &Interface, link: &Link) -> bool {
    let plain = |name: &str| name.replace('.', "_");
    let name = found.name.as_deref();
    let is_named = |it: &str| plain(it) == plain(&link.name) || it == format!("@{}", link.name);
    match (&found.mac, link.mac()) {
        (Some(mac), Some(own)) => mac == own.as_str(),
        _ => name.is_some_and(is_named),
    }
}

/// Merges everything that was read about an interface, which may come from several files.
fn found(case: &str, all: &[Interface], link: &Link) -> Interface {
    let mut whole = Interface::default();
    for part in all.iter().filter(|it| is_of(it, link)).cloned() {
        whole.dhcp4 |= part.dhcp4;
        whole.dhcp6 |= part.dhcp6;
        whole.addresses.extend(part.addresses);
        whole.gateways.extend(part.gateways);
        whole.dns.extend(part.dns);
        whole.search.extend(part.search);
        whole.routes.extend(part.routes);
        whole.members.extend(part.members);
        whole.mtu_bytes = part.mtu_bytes.or(whole.mtu_bytes);
        whole.vlan = part.vlan.or(whole.vlan);
        whole.parent = part.parent.or(whole.parent);
        whole.configured_by = part.configured_by;
        whole.file = part.file;
    }
    let is_told = !whole.configured_by.is_empty();
    assert!(is_told, "{case}: {} is missing", link.name);
    whole
}

fn texts<T: ToString>(all: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    all.into_iter().map(|it| it.to_string()).collect()
}

fn compare(case: &str, link: &Link, found: &Interface, resolver: &[String]) {
    let at = format!("{case}: {}: {found:?}", link.name);
    let ip = &link.ip;
    let by = found.configured_by;
    assert_eq!(texts(&found.addresses), texts(&ip.addresses), "{at}");
    assert_eq!(found.dhcp4, ip.dhcp4, "{at}");
    // `auto` of NetworkManager uses DHCP if routers request it; FreeBSD includes no client.
    if !matches!(by, "NetworkManager" | "rc.conf") {
        assert_eq!(found.dhcp6, ip.dhcp6, "{at}");
    }
    let has_dns = texts(&found.dns).is_superset(&texts(&ip.nameservers));
    // SUSE's name servers are in the common settings.
    let is_suse = found.file.starts_with("/etc/sysconfig/network/");
    assert!(
        is_suse || has_dns || texts(resolver).is_superset(&texts(&ip.nameservers)),
        "{at}"
    );
    // Routes of FreeBSD and OpenWrt belong to no interface, and neither do the commands that netctl
    // runs for an address.
    if matches!(by, "rc.conf" | "uci" | "netctl") {
        return;
    }
    assert_eq!(texts(&found.gateways), texts(ip.gateways()), "{at}");
    let of_plan = |route: &Route| (route.to.to_string(), route.via.map(|via| via.to_string()));
    let of_plan: BTreeSet<_> = ip.routes.iter().map(of_plan).collect();
    let of_guest = found
        .routes
        .iter()
        .map(|it| (it.to.clone(), it.via.clone()));
    let of_guest: BTreeSet<_> = of_guest.collect();
    assert!(of_guest.is_superset(&of_plan), "{at}");
    assert_eq!(found.mtu_bytes, ip.mtu, "{at}");
    match &link.kind {
        LinkKind::Vlan { id, parent } if by != "netifrc" => {
            assert!(found.vlan.is_none_or(|it| it == *id), "{at}");
            let is_uuid = |it: &str| it.len() == 36;
            let is_parent = |it: &String| it == parent || is_uuid(it);
            assert!(found.parent.as_ref().is_none_or(is_parent), "{at}");
        }
        LinkKind::Bond { members, .. } if !found.members.is_empty() => {
            let is_known = texts(&found.members).is_superset(&texts(members));
            assert!(is_known || by == "systemd-networkd", "{at}");
        }
        _ => {}
    }
}
