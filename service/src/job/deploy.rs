//! The job of `DeployGuestFs`: customises a guest.

mod account;
mod files;
mod identity;
mod interfaces;
mod prefixes;
mod steps;

use std::path::PathBuf;

use diskfs_deploy::{Deployment, Plan, Prefix};
use diskfs_disk::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::guest::{Guest, System, SystemKind};
use super::plan::apply;
use super::{Access, JobContext, Phase, Secret, Source, enter};
use crate::key;

/// Customises the guest on an image, in one transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the request"
)]
pub struct Deploy {
    /// The image.
    pub disk: Source,
    /// The name of the guest.
    pub hostname: String,
    /// The DNS domain of the guest; empty for none.
    pub domain: String,
    /// The UUID of the guest, which encrypts the password if there is no public key.
    pub uuid: String,
    /// The interfaces of the guest.
    pub network: Network,
    /// The number of disks of the guest.
    pub disk_count: usize,
    /// The disks with data that the guest mounts.
    pub data_disks: Vec<DataDisk>,
    /// True if the guest runs under KVM, and gets a guest agent.
    pub is_kvm: bool,
    /// True for the first deployment: files, user data and fstab are written.
    pub is_init: bool,
    /// The files to write.
    pub files: Vec<DeployFile>,
    /// A script or `#cloud-config` that runs once.
    pub user_data: String,
    /// The configuration of Telegraf, which is installed if there is one.
    pub telegraf: String,
    /// The password of the account; `None` to set none.
    pub password: Option<Secret>,
    /// True if the password was generated: a stronger one replaces it in guests whose rules refuse
    /// it.
    pub is_random_password: bool,
    /// The SSH public keys.
    pub keys: Keys,
    /// The name of the account; empty to choose one.
    pub login_account: String,
    /// True if the account is root where root may log in.
    pub default_root_user: bool,
    /// True to leave cloud-init enabled.
    pub enable_cloud_init: bool,
    /// The policy of the host.
    pub policy: Policy,
}

/// The interfaces of a guest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Network {
    /// The interfaces that are brought up.
    pub nics: Vec<Nic>,
    /// The interfaces that are not brought up.
    pub standby: Vec<Nic>,
    /// True if VLANs are interfaces of the guest, which is so without a hypervisor.
    pub has_vlans: bool,
}

/// A network interface.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a field of the request"
)]
pub struct Nic {
    /// The hardware address.
    pub mac: diskfs_deploy::Mac,
    /// The number of the interface.
    pub index: u32,
    /// The driver, such as `virtio`.
    pub driver: String,
    /// The IPv4 address.
    pub address4: Option<Prefix>,
    /// The IPv4 gateway.
    pub gateway4: Option<std::net::Ipv4Addr>,
    /// The IPv6 address.
    pub address6: Option<Prefix>,
    /// The IPv6 gateway.
    pub gateway6: Option<std::net::Ipv6Addr>,
    /// The name servers.
    pub nameservers: Vec<std::net::IpAddr>,
    /// The search domain; empty for none.
    pub domain: String,
    /// The routes.
    pub routes: Vec<Route>,
    /// The hardware address of the other member of a bond.
    pub team_with: Option<diskfs_deploy::Mac>,
    /// The VLAN; 0 and 1 for none.
    pub vlan: u16,
    /// The MTU.
    pub mtu: Option<u32>,
    /// True for a static address, false for DHCP.
    pub is_static: bool,
    /// True for an interface without a network of its own.
    pub is_virtual: bool,
    /// True for InfiniBand.
    pub is_infiniband: bool,
    /// True for the interface of the default route.
    pub is_default: bool,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The destination.
    pub to: Prefix,
    /// The gateway.
    pub via: std::net::IpAddr,
}

/// A disk with data, which has a filesystem with this UUID.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DataDisk {
    /// The UUID of the filesystem.
    pub uuid: String,
    /// The type of the filesystem, or `swap`.
    pub kind: String,
    /// The mount point; empty to choose one.
    pub mount_point: String,
}

/// A file to write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeployFile {
    /// The path in the guest.
    pub path: String,
    /// The contents.
    pub text: String,
    /// True to append the contents.
    pub appends: bool,
}

/// SSH public keys; empty for none.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Keys {
    /// The key of the account.
    pub user: String,
    /// A key that is removed from the account.
    pub removed: String,
    /// The keys of the user `cloudroot`.
    pub of_cloudroot: Vec<String>,
}

/// The policy of a host for all of its guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Leaves SELinux as it is; false disables it.
    pub allow_selinux: bool,
    /// The parent of the home directory of `cloudroot` in guests.
    pub cloudroot_dir: String,
    /// Private networks besides the usual ones.
    pub private_prefixes: Vec<Prefix>,
    /// User data permits the login of root and logins with a password over SSH.
    pub user_data_opens_sshd: bool,
    /// The directory of the programs `qemu-ga` and `telegraf` on the host.
    pub agents: Option<PathBuf>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            allow_selinux: false,
            cloudroot_dir: "/opt".to_owned(),
            private_prefixes: Vec::new(),
            user_data_opens_sshd: false,
            agents: None,
        }
    }
}

/// The result of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployed {
    /// The system of the guest.
    pub system: System,
    /// The account whose password was set; empty if there is none.
    pub account: String,
    /// The encrypted password; empty if there is none.
    pub key: String,
    /// True if Telegraf was installed.
    pub has_telegraf: bool,
    /// Notes about what was ignored or could not be done, with the reasons.
    pub notes: Vec<String>,
}

impl Deploy {
    pub(super) fn run(&self, context: &mut dyn JobContext) -> Result<Option<Deployed>> {
        enter(context, Phase::Open)?;
        let disk = context.open(&self.disk, Access::Write)?;
        enter(context, Phase::Prepare)?;
        let Some(guest) = Guest::find(&disk)? else {
            if self.is_init {
                return Ok(None);
            }
            return Err(diskfs_disk::guest::no_system(&disk));
        };
        let mut deployed = Deployed {
            system: guest.system.clone(),
            account: String::new(),
            key: String::new(),
            has_telegraf: false,
            notes: Vec::new(),
        };
        if guest.is_read_only()? {
            let note = "the root filesystem is read-only: nothing was changed";
            deployed.notes.push(note.to_owned());
            return Ok(Some(deployed));
        }
        refuse_other_systems(&guest)?;
        let plan = self.plan(&guest, context, &mut deployed)?;
        let deployment = Deployment::prepare_on(&disk, guest.filesystem, &plan)?;
        if let Some(password) = generated(&deployment) {
            deployed.key = self.encrypted(password)?;
        }
        let steps = apply(disk, &guest.found, deployment, context)?.steps;
        for step in steps {
            let notes = step.notes.iter();
            deployed
                .notes
                .extend(notes.map(|note| format!("{}: {note}", step.step)));
        }
        for note in &deployed.notes {
            tracing::info!("{note}");
        }
        Ok(Some(deployed))
    }

    /// Returns the steps of the deployment, in the host-deployer's order, and notes what the answer
    /// says about them.
    fn plan(
        &self,
        guest: &Guest,
        context: &dyn JobContext,
        deployed: &mut Deployed,
    ) -> Result<Plan> {
        let mut steps = Vec::new();
        if self.is_init {
            files::add(&self.files, &mut steps)?;
        }
        if !self.telegraf.is_empty() {
            deployed.has_telegraf = self.add_telegraf(context, &mut steps, &mut deployed.notes);
        }
        self.add_names(guest, &mut steps, &mut deployed.notes)?;
        if self.is_kvm {
            self.add_guest_agent(guest, context, &mut steps)?;
        }
        self.add_network(&mut steps)?;
        self.add_network_extras(guest, &mut steps, &mut deployed.notes)?;
        if self.is_init {
            self.add_data_disks(&mut steps);
        }
        if let Some(password) = &self.password {
            deployed.account = self.add_account(guest, password, &mut steps)?;
            deployed.key = self.encrypted(&password.text())?;
        }
        self.add_sshd(guest, &deployed.account, &mut steps)?;
        self.add_host_policy(guest, &mut steps)?;
        // After cloud-init is disabled, so that exactly one of the two runs the user data.
        if self.is_init {
            self.add_user_data(&mut steps, &mut deployed.notes);
        }
        Ok(Plan { steps })
    }

    fn encrypted(&self, password: &str) -> Result<String> {
        key::encrypt(&self.keys.user, &self.uuid, password)
    }
}

/// Returns the password that replaces the one of the request, if there is one.
fn generated(deployment: &Deployment) -> Option<&str> {
    // User data generates passwords, too, in another step.
    let mut steps = deployment.steps().iter();
    let step = steps.find(|step| step.step == "password")?;
    step.secrets.first().map(|secret| &*secret.secret)
}

fn refuse_other_systems(guest: &Guest) -> Result<()> {
    let kind = guest.system.kind;
    if kind == SystemKind::Linux {
        return Ok(());
    }
    let reason = format!("deploying into {} is not supported", kind.name());
    let hint = "only guests with Linux can be customised";
    Err(Error::new(ErrorKind::Unsupported, reason)
        .in_file(guest.filesystem.image_path())
        .with_hint(hint))
}

/// Parses a part of a plan that has many keys from its form in JSON.
fn parse<T: for<'d> Deserialize<'d>>(value: serde_json::Value) -> Result<T> {
    serde_json::from_value(value)
        .map_err(|error| Error::new(ErrorKind::Other, format!("invalid step: {error}")))
}
