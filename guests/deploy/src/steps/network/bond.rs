//! The options of bonds (the kernel's bonding.rst) and their names in each stack.

use serde::{Deserialize, Serialize};

use super::settings::{Bond, BondMode};

/// The default interval of link checks of a bond.
const MIIMON_MS: u32 = 100;

/// An option with its value. Both are in the kernel's notation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BondOption {
    pub(super) name: &'static str,
    pub(super) value: String,
}

/// Defines enums whose variants are named by the kernel's words.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Returns the kernel's word.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    )*};
}

choices! {
    /// The rate at which the LACP partner sends its messages.
    LacpRate {
        /// A message every 30 seconds.
        #[serde(alias = "0")]
        Slow = "slow",
        /// A message every second.
        #[serde(alias = "1")]
        Fast = "fast",
    }
    /// The hash that selects the member for an outgoing packet.
    XmitHashPolicy {
        /// Hashes the hardware addresses.
        Layer2 = "layer2",
        /// Hashes the hardware and IP addresses.
        Layer23 = "layer2+3",
        /// Hashes the IP addresses and ports.
        Layer34 = "layer3+4",
        /// Same as `layer2+3`, but with the headers inside a tunnel.
        Encap23 = "encap2+3",
        /// Same as `layer3+4`, but with the headers inside a tunnel.
        Encap34 = "encap3+4",
        /// Hashes the VLAN ID and the source hardware address.
        VlanSrcMac = "vlan+srcmac",
    }
    /// The rule that selects one of several LACP partners.
    AdSelect {
        /// Selects the partner with the highest bandwidth, once.
        Stable = "stable",
        /// Selects the partner with the highest bandwidth, again at each change.
        Bandwidth = "bandwidth",
        /// Selects the partner with the largest number of ports.
        Count = "count",
    }
    /// The condition for returning to the primary member.
    PrimaryReselect {
        /// Returns as soon as the primary member is up.
        Always = "always",
        /// Returns if the primary member is faster than the active one.
        Better = "better",
        /// Returns only if the active member fails.
        Failure = "failure",
    }
    /// The members whose ARP replies are validated.
    ArpValidate {
        /// Validates the replies of no member.
        None = "none",
        /// Validates the replies that the active member receives.
        Active = "active",
        /// Validates the replies that backup members receive.
        Backup = "backup",
        /// Validates the replies that all members receive.
        All = "all",
    }
    /// The number of ARP targets that must be reachable.
    ArpAllTargets {
        /// Any single target is enough.
        Any = "any",
        /// All targets must be reachable.
        All = "all",
    }
    /// The choice of the hardware addresses of the bond and its members.
    FailOverMac {
        /// All members have the bond's address.
        None = "none",
        /// The bond has the address of the active member.
        Active = "active",
        /// The active member has the bond's address, and the others keep their own.
        Follow = "follow",
    }
}

/// The names of an option in the stacks that do not use the kernel's names. An empty name means
/// that the stack does not support the option.
struct OptionNames {
    kernel: &'static str,
    networkd: &'static str,
    /// The unit of a numeric value for networkd.
    unit: &'static str,
    netplan: &'static str,
    /// The bond modes that support the option; empty for all modes.
    modes: &'static [BondMode],
}

const fn words(
    kernel: &'static str,
    (networkd, unit): (&'static str, &'static str),
    netplan: &'static str,
    modes: &'static [BondMode],
) -> OptionNames {
    OptionNames {
        kernel,
        networkd,
        unit,
        netplan,
        modes,
    }
}

const LACP: &[BondMode] = &[BondMode::Lacp];
const WITH_PRIMARY: &[BondMode] = &[
    BondMode::ActiveBackup,
    BondMode::BalanceTlb,
    BondMode::BalanceAlb,
];
const WITH_ARP: &[BondMode] = &[
    BondMode::BalanceRr,
    BondMode::ActiveBackup,
    BondMode::BalanceXor,
    BondMode::Broadcast,
];

/// The names in systemd.netdev(5) and netplan(5).
#[rustfmt::skip]
const WORDS: [OptionNames; 23] = [
    words("miimon", ("MIIMonitorSec", "ms"), "mii-monitor-interval", &[]),
    words("updelay", ("UpDelaySec", "ms"), "up-delay", &[]),
    words("downdelay", ("DownDelaySec", "ms"), "down-delay", &[]),
    words("lacp_rate", ("LACPTransmitRate", ""), "lacp-rate", LACP),
    words("xmit_hash_policy", ("TransmitHashPolicy", ""), "transmit-hash-policy", &[]),
    words("ad_select", ("AdSelect", ""), "ad-select", LACP),
    words("ad_actor_sys_prio", ("AdActorSystemPriority", ""), "", LACP),
    words("ad_actor_system", ("AdActorSystem", ""), "", LACP),
    words("ad_user_port_key", ("AdUserPortKey", ""), "", LACP),
    words("min_links", ("MinLinks", ""), "min-links", &[]),
    words("primary", ("", ""), "primary", WITH_PRIMARY),
    words("primary_reselect", ("PrimaryReselectPolicy", ""), "primary-reselect-policy", WITH_PRIMARY),
    words("fail_over_mac", ("FailOverMACPolicy", ""), "fail-over-mac-policy", &[BondMode::ActiveBackup]),
    words("arp_interval", ("ARPIntervalSec", "ms"), "arp-interval", WITH_ARP),
    words("arp_ip_target", ("ARPIPTargets", ""), "arp-ip-targets", WITH_ARP),
    words("arp_validate", ("ARPValidate", ""), "arp-validate", WITH_ARP),
    words("arp_all_targets", ("ARPAllTargets", ""), "arp-all-targets", WITH_ARP),
    words("all_slaves_active", ("AllSlavesActive", ""), "all-slaves-active", &[]),
    words("num_grat_arp", ("GratuitousARP", ""), "gratuitous-arp", &[]),
    words("resend_igmp", ("ResendIGMP", ""), "resend-igmp", &[]),
    words("packets_per_slave", ("PacketsPerSlave", ""), "packets-per-slave", &[BondMode::BalanceRr]),
    words("lp_interval", ("LearnPacketIntervalSec", "s"), "learn-packet-interval", &[]),
    words("tlb_dynamic_lb", ("DynamicTransmitLoadBalancing", ""), "", &[BondMode::BalanceTlb]),
];

impl BondOption {
    fn words(&self) -> Option<&'static OptionNames> {
        WORDS.iter().find(|words| words.kernel == self.name)
    }

    /// Returns the option as a parameter of the kernel module: `lacp_rate=fast`.
    pub(super) fn of_module(&self) -> String {
        format!("{}={}", self.name, self.value)
    }

    /// Returns the elements of a list value, separated by spaces.
    pub(super) fn spaced(&self) -> String {
        self.value.replace(',', " ")
    }

    /// Returns the option for systemd.netdev(5), or `None` if networkd does not support it.
    pub(super) fn of_networkd(&self) -> Option<String> {
        let words = self.words().filter(|words| !words.networkd.is_empty())?;
        let value = match self.flag() {
            Some(true) => "yes".to_owned(),
            Some(false) => "no".to_owned(),
            None => self.spaced() + words.unit,
        };
        Some(format!("{}={value}", words.networkd))
    }

    /// Returns key and value for netplan(5), or `None` if netplan does not support the option.
    pub(super) fn of_netplan(&self) -> Option<(&'static str, String)> {
        let words = self.words().filter(|words| !words.netplan.is_empty())?;
        let value = match self.flag() {
            Some(flag) => flag.to_string(),
            None if self.name == "arp_ip_target" => {
                format!("[{}]", self.value.replace(',', ", "))
            }
            None => self.value.clone(),
        };
        Some((words.netplan, value))
    }

    fn flag(&self) -> Option<bool> {
        let is_flag = matches!(self.name, "all_slaves_active" | "tlb_dynamic_lb");
        is_flag.then(|| self.value == "1")
    }
}

impl Bond {
    /// Returns all options except the mode, including required defaults. `primary` is the name of
    /// the primary member.
    pub(super) fn options(&self, primary: Option<String>) -> Result<Vec<BondOption>, String> {
        let number = |number: Option<u32>| number.map(|it| it.to_string());
        let flag = |flag: Option<bool>| flag.map(|it| u8::from(it).to_string());
        let targets = self.arp_ip_target.iter().map(ToString::to_string);
        let targets: Vec<String> = targets.collect();
        let miimon = match (self.miimon, self.arp_interval) {
            (None, Some(_)) => None,
            (miimon, _) => Some(miimon.unwrap_or(MIIMON_MS)),
        };
        let all = [
            ("miimon", number(miimon)),
            ("updelay", number(self.updelay)),
            ("downdelay", number(self.downdelay)),
            ("lacp_rate", self.lacp_rate.map(|it| it.name().to_owned())),
            (
                "xmit_hash_policy",
                self.xmit_hash_policy.map(|it| it.name().to_owned()),
            ),
            ("ad_select", self.ad_select.map(|it| it.name().to_owned())),
            (
                "ad_actor_sys_prio",
                self.ad_actor_sys_prio.map(|it| it.to_string()),
            ),
            (
                "ad_actor_system",
                self.ad_actor_system.as_ref().map(ToString::to_string),
            ),
            (
                "ad_user_port_key",
                self.ad_user_port_key.map(|it| it.to_string()),
            ),
            ("min_links", number(self.min_links)),
            ("primary", primary),
            (
                "primary_reselect",
                self.primary_reselect.map(|it| it.name().to_owned()),
            ),
            (
                "fail_over_mac",
                self.fail_over_mac.map(|it| it.name().to_owned()),
            ),
            ("arp_interval", number(self.arp_interval)),
            (
                "arp_ip_target",
                (!targets.is_empty()).then(|| targets.join(",")),
            ),
            (
                "arp_validate",
                self.arp_validate.map(|it| it.name().to_owned()),
            ),
            (
                "arp_all_targets",
                self.arp_all_targets.map(|it| it.name().to_owned()),
            ),
            ("all_slaves_active", flag(self.all_slaves_active)),
            ("num_grat_arp", self.num_grat_arp.map(|it| it.to_string())),
            ("resend_igmp", self.resend_igmp.map(|it| it.to_string())),
            (
                "packets_per_slave",
                self.packets_per_slave.map(|it| it.to_string()),
            ),
            ("lp_interval", number(self.lp_interval)),
            ("tlb_dynamic_lb", flag(self.tlb_dynamic_lb)),
        ];
        let options = all.into_iter().filter_map(|(name, value)| {
            let value = value?;
            Some(BondOption { name, value })
        });
        let options: Vec<BondOption> = options.collect();
        self.check(&options)?;
        Ok(options)
    }

    /// Refuses options that the kernel would refuse at boot.
    fn check(&self, options: &[BondOption]) -> Result<(), String> {
        for option in options {
            let modes = option.words().map_or(&[][..], |words| words.modes);
            if !modes.is_empty() && !modes.contains(&self.mode) {
                let (name, mode) = (option.name.replace('_', "-"), self.mode.name());
                return Err(format!("`{name}` is not supported in the mode {mode}"));
            }
        }
        if self.miimon.is_some() && self.arp_interval.is_some() {
            return Err("`miimon` and `arp-interval` cannot be combined".to_owned());
        }
        if self.arp_interval.is_some() && self.arp_ip_target.is_empty() {
            return Err("missing `arp-ip-target`: `arp-interval` requires it".to_owned());
        }
        if self
            .ad_actor_system
            .as_ref()
            .is_some_and(|mac| mac.len_bytes() != 6)
        {
            return Err(
                "invalid `ad-actor-system`: expected an Ethernet address (6 bytes)".to_owned(),
            );
        }
        let is_port_key = |key| key <= 1023;
        if !self.ad_user_port_key.is_none_or(is_port_key) || self.ad_actor_sys_prio == Some(0) {
            return Err(
                "invalid `ad-user-port-key` or `ad-actor-sys-prio`: expected 0 to 1023, and 1 \
                 to 65535"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{apply, guest};

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        let tree = "-- /usr/sbin/NetworkManager --\n-- /usr/lib/systemd/systemd --\n";
        let plan = |bond: &str| {
            format!(
                "- network: {{interfaces: [{{mac: \"52:54:00:12:34:56\", name: lan0}}, {{mac: \"52:54:00:12:34:57\"}}], \
                 bonds: [{{name: bond0, members: [lan0, \"52:54:00:12:34:57\"], {bond}}}]}}"
            )
        };
        apply(&mut guest(tree), &plan("mode: 1, primary: lan0")).unwrap();
        for (bond, part) in [
            (
                "mode: 1, lacp-rate: fast",
                "`lacp-rate` is not supported in the mode active-backup",
            ),
            (
                "mode: 1, miimon: 100, arp-interval: 100, arp-ip-target: [192.0.2.1]",
                "cannot be combined",
            ),
            ("mode: 1, arp-interval: 100", "arp-ip-target"),
            ("mode: 1, primary: lan9", "no such interface: `lan9`"),
            (
                "mode: 1, primary: \"52:54:00:12:34:57\"",
                "missing key `name`",
            ),
            ("mode: 4, ad-user-port-key: 1024", "1023"),
        ] {
            let error = apply(&mut guest(tree), &plan(bond)).unwrap_err();
            assert!(error.to_string().contains(part), "{bond}: {error}");
        }
    }
}
