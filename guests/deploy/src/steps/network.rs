//! The step `network`: configures network interfaces for whichever network stack the guest uses.
//!
//! A plan gives the addresses of the interfaces, and this module writes the files of the stack that
//! is enabled in the guest. [`inspect`](diskfs_inspect) can read everything that this module
//! writes.

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

/// The file that prevents cloud-init from configuring the network again.
const DISABLE: &str = "/etc/cloud/cloud.cfg.d/99-disable-network-config.cfg";

impl Network {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let stack = match self.stack {
            Stack::Auto => detect::stack(guest)?,
            stack => {
                if !detect::is_installed(guest, stack)? {
                    let name = stack.name();
                    guest.note(format!(
                        "{name} does not seem to be installed in the guest: nothing reads the \
                         written settings then"
                    ));
                }
                stack
            }
        };
        let links =
            links::checked_links(self, unnamed(stack)).map_err(|reason| guest.invalid(reason))?;
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
            clean::remove_deployed(guest, &files)?;
        }
        files.write(guest)
    }
}

/// Adds a note for each bond option that the stack does not support.
fn note_left_out(guest: &mut Guest, stack: Stack, setup: &Setup) {
    for link in &setup.links {
        for option in links::options(link) {
            let has_it = match stack {
                Stack::Netplan | Stack::CloudInit => option.of_netplan().is_some(),
                Stack::Networkd => option.name == "primary" || option.of_networkd().is_some(),
                // lagg(4) monitors its ports by itself.
                Stack::RcConf => option.name == "miimon" || rc_conf::of_lagg(option).is_some(),
                _ => true,
            };
            if !has_it {
                let (name, bond) = (option.name.replace('_', "-"), &link.name);
                let stack = stack.name();
                guest.note(format!(
                    "{bond}: {stack} does not support {name}; the option was ignored"
                ));
            }
        }
    }
}

/// Returns the name prefix of interfaces that have no name in the plan.
fn unnamed(stack: Stack) -> &'static str {
    match stack {
        Stack::Netplan | Stack::NetworkManager | Stack::Networkd | Stack::CloudInit => "net",
        // The name of virtio interfaces, which QEMU's machines have.
        Stack::RcConf => "vtnet",
        _ => "eth",
    }
}

fn render(guest: &mut Guest, stack: Stack, setup: &Setup, files: &mut Files) -> Result<()> {
    match stack {
        // `detect::stack` never returns `Auto`.
        Stack::Auto => Err(guest.invalid("no network stack was found")),
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
