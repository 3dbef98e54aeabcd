//! How the guest's network is set up, whatever sets it up.
//!
//! A plan says which addresses the interfaces have, and this writes it for what the guest has enabled. What it writes is
//! what [`inspect`](diskfs_inspect) reads.

mod bond;
mod clean;
mod detect;
mod dhcp;
mod files;
mod ifcfg;
mod ifupdown;
mod keyfile;
mod links;
pub(super) mod names;
mod netctl;
mod netifrc;
mod networkd;
mod rc_conf;
mod resolver;
mod settings;
mod uci;
mod values;
mod version2;
mod wicked;

use super::super::guest::Guest;
use diskfs_disk::Result;
use files::Files;
use ifupdown::Flavour;
use links::Setup;

pub use bond::{
    AdSelect, ArpAllTargets, ArpValidate, FailOverMac, LacpRate, PrimaryReselect, XmitHashPolicy,
};
pub use settings::{Bond, BondMode, Interface, Network, Route, Stack, Vlan};
pub use values::{Mac, Prefix};

/// Keeps cloud-init from setting the network up once more.
const DISABLE: &str = "/etc/cloud/cloud.cfg.d/99-disable-network-config.cfg";

impl Network {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let stack = match self.stack {
            Stack::Auto => detect::stack(guest)?,
            stack => {
                if !detect::is_installed(guest, stack)? {
                    let name = stack.name();
                    guest.note(format!(
                        "the guest does not seem to have {name}: nothing reads it then"
                    ));
                }
                stack
            }
        };
        let links = links::of(self, unnamed(stack)).map_err(|reason| guest.invalid(reason))?;
        let setup = Setup {
            links,
            is_clean: self.clean,
        };
        dhcp::note_missing(guest, stack, &setup)?;
        note_left_out(guest, stack, &setup);
        let mut files = Files::default();
        render(guest, stack, &setup, &mut files)?;
        names::render(guest, &setup, stack, &mut files)?;
        if detect::has_cloud_init(guest)? && stack != Stack::CloudInit {
            files.add(DISABLE, "network: {config: disabled}\n", 0o644);
        }
        names::clean(guest, self.clean, &files)?;
        if self.clean {
            clean::apply(guest, stack, &files)?;
        } else {
            clean::own(guest, &files)?;
        }
        files.write(guest)
    }
}

/// Tells which options of bonds a stack has no word for.
fn note_left_out(guest: &mut Guest, stack: Stack, setup: &Setup) {
    for link in &setup.links {
        for option in links::options(link) {
            let has_it = match stack {
                Stack::Netplan | Stack::CloudInit => option.of_netplan().is_some(),
                Stack::Networkd => option.name == "primary" || option.of_networkd().is_some(),
                // lagg(4) looks after its ports by itself.
                Stack::RcConf => option.name == "miimon" || rc_conf::of_lagg(option).is_some(),
                _ => true,
            };
            if !has_it {
                let (name, bond) = (option.name.replace('_', "-"), &link.name);
                let stack = stack.name();
                guest.note(format!(
                    "{bond}: {stack} has no setting for {name}: it is left out"
                ));
            }
        }
    }
}

/// What interfaces are called that the plan doesn't name.
fn unnamed(stack: Stack) -> &'static str {
    match stack {
        Stack::Netplan | Stack::NetworkManager | Stack::Networkd | Stack::CloudInit => "net",
        // As in QEMU's machines.
        Stack::RcConf => "vtnet",
        _ => "eth",
    }
}

fn render(guest: &mut Guest, stack: Stack, setup: &Setup, files: &mut Files) -> Result<()> {
    match stack {
        // `detect` answers one of the others.
        Stack::Auto => Err(guest.invalid("no stack was found")),
        Stack::Ifupdown => ifupdown::render(guest, setup, Flavour::Debian, files),
        Stack::OpenRc => ifupdown::render(guest, setup, Flavour::Alpine, files),
        Stack::Netplan => version2::netplan(guest, setup, files),
        Stack::CloudInit => {
            version2::cloud_init(setup, files);
            Ok(())
        }
        Stack::NetworkManager => {
            keyfile::render(setup, files);
            Ok(())
        }
        Stack::Ifcfg => ifcfg::render(guest, setup, files),
        Stack::Wicked => wicked::render(guest, setup, files),
        Stack::Networkd => networkd::render(guest, setup, files),
        Stack::Uci => uci::render(guest, setup, files),
        Stack::Netifrc => netifrc::render(guest, setup, files),
        Stack::Netctl => netctl::render(guest, setup, files),
        Stack::RcConf => rc_conf::render(guest, setup, files),
    }
}

#[cfg(test)]
mod cases;

#[cfg(test)]
mod judges;

#[cfg(test)]
mod tests;
