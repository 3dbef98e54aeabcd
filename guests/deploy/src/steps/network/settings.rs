//! The keys of the step `network`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::bond::{
    AdSelect, ArpAllTargets, ArpValidate, FailOverMac, LacpRate, PrimaryReselect, XmitHashPolicy,
};
use super::values::{Mac, Prefix};

/// The network configuration of the guest, written for its network stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Network {
    /// The network stack to configure; default: the one that is enabled in the guest.
    #[serde(default)]
    pub stack: Stack,
    /// Removes the previous configuration (default: true). Settings of anything but plain
    /// interfaces, bonds and VLANs stay.
    #[serde(default = "yes")]
    pub clean: bool,
    /// The physical or virtual network interfaces of the machine.
    pub interfaces: Vec<Interface>,
    /// Bonds: several interfaces that act as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bonds: Vec<Bond>,
    /// VLANs on other interfaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlan>,
    /// Adds routes to a cloud's metadata service on the interface of the default route:
    /// `169.254.169.254/32`, and `fd00:ec2::254/128` if the interface has IPv6.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub metadata_route: bool,
}

fn yes() -> bool {
    true
}

/// The network stack that configures a guest's interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Stack {
    /// The stack that is enabled in the guest.
    #[default]
    Auto,
    /// ifupdown of Debian: `/etc/network/interfaces`.
    Ifupdown,
    /// netplan of Ubuntu.
    Netplan,
    /// `NetworkManager`, with keyfiles.
    NetworkManager,
    /// The network scripts of Red Hat up to release 7: `ifcfg-*` files.
    Ifcfg,
    /// wicked of SUSE: `ifcfg-*` files.
    Wicked,
    /// systemd-networkd, with `.network` and `.netdev` files.
    Networkd,
    /// uci of `OpenWrt`.
    Uci,
    /// netifrc of Gentoo without systemd.
    Netifrc,
    /// netctl of Arch Linux.
    Netctl,
    /// ifupdown of Alpine: `/etc/network/interfaces`.
    OpenRc,
    /// cloud-init, which configures one of the other stacks at boot.
    #[serde(rename = "cloud-init")]
    CloudInit,
    /// `rc.conf` of FreeBSD.
    #[serde(rename = "rc.conf")]
    RcConf,
}

impl Stack {
    /// Returns the stack's name in plans.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ifupdown => "ifupdown",
            Self::Netplan => "netplan",
            Self::NetworkManager => "networkmanager",
            Self::Ifcfg => "ifcfg",
            Self::Wicked => "wicked",
            Self::Networkd => "networkd",
            Self::Uci => "uci",
            Self::Netifrc => "netifrc",
            Self::Netctl => "netctl",
            Self::OpenRc => "openrc",
            Self::CloudInit => "cloud-init",
            Self::RcConf => "rc.conf",
        }
    }
}

/// A route other than the default route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Route {
    /// The destination network.
    pub to: Prefix,
    /// The gateway. Without one, or with `0.0.0.0` or `::`, the destination is directly on the
    /// link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// Treats the gateway as directly reachable, even if it is in no network of the interface's
    /// addresses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_link: bool,
    /// The metric. Of two routes to the same destination, the one with the lower metric is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

/// The mode of a bond (`mode` in the kernel's bonding.rst), by name or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BondMode {
    /// Sends packets over the members in turn (round-robin).
    #[serde(alias = "0")]
    BalanceRr,
    /// Uses one member, and another when it fails.
    #[serde(alias = "1")]
    ActiveBackup,
    /// Chooses the member by a hash of the packet's addresses.
    #[serde(alias = "2")]
    BalanceXor,
    /// Sends each packet over all members.
    #[serde(alias = "3")]
    Broadcast,
    /// LACP, the Link Aggregation Control Protocol of IEEE 802.3ad.
    #[serde(rename = "802.3ad", alias = "4", alias = "lacp")]
    Lacp,
    /// Balances outgoing traffic by load.
    #[serde(alias = "5")]
    BalanceTlb,
    /// Balances outgoing and incoming traffic by load.
    #[serde(alias = "6")]
    BalanceAlb,
}

impl BondMode {
    /// Returns the kernel's name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            Self::BalanceRr => "balance-rr",
            Self::ActiveBackup => "active-backup",
            Self::BalanceXor => "balance-xor",
            Self::Broadcast => "broadcast",
            Self::Lacp => "802.3ad",
            Self::BalanceTlb => "balance-tlb",
            Self::BalanceAlb => "balance-alb",
        }
    }
}

/// Defines each kind of interface with its own keys and the keys that all kinds have.
macro_rules! interfaces {
    ($($(#[$doc:meta])* $name:ident { $($(#[$own_doc:meta])* $own:ident: $kind:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            $($(#[$own_doc])* pub $own: $kind,)*
            /// The static IP addresses with their prefix lengths.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub addresses: Vec<Prefix>,
            /// Requests an IPv4 address by DHCP.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub dhcp4: bool,
            /// Requests IPv6 addresses by DHCP.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub dhcp6: bool,
            /// Accepts IPv6 router advertisements; default: the guest's own default.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub accept_ra: Option<bool>,
            /// The gateway of the IPv4 default route.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub gateway4: Option<Ipv4Addr>,
            /// The gateway of the IPv6 default route.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub gateway6: Option<Ipv6Addr>,
            /// Treats both gateways as directly reachable, even if they are in no network of the
            /// interface's addresses.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub gateway_on_link: bool,
            /// The MTU in bytes.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub mtu: Option<u32>,
            /// Routes other than the default route.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub routes: Vec<Route>,
            /// The addresses of name servers.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub nameservers: Vec<IpAddr>,
            /// The search domains for host names.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub search: Vec<String>,
            /// Does not bring the interface up at boot.
            #[serde(default, alias = "optional", skip_serializing_if = "std::ops::Not::not")]
            pub standby: bool,
        }

        impl $name {
            /// Returns the settings that all kinds of interfaces have.
            pub(super) fn addressing(&self) -> Addressing {
                Addressing {
                    addresses: self.addresses.clone(),
                    dhcp4: self.dhcp4,
                    dhcp6: self.dhcp6,
                    accept_ra: self.accept_ra,
                    gateway4: self.gateway4,
                    gateway6: self.gateway6,
                    gateway_on_link: self.gateway_on_link,
                    mtu: self.mtu,
                    routes: self.routes.clone(),
                    nameservers: self.nameservers.clone(),
                    search: self.search.clone(),
                    standby: self.standby,
                }
            }
        }
    )*};
}

interfaces! {
    /// A network interface of the machine.
    Interface {
        /// The hardware (MAC) address by which the interface is recognized.
        mac: Mac,
        /// The name to give to the interface. By default it keeps its name, unless a setting needs
        /// one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Declares an InfiniBand interface instead of an Ethernet interface.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        infiniband: bool,
    }
    /// A bond: several interfaces that act as one.
    Bond {
        /// The name of the bond.
        name: String,
        /// The names or hardware addresses of the member interfaces.
        members: Vec<String>,
        /// The mode, which determines how the members share the traffic.
        mode: BondMode,
        /// The interval of link checks in milliseconds; default: 100.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        miimon: Option<u32>,
        /// The delay in milliseconds before a member whose link came up is used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        updelay: Option<u32>,
        /// The delay in milliseconds before a member whose link went down is no longer used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        downdelay: Option<u32>,
        /// The rate at which the LACP partner sends its messages.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lacp_rate: Option<LacpRate>,
        /// The hash that selects the member for an outgoing packet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        xmit_hash_policy: Option<XmitHashPolicy>,
        /// The rule that selects one of several LACP partners.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ad_select: Option<AdSelect>,
        /// The LACP system priority, 1 to 65535.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ad_actor_sys_prio: Option<u16>,
        /// The LACP system MAC address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ad_actor_system: Option<Mac>,
        /// The user-defined part of the LACP port key, 0 to 1023.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ad_user_port_key: Option<u16>,
        /// The number of members that must be up for the bond to be up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_links: Option<u32>,
        /// The name or hardware address of the member that is preferred while it is up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        primary: Option<String>,
        /// The condition for returning to the primary member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        primary_reselect: Option<PrimaryReselect>,
        /// The choice of the hardware addresses of the bond and its members.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fail_over_mac: Option<FailOverMac>,
        /// The interval of ARP monitoring in milliseconds; it replaces `miimon`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arp_interval: Option<u32>,
        /// The IPv4 addresses that ARP monitoring queries.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arp_ip_target: Vec<Ipv4Addr>,
        /// The members whose ARP replies are validated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arp_validate: Option<ArpValidate>,
        /// The number of ARP targets that must be reachable.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arp_all_targets: Option<ArpAllTargets>,
        /// Accepts duplicate frames on inactive members instead of dropping them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        all_slaves_active: Option<bool>,
        /// The number of peer notifications (gratuitous ARP) after a failover.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        num_grat_arp: Option<u8>,
        /// The number of IGMP reports after a failover.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resend_igmp: Option<u8>,
        /// The number of packets to send over a member before the next one is used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packets_per_slave: Option<u16>,
        /// The interval in seconds between learning packets to the switches of the members.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lp_interval: Option<u32>,
        /// Rebalances flows by load in the mode `balance-tlb`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tlb_dynamic_lb: Option<bool>,
    }
    /// A VLAN on another interface.
    Vlan {
        /// The name of the VLAN interface.
        name: String,
        /// The name or hardware address of the interface below the VLAN.
        parent: String,
        /// The VLAN ID, 1 to 4094.
        id: u16,
    }
}

/// The settings that all kinds of interfaces have. The fields are those of [`Interface`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of a plan")]
pub(super) struct Addressing {
    pub(super) addresses: Vec<Prefix>,
    pub(super) dhcp4: bool,
    pub(super) dhcp6: bool,
    pub(super) accept_ra: Option<bool>,
    pub(super) gateway4: Option<Ipv4Addr>,
    pub(super) gateway6: Option<Ipv6Addr>,
    pub(super) gateway_on_link: bool,
    pub(super) mtu: Option<u32>,
    pub(super) routes: Vec<Route>,
    pub(super) nameservers: Vec<IpAddr>,
    pub(super) search: Vec<String>,
    pub(super) standby: bool,
}

impl Addressing {
    pub(super) fn v4(&self) -> impl Iterator<Item = &Prefix> {
        self.addresses.iter().filter(|it| it.address.is_ipv4())
    }

    pub(super) fn v6(&self) -> impl Iterator<Item = &Prefix> {
        self.addresses.iter().filter(|it| it.address.is_ipv6())
    }

    pub(super) fn has_v4(&self) -> bool {
        self.v4().next().is_some()
    }

    pub(super) fn has_v6(&self) -> bool {
        self.v6().next().is_some()
    }

    pub(super) fn gateways(&self) -> impl Iterator<Item = IpAddr> {
        let v4 = self.gateway4.map(IpAddr::V4).into_iter();
        v4.chain(self.gateway6.map(IpAddr::V6))
    }

    /// Returns the routes, and before each route whose gateway must be treated as directly
    /// reachable, a route to that gateway. This is for stacks without a setting for on-link
    /// gateways.
    pub(super) fn routes_with_links(&self) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        let on_link = |via| Route {
            to: Prefix::of_host(via),
            via: None,
            on_link: false,
            metric: None,
        };
        if self.gateway_on_link {
            routes.extend(self.gateways().map(on_link));
        }
        for route in &self.routes {
            let before = route.via.filter(|_| route.on_link).map(on_link);
            routes.extend(before.filter(|it| !routes.contains(it)));
            routes.push(route.clone());
        }
        routes
    }

    /// Returns the default routes of the gateways, then the other routes.
    pub(super) fn all_routes(&self) -> Vec<Route> {
        let of_gateway = |via: IpAddr| Route {
            to: Prefix::new(unspecified(via), 0).unwrap_or_else(|| Prefix::of_host(via)),
            via: Some(via),
            on_link: self.gateway_on_link,
            metric: None,
        };
        let mut routes: Vec<Route> = self.gateways().map(of_gateway).collect();
        routes.extend(self.routes.iter().cloned());
        routes
    }
}

/// Returns the unspecified address of the same address family.
pub(super) fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
