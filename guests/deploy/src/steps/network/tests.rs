//! Tests of refused settings and of the choice of the stack.

use super::super::testing::{after, apply, attributes, guest, text};
use super::{Stack, detect};

fn chosen(txtar: &str) -> Stack {
    detect::stack(&guest(txtar)).unwrap()
}

const ETH0: &str = "mac: \"52:54:00:12:34:56\"";

/// Applies a plan with these settings, which must be refused, and returns the reason.
fn refused(settings: &str) -> String {
    let mut guest = guest("-- /usr/sbin/netplan --\n");
    let step = format!("- network: {{{settings}}}");
    let error = apply(&mut guest, &step).unwrap_err();
    assert!(guest.stage.changes().unwrap().is_empty(), "{settings}");
    error.to_string()
}

/// Settings, and a part of the message that refuses them. `ETH0` and `ETH1` stand for hardware
/// addresses.
const REFUSED: &str = r#"
interfaces: [{mac: x}] -> invalid hardware address
interfaces: [{mac: "01:00:5e:00:00:01"}] -> a single interface
interfaces: [{ETH0}, {ETH0}] -> duplicate hardware address 52:54
interfaces: [{ETH0, name: eth0}, {ETH1, name: eth0}] -> duplicate interface name `eth0`
interfaces: [{ETH0, name: a/b}] -> invalid interface name
interfaces: [{ETH0, name: "a b"}] -> invalid interface name
interfaces: [{ETH0, name: abcdefghijklmnop}] -> invalid interface name
interfaces: [{ETH0, name: lo}] -> loopback
interfaces: [{ETH0, adresses: []}] -> adresses
interfaces: [{ETH0, addresses: [192.0.2.1]}] -> an address with a prefix
interfaces: [{ETH0, addresses: [192.0.2.1/33]}] -> an address with a prefix
interfaces: [{ETH0, addresses: [127.0.0.1/8]}] -> invalid interface address
interfaces: [{ETH0, addresses: [192.0.2.1/24, 192.0.2.1/25]}] -> duplicate address
interfaces: [{ETH0, addresses: [192.0.2.9/24], gateway4: 198.51.100.1}] -> unreachable gateway
interfaces: [{ETH0, addresses: [192.0.2.9/24], gateway4: 192.0.2.9}] -> interface itself
interfaces: [{ETH0, addresses: [192.0.2.9/24], gateway6: "2001:db8::1"}] -> unreachable gateway
interfaces: [{ETH0, dhcp4: true, mtu: 67}] -> invalid MTU
interfaces: [{ETH0, dhcp6: true, mtu: 1000}] -> at least 1280
interfaces: [{ETH0, dhcp4: true, routes: [{to: 192.0.2.1/24}]}] -> bits after
interfaces: [{ETH0, dhcp4: true, routes: [{to: 192.0.2.0/24, via: "::2"}]}] -> other address family
interfaces: [{ETH0, routes: [{to: 192.0.2.0/24, via: 198.51.100.1}]}] -> unreachable gateway
interfaces: [{ETH0, dhcp4: true, search: ["a b"]}] -> invalid search domain
interfaces: [{ETH0, infiniband: true}] -> of InfiniBand
interfaces: [{ETH0}], vlans: [{name: v1, parent: eth9, id: 1}] -> no such interface: `eth9`
interfaces: [{ETH0, name: eth0}], vlans: [{name: v1, parent: eth0, id: 4095}] -> invalid VLAN ID
interfaces: [{ETH0, name: eth0}], vlans: [{name: v1, parent: eth0, id: 7}, {name: v2, parent: eth0, id: 7}] -> duplicate VLAN ID 7
interfaces: [{ETH0, name: eth0}], bonds: [{name: b, members: [], mode: 802.3ad}] -> missing members
interfaces: [{ETH0, name: eth0, dhcp4: true}], bonds: [{name: b, members: [eth0], mode: 802.3ad}] -> cannot have addresses or routes
interfaces: [{ETH0, name: eth0}], bonds: [{name: b, members: [eth0], mode: fast}] -> fast
interfaces: [{ETH0, dhcp4: true, gateway4: 192.0.2.1}, {ETH1, dhcp4: true, gateway4: 192.0.2.2}] -> both have a default route
metadata-route: true, interfaces: [{ETH0}] -> metadata-route
stack: systemd, interfaces: [{ETH0}] -> systemd
"#;

#[test]
fn what_can_not_be_is_refused_with_its_reason() {
    let lines = REFUSED.lines().filter(|line| !line.is_empty());
    for line in lines {
        let (settings, reason) = line.split_once(" -> ").unwrap();
        let settings = settings
            .replace("ETH0", ETH0)
            .replace("ETH1", "mac: \"52:54:00:12:34:57\"");
        let told = refused(&settings);
        assert!(told.contains(reason), "{settings}: {told}");
    }
}

#[test]
fn modes_of_bonds_have_names_and_numbers() {
    let modes = [
        "balance-rr",
        "active-backup",
        "balance-xor",
        "broadcast",
        "802.3ad",
        "balance-tlb",
        "balance-alb",
    ];
    for (name, number) in modes.iter().zip(0..) {
        for word in [
            (*name).to_owned(),
            format!("\"{name}\""),
            number.to_string(),
        ] {
            let guest = after(
                "-- /usr/sbin/netplan --\n",
                &format!(
                    "- network: {{interfaces: [{{{ETH0}, name: a}}], bonds: [{{name: b, members: [a], mode: {word}}}]}}"
                ),
            );
            let text = text(&guest, "/etc/netplan/60-diskfs.yaml");
            assert!(text.contains(&format!("mode: {name}\n")), "{word}: {text}");
        }
    }
}

#[test]
fn it_is_chosen_what_is_enabled() {
    let wants = "/etc/systemd/system/multi-user.target.wants";
    let manager = format!(
        "-- /usr/sbin/NetworkManager --\n-- {wants}/NetworkManager.service -> /usr/lib/systemd/system/NetworkManager.service --\n"
    );
    let networkd = format!(
        "-- /usr/lib/systemd/systemd-networkd --\n-- {wants}/systemd-networkd.service -> /x --\n"
    );
    let scripts = "-- /etc/sysconfig/network-scripts/ifup-eth --\n";
    let empty = "-- /etc/sysconfig/network-scripts/readme-ifcfg-rh.txt --\n";
    let preset = |rule: &str| {
        format!(
            "-- /usr/lib/systemd/systemd --\n-- /usr/lib/systemd/systemd-networkd --\n-- /sbin/ifup --\n-- /etc/network/interfaces --\n\
             -- /usr/lib/systemd/system/systemd-networkd.service --\n[Install]\nWantedBy=multi-user.target\n\
             -- /usr/lib/systemd/system-preset/90-x.preset --\n{rule}\n"
        )
    };
    let el =
        |version: &str| format!("-- /etc/os-release --\nID=\"rhel\"\nVERSION_ID=\"{version}\"\n");
    for (tree, stack) in [
        (format!("{manager}{empty}{}", el("9.3")), Stack::NetworkManager),
        // The scripts are installed, but NetworkManager is enabled.
        (format!("{manager}{scripts}{}", el("8.9")), Stack::NetworkManager),
        (format!("{manager}{scripts}{}-- /etc/rc.d/rc3.d/S10network -> ../x --\n", el("8.9")), Stack::Ifcfg),
        (format!("{manager}{scripts}{}", el("7.9")), Stack::Ifcfg),
        // CentOS 6 has no os-release.
        (scripts.to_owned(), Stack::Ifcfg),
        (format!("{networkd}-- /sbin/ifup --\n-- /etc/network/interfaces --\n"), Stack::Networkd),
        ("-- /usr/lib/systemd/systemd-networkd --\n-- /sbin/ifup --\n-- /etc/network/interfaces --\n".to_owned(), Stack::Ifupdown),
        (format!("{networkd}-- /usr/sbin/netplan --\n"), Stack::Netplan),
        // The unit that is enabled at the first boot: a preset of the vendor enables it, and no
        // symlink exists yet.
        (preset("enable systemd-networkd.service"), Stack::Networkd),
        (preset("disable *"), Stack::Ifupdown),
        (preset("enable *") + "-- /etc/systemd/system/systemd-networkd.service -> /dev/null --\n", Stack::Ifupdown),
        (preset("enable *") + "-- /etc/machine-id --\n0123456789abcdef0123456789abcdef\n", Stack::Ifupdown),
        (preset("disable *") + "-- /usr/lib/systemd/system/network.target.wants/systemd-networkd.service -> ../x --\n", Stack::Networkd),
        ("-- /etc/config/network --\n-- /sbin/uci --\n".to_owned(), Stack::Uci),
        ("-- /etc/SuSE-release --\n-- /etc/sysconfig/network/config --\n".to_owned(), Stack::Wicked),
        (format!("{manager}-- /etc/os-release --\nID=opensuse-tumbleweed\n-- /etc/sysconfig/network/config --\n"), Stack::NetworkManager),
        ("-- /etc/alpine-release --\n-- /sbin/ifup --\n-- /etc/network/interfaces --\n".to_owned(), Stack::OpenRc),
        ("-- /etc/init.d/net.lo --\n".to_owned(), Stack::Netifrc),
        (format!("-- {wants}/netctl@lan.service -> /x --\n"), Stack::Netctl),
        ("-- /bin/freebsd-version --\n".to_owned(), Stack::RcConf),
    ] {
        assert_eq!(chosen(&tree), stack, "{tree}");
    }
    assert!(detect::stack(&guest("-- /etc/network/interfaces --\n")).is_err());
}

#[test]
fn secrets_of_connections_are_roots() {
    let step = format!(
        "- network: {{stack: networkmanager, interfaces: [{{{ETH0}, name: eth0, dhcp4: true}}]}}"
    );
    // A file that others can read gets another mode, too.
    let path = "/etc/NetworkManager/system-connections/eth0.nmconnection";
    let guest = after(
        &format!("-- {path} --\nold\n-- {path}.keep --\n[connection]\ntype=wifi\n"),
        &step,
    );
    assert_eq!(attributes(&guest, path), "0600 0:0");
    assert!(!text(&guest, path).contains("old"));
    assert_eq!(
        guest
            .stage
            .names("/etc/NetworkManager/system-connections")
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_link_out_of_the_guest_leads_into_it() {
    let guest = after(
        "-- /usr/lib/systemd/systemd-networkd --\n-- /usr/lib/systemd/system/systemd-networkd.service --\n\
         -- /etc/resolv.conf -> /run/systemd/resolve/stub-resolv.conf --\n",
        &format!("- network: {{interfaces: [{{{ETH0}, dhcp4: true, nameservers: [192.0.2.53]}}]}}"),
    );
    assert!(!guest.stage.exists("/run").unwrap());
}

#[test]
fn what_a_plan_left_behind_goes_with_the_next() {
    let first = format!(
        "- network: {{stack: networkd, clean: false, interfaces: [{{{ETH0}, name: old0, dhcp4: true}}]}}"
    );
    let tree = "-- /usr/lib/systemd/systemd-networkd --\n-- /usr/lib/systemd/system/systemd-networkd.service --\n-- /etc/systemd/network/20-mine.network --\n[Match]\nName=x\n";
    let mut guest = after(tree, &first);
    apply(&mut guest, &first.replace("old0", "new0")).unwrap();
    let names = guest.stage.names("/etc/systemd/network").unwrap();
    assert!(names.iter().any(|it| it == "20-mine.network"), "{names:?}");
    assert!(!names.iter().any(|it| it.contains("old0")), "{names:?}");
}

#[test]
fn what_a_guest_lacks_is_reported() {
    for (tree, count) in [
        ("-- /etc/passwd --\n", 1),
        ("-- /usr/sbin/NetworkManager --\n", 0),
    ] {
        let mut guest = guest(tree);
        let step =
            format!("- network: {{stack: networkmanager, interfaces: [{{{ETH0}, dhcp4: true}}]}}");
        apply(&mut guest, &step).unwrap();
        let notes = guest.report("network").notes;
        let notes = notes
            .iter()
            .filter(|note| note.contains("networkmanager does not seem to be installed"));
        assert_eq!(notes.count(), count, "{tree}");
    }
}
