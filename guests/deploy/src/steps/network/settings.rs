//! What a plan says of the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::bond::{
    AdSelect, ArpAllTargets, ArpValidate, FailOverMac, LacpRate, PrimaryReselect, XmitHashPolicy,
};
use super::values::{Mac, Prefix};

/// How the network is set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Network {
    /// What sets it up; by default what the guest has.
    #[serde(default)]
    pub stack: Stack,
    /// Whether what set it up before goes. What is of no plain interface, bond or VLAN stays.
    #[serde(default = "yes")]
    pub clean: bool,
    /// The interfaces that there are.
    pub interfaces: Vec<Interface>,
    /// Several that act as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bonds: Vec<Bond>,
    /// Numbered networks on others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlan>,
    /// Whether a cloud's server of metadata is reached on the interface of the default route: `169.254.169.254/32`, and
    /// `fd00:ec2::254/128` where it has IPv6.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub metadata_route: bool,
}

fn yes() -> bool {
    true
}

/// What sets a guest's network up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Stack {
    /// What the guest has enabled.
    #[default]
    Auto,
    /// `/etc/network/interfaces` of Debian.
    Ifupdown,
    /// netplan of Ubuntu.
    Netplan,
    /// `NetworkManager`'s keyfiles.
    NetworkManager,
    /// `ifcfg-*` of Red Hat up to 7.
    Ifcfg,
    /// `ifcfg-*` of SUSE.
    Wicked,
    /// systemd-networkd.
    Networkd,
    /// `OpenWrt`.
    Uci,
    /// Gentoo without systemd.
    Netifrc,
    /// netctl of Arch.
    Netctl,
    /// `/etc/network/interfaces` of Alpine.
    OpenRc,
    /// cloud-init, which sets up one of the others when the guest starts.
    #[serde(rename = "cloud-init")]
    CloudInit,
    /// FreeBSD.
    #[serde(rename = "rc.conf")]
    RcConf,
}

impl Stack {
    /// What a plan calls it.
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

/// A route besides the default one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Route {
    /// Where it leads.
    pub to: Prefix,
    /// The gateway; without one, or with `0.0.0.0` or `::`, what it leads to is on the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// Whether the gateway is on the link, though no address says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_link: bool,
    /// Of two, the one with less is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

/// How a bond shares its work (the kernel's bonding.rst, `mode`); a name or its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BondMode {
    /// In turns.
    #[serde(alias = "0")]
    BalanceRr,
    /// One, and another when it fails.
    #[serde(alias = "1")]
    ActiveBackup,
    /// By the peer.
    #[serde(alias = "2")]
    BalanceXor,
    /// All at once.
    #[serde(alias = "3")]
    Broadcast,
    /// LACP.
    #[serde(rename = "802.3ad", alias = "4", alias = "lacp")]
    Lacp,
    /// By load, sending.
    #[serde(alias = "5")]
    BalanceTlb,
    /// By load, sending and receiving.
    #[serde(alias = "6")]
    BalanceAlb,
}

impl BondMode {
    /// What the kernel calls it.
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

/// Each kind of interface: its own settings, and those that all have.
macro_rules! interfaces {
    ($($(#[$doc:meta])* $name:ident { $($(#[$own_doc:meta])* $own:ident: $kind:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            $($(#[$own_doc])* pub $own: $kind,)*
            /// Its own addresses.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub addresses: Vec<Prefix>,
            /// Whether it asks for IPv4 addresses by DHCP.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub dhcp4: bool,
            /// Whether it asks for IPv6 addresses by DHCP.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub dhcp6: bool,
            /// Whether it believes IPv6's routers; the guest's default where nothing is said.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub accept_ra: Option<bool>,
            /// The default route's gateway.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub gateway4: Option<Ipv4Addr>,
            /// That of IPv6.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub gateway6: Option<Ipv6Addr>,
            /// Whether both are on the link, though no address says so.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub gateway_on_link: bool,
            /// The largest packet in bytes.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub mtu: Option<u32>,
            /// Routes.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub routes: Vec<Route>,
            /// Name servers.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub nameservers: Vec<IpAddr>,
            /// Domains that names are searched in.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub search: Vec<String>,
            /// Whether it stays down when the guest starts.
            #[serde(default, alias = "optional", skip_serializing_if = "std::ops::Not::not")]
            pub standby: bool,
        }

        impl $name {
            /// What all kinds have.
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
    /// An interface that the machine has.
    Interface {
        /// The address that it is told by.
        mac: Mac,
        /// What it is to be called; it keeps its name where nothing is said and nothing asks for one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Whether it is InfiniBand's, and no Ethernet's.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        infiniband: bool,
    }
    /// Several interfaces that act as one.
    Bond {
        /// What it is called.
        name: String,
        /// The names or hardware's addresses of its parts.
        members: Vec<String>,
        /// How they share the work.
        mode: BondMode,
        /// How often it is looked whether they are up, in milliseconds; 100 where nothing is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        miimon: Option<u32>,
        /// How long a part that came up waits before it is used, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        updelay: Option<u32>,
        /// How long a part that went down is still used, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        downdelay: Option<u32>,
        /// How often the peer sends LACP's messages.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lacp_rate: Option<LacpRate>,
        /// What chooses the part that a packet is sent on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        xmit_hash_policy: Option<XmitHashPolicy>,
        /// Which of several LACP partners is chosen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ad_select: Option<AdSelect>,
        /// LACP's system priority, 1 to 65535.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ad_actor_sys_prio: Option<u16>,
        /// LACP's system address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ad_actor_system: Option<Mac>,
        /// The user's part of LACP's port key, 0 to 1023.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ad_user_port_key: Option<u16>,
        /// How many parts must be up for the bond to be up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_links: Option<u32>,
        /// The name or hardware's address of the part that is used when it is up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        primary: Option<String>,
        /// When the primary part takes over again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        primary_reselect: Option<PrimaryReselect>,
        /// Whose hardware address the parts have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fail_over_mac: Option<FailOverMac>,
        /// How often the ARP targets are asked, in milliseconds; in place of `miimon`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arp_interval: Option<u32>,
        /// The addresses that are asked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arp_ip_target: Vec<Ipv4Addr>,
        /// Which parts' ARP answers are checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arp_validate: Option<ArpValidate>,
        /// How many ARP targets must answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arp_all_targets: Option<ArpAllTargets>,
        /// Whether parts that are not active take what they receive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        all_slaves_active: Option<bool>,
        /// How many messages tell the network of a takeover.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        num_grat_arp: Option<u8>,
        /// How many IGMP reports are sent after a takeover.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resend_igmp: Option<u8>,
        /// How many packets a part sends before the next one's turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packets_per_slave: Option<u16>,
        /// How often the switches are told of the parts, in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lp_interval: Option<u32>,
        /// Whether `balance-tlb` moves flows by load.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tlb_dynamic_lb: Option<bool>,
    }
    /// A numbered network on another interface.
    Vlan {
        /// What it is called.
        name: String,
        /// The name or hardware's address of what it is on.
        parent: String,
        /// Its number, 1 to 4094.
        id: u16,
    }
}

/// What all kinds of interfaces have; as in each of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are a plan's own")]
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

    /// The routes, and before those whose gateways are on the link without an address that says so, routes to these
    /// gateways: for whoever has no word for that.
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

    /// The default routes that gateways are, then the others.
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

/// The unspecified address of the same family.
pub(super) fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
