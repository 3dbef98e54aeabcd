//! A guest that the service deployed, grew and gave a data disk, booted.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use diskfs_fixtures::run;
use serde_json::json;

use crate::DISKFS;
use crate::images::images;
use crate::machine::{MAC, Machine, Start};
use crate::server::Server;

const PASSWORD: &str = "Correct-$horse'7\\battery";
const DATA_ID: &str = "aaaabbbb-1111-2222-3333-444455556666";

/// The command whose output tells what the guest made of the requests.
const QUESTION: &str = "echo told: $(hostname) $(ip -4 -o address show to 10.0.2.15 | \
    awk '{print $2, $4}') $(findmnt -n -o FSTYPE,OPTIONS /data | tr -s ' ' | cut -d, -f1) \
    $(($(findmnt -n -b -o SIZE / | tr -d ' ') >> 30)) $(cat /root/.ssh/authorized_keys | grep -c AAAAC3Nza)";

#[test]
fn a_guest_that_the_service_deployed_boots() -> Result<()> {
    let Some(images) = images() else {
        return Ok(());
    };
    let allowed = images.display().to_string();
    let Some(server) = Server::start(&["--allow-backing", &allowed]) else {
        return Ok(());
    };
    let base = images.join("lvm.raw");
    let (guest, data) = (server.path("guest.qcow2"), server.path("data.qcow2"));
    let create = ["create", "-q", "-f", "qcow2"].map(Path::new);
    let overlay = ["-F", "raw", "-b"].map(Path::new);
    let with_base = create.iter().chain(&overlay).copied();
    // The disk is larger than its base.
    run(
        "qemu-img",
        with_base.chain([&*base, &*guest, Path::new("4G")]),
    )?;
    run(
        "qemu-img",
        create.into_iter().chain([&*data, Path::new("1G")]),
    )?;

    let format =
        json!({ "disk_info": server.image("data.qcow2"), "fs_format": "ext4", "uuid": DATA_ID });
    server.answer("FormatFs", &format);
    server.answer(
        "ResizeFs",
        &json!({ "disk_info": server.image("guest.qcow2") }),
    );
    let request = json!({
        "disk_info": server.image("guest.qcow2"),
        "guest_desc": {
            "name": "web1",
            "nics": [{
                "mac": MAC, "index": 0, "driver": "virtio", "manual": true,
                "ip": "10.0.2.15", "masklen": 24, "gateway": "10.0.2.2",
            }],
            "disks": [
                { "disk_id": "root", "index": 0 },
                { "disk_id": DATA_ID, "index": 1, "fs": "ext4", "mountpoint": "/data" },
            ],
        },
        "deploy_info": {
            "password": PASSWORD,
            "default_root_user": true,
            "is_init": true,
            "public_key": { "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEbVcDBPOQKuPXQjSvQ8RlUj5H3y0s5h2x2f0o0n0m0l" },
        },
    });
    let answer = server.answer("DeployGuestFs", &request);
    assert_eq!(answer["account"], "root", "{answer}");
    assert_eq!(answer["distro"], "Debian", "{answer}");

    let directory = server.directory();
    for name in ["vmlinuz", "initrd.img"] {
        let file = format!("{}:/{name}", guest.display());
        let words = ["cat", "--allow-backing", &allowed, &file];
        let copied = Command::new(DISKFS).args(words).output()?;
        fs::write(server.path(name), copied.stdout)?;
    }
    let root = Start::Kernel {
        root: "/dev/vg0/root",
    };
    let mut machine = Machine::start(&[&guest, &data], directory.path(), root)?;
    machine.expect("web1 login: ")?;
    machine.type_line("root")?;
    machine.expect("Password: ")?;
    machine.type_line(PASSWORD)?;
    machine.expect("root@web1:~# ")?;
    machine.type_line(QUESTION)?;
    // A root of 3.9 GiB, of which ext4 itself needs some.
    machine.expect("told: web1 eth0 10.0.2.15/24 ext4 rw 3 1")?;
    machine.type_line("poweroff")?;
    machine.is_off()
}
