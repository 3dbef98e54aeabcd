//! Access for the fuzzers to what is private otherwise.

use prost::Message;

use crate::convert;
use crate::executor;
use crate::job::Policy;
use crate::proto::apis;

/// Decodes bytes as the request of each method of the host-deployer, and converts it to a job; and
/// decodes them as the answer of a worker, which may be taken over by an image.
pub fn decode(bytes: &[u8]) {
    let policy = Policy::default();
    let _ = apis::DeployParams::decode(bytes).map(|it| convert::deploy(it, &policy));
    let _ = apis::ProbeImageInfoPramas::decode(bytes).map(convert::probe);
    let _ = apis::ResizeFsParams::decode(bytes).map(convert::resize);
    let _ = apis::SaveToGlanceParams::decode(bytes).map(convert::save);
    let _ = apis::FormatFsParams::decode(bytes).map(convert::format);
    let _ = apis::OvmfBootOrderParams::decode(bytes).map(|it| convert::boot_order(&it));
    let _ = executor::decode(bytes);
}

/// Returns requests to begin with.
pub fn seeds() -> [(&'static str, Vec<u8>); 2] {
    let disk = apis::DiskInfo {
        path: "/a.qcow2".to_owned(),
        encrypt_password: "c2VjcmV0".to_owned(),
        encrypt_format: "luks".to_owned(),
        ..apis::DiskInfo::default()
    };
    let nic = apis::Nic {
        mac: "00:24:c7:16:80:f2".to_owned(),
        ip: "10.0.0.5".to_owned(),
        masklen: 16,
        gateway: "10.0.0.1".to_owned(),
        dns: "192.168.1.1,fc00::3fe:1".to_owned(),
        routes: r#"[["10.1.0.0/16", "10.0.0.1"]]"#.to_owned(),
        ip6: "2001:db8::200".to_owned(),
        masklen6: 64,
        manual: true,
        ..apis::Nic::default()
    };
    let deploy = apis::DeployParams {
        disk_info: Some(disk.clone()),
        guest_desc: Some(apis::GuestDesc {
            name: "web1".to_owned(),
            uuid: "u1".to_owned(),
            nics: vec![nic],
            ..apis::GuestDesc::default()
        }),
        deploy_info: Some(apis::DeployInfo {
            password: "a$b".to_owned(),
            is_init: true,
            ..apis::DeployInfo::default()
        }),
        ..apis::DeployParams::default()
    };
    let format = apis::FormatFsParams {
        disk_info: Some(disk),
        fs_format: "ext4".to_owned(),
        uuid: "aaaabbbb-1111-2222-3333-444455556666".to_owned(),
        ..apis::FormatFsParams::default()
    };
    [
        ("deployment", deploy.encode_to_vec()),
        ("format", format.encode_to_vec()),
    ]
}
