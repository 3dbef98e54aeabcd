//! Requests of the service for filesystems that only a kernel can write. Their jobs run in confined
//! workers, which give their volumes to a microVM of the server.

use std::fs;
use std::path::Path;

use diskfs_fixtures::{Workshop, require_root, run};
use serde_json::json;

use super::deploy::{fill, on_mount};
use super::{DISKFS, appliance, check, require_all};

#[path = "../../serve/server.rs"]
#[expect(dead_code, reason = "the tests of the service use more of it")]
mod server;

use server::Server;

const MIB: u64 = 1 << 20;
/// The place of the first partition.
const P1_BYTES: u64 = MIB;

fn server() -> Option<Server> {
    let appliance = appliance()?;
    require_all(&["grpc-python"])?;
    let appliance = appliance.to_str()?;
    let variables = [("DISKFS_VM", "auto"), ("DISKFS_APPLIANCE", appliance)];
    Some(Server::start_with(&[], &variables))
}

#[test]
fn a_disk_is_formatted_grown_and_deployed_to() {
    let (Some(server), Some(()), Some(())) = (
        server(),
        require_root(),
        require_all(&["mkfs.xfs", "xfs_repair", "setfattr"]),
    ) else {
        return;
    };
    let path = server.path("disk");
    let disk = server.image("disk");
    let set_len = |mib| {
        let file = fs::File::options().create(true).append(true).open(&path);
        file.unwrap().set_len(mib * MIB).unwrap();
    };
    set_len(400);
    let uuid = "aaaabbbb-1111-2222-3333-444455556666";
    let request = json!({ "disk_info": disk, "fs_format": "xfs", "uuid": uuid });
    server.answer("FormatFs", &request);
    let options = format!("loop,offset={P1_BYTES}");
    on_mount(&path, &options, fill);

    set_len(600);
    server.answer("ResizeFs", &json!({ "disk_info": disk }));
    let size = on_mount(&path, &format!("{options},ro"), |root| {
        rustix::fs::statvfs(root).map(|it| it.f_blocks * it.f_frsize)
    });
    assert!(size.unwrap() > 500 * MIB, "{}", server.log());

    let guest = json!({ "name": "web1", "uuid": "u" });
    let request = json!({
        "disk_info": disk,
        "guest_desc": guest,
        "deploy_info": { "is_init": true, "password": "secret-1", "default_root_user": true },
    });
    server.answer("DeployGuestFs", &request);
    on_mount(&path, &format!("{options},ro"), |root| {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        assert_eq!(text("etc/hostname"), "web1\n");
        assert!(text("etc/shadow").starts_with("root:$"));
    });
    let partition = server.path("partition");
    copy_from(&path, P1_BYTES, &partition);
    check("xfs_repair", &["-n"], &partition);
}

#[test]
fn a_worker_that_is_killed_leaves_the_disk() {
    let (Some(server), Some(()), Some(())) = (
        server(),
        require_root(),
        require_all(&["mkfs.xfs", "xfs_repair", "setfattr"]),
    ) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", 320 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    on_mount(&image, "loop", fill);
    let request = |name: &str| {
        json!({
            "disk_info": { "path": image },
            "guest_desc": { "name": name, "uuid": "u" },
            "deploy_info": { "is_init": true, "password": "secret-1", "default_root_user": true },
        })
    };
    // At several moments between the start of the machine and the end of the commit.
    let mut before = "old".to_owned();
    for milliseconds in [5, 40, 100, 300] {
        let name = format!("after{milliseconds}");
        server.forget_log();
        let method = "apis.DeployAgent/DeployGuestFs";
        let calls = json!([{ "call": method, "request": request(&name) }]);
        let target = format!("unix:{}", server.path("deploy.sock").display());
        let client = server::start_calls(&target, &[], &calls);
        server.until("microVM");
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        for worker in server.workers() {
            let _ = rustix::process::kill_process(worker, rustix::process::Signal::KILL);
        }
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success());
        // As after a power cut: the kernel recovers it.
        let found = on_mount(&image, "loop", |root| {
            fs::read_to_string(root.join("etc/hostname")).unwrap()
        });
        let found = found.trim().to_owned();
        assert!(found == before || found == name, "{found}");
        before = found;
        check("xfs_repair", &["-n"], &image);
    }
    server.answer("DeployGuestFs", &request("last"));
}

/// Copies the end of a file.
fn copy_from(file: &Path, offset: u64, to: &Path) {
    let mut from = fs::File::open(file).unwrap();
    std::io::Seek::seek(&mut from, std::io::SeekFrom::Start(offset)).unwrap();
    std::io::copy(&mut from, &mut fs::File::create(to).unwrap()).unwrap();
}
