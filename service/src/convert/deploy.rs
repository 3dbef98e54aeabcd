//! The conversion of `DeployGuestFs`.

use crate::failure::Failure;
use crate::job::{DataDisk, Deploy, DeployFile, Deployed, Job, Keys, Network, Policy, Secret};
use crate::proto::apis;

use super::nic::nic;
use super::source;

/// Returns the job of `DeployGuestFs`.
pub(crate) fn deploy(request: apis::DeployParams, policy: &Policy) -> Result<Job, Failure> {
    let guest = request.guest_desc.unwrap_or_default();
    let info = request.deploy_info.unwrap_or_default();
    let disk = source(request.disk_info, Some(&guest))?;
    let nics = |nics: Vec<apis::Nic>| nics.into_iter().map(nic).collect::<Result<Vec<_>, _>>();
    let data_disks = guest
        .disks
        .iter()
        .skip(1)
        .filter(|disk| !disk.fs.is_empty());
    let hostname = if guest.hostname.is_empty() {
        guest.name
    } else {
        guest.hostname
    };
    Ok(Job::Deploy(Box::new(Deploy {
        disk,
        hostname,
        domain: guest.domain,
        uuid: guest.uuid,
        network: Network {
            nics: nics(guest.nics)?,
            standby: nics(guest.nics_standby)?,
            has_vlans: guest.hypervisor == "baremetal",
        },
        disk_count: guest.disks.len(),
        data_disks: data_disks.map(data_disk).collect(),
        is_kvm: guest.hypervisor == "kvm",
        is_init: info.is_init,
        files: info.deploys.into_iter().map(file).collect(),
        user_data: info.user_data,
        telegraf: info.telegraf.unwrap_or_default().telegraf_conf,
        password: Some(info.password)
            .filter(|password| !password.is_empty())
            .map(|password| Secret(password.into_bytes())),
        is_random_password: info.is_random_password,
        keys: keys(info.public_key.unwrap_or_default()),
        login_account: info.login_account,
        default_root_user: info.default_root_user,
        enable_cloud_init: info.enable_cloud_init,
        policy: policy.clone(),
    })))
}

fn data_disk(disk: &apis::Disk) -> DataDisk {
    DataDisk {
        uuid: disk.disk_id.clone(),
        kind: disk.fs.clone(),
        mount_point: disk.mountpoint.clone(),
    }
}

fn file(file: apis::DeployContent) -> DeployFile {
    DeployFile {
        path: file.path,
        text: file.content,
        appends: file.action == "append",
    }
}

fn keys(keys: apis::SshKeys) -> Keys {
    Keys {
        user: keys.public_key,
        removed: keys.delete_public_key,
        of_cloudroot: [keys.admin_public_key, keys.project_public_key]
            .into_iter()
            .filter(|key| !key.trim().is_empty())
            .collect(),
    }
}

/// Returns the answer to `DeployGuestFs`. A disk without a system has an empty one.
pub(crate) fn deployed(deployed: Option<Deployed>) -> apis::DeployGuestFsResponse {
    let Some(deployed) = deployed else {
        return apis::DeployGuestFsResponse::default();
    };
    let system = deployed.system;
    apis::DeployGuestFsResponse {
        os: system.kind.name().to_owned(),
        distro: system.distro,
        version: system.version,
        arch: system.arch,
        language: system.language,
        account: deployed.account,
        key: deployed.key,
        telegraf_deployed: deployed.has_telegraf,
        current_version: system.current_version,
    }
}
