//! Tests that the written files are accepted by the programs that read them: netplan,
//! `NetworkManager`, ifupdown and shells.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use diskfs_fixtures::require;
use tempfile::TempDir;

use super::cases::{Case, all, changes_text};

/// Writes the files of a case into a directory of the host.
fn written(case: &Case) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut open: Option<fs::File> = None;
    for line in changes_text(&mut case.after()).split_inclusive('\n') {
        let head = line.trim_end().strip_prefix("-- ");
        if let Some(path) = head.and_then(|it| it.strip_suffix(" --")) {
            open = (!path.contains(" -> ")).then(|| create(&dir.path().join(&path[1..])));
        } else if let Some(file) = &mut open {
            file.write_all(line.as_bytes()).unwrap();
        }
    }
    dir
}

fn create(path: &Path) -> fs::File {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = fs::File::create(path).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o600))
        .unwrap();
    file
}

/// Returns the files of a case in a directory.
fn files(root: &TempDir, dir: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root.path().join(dir)) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_file());
    paths
}

fn run(case: &Case, command: &mut Command, input: Stdio) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.stdin(input).output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{}: {command:?}: {stderr}", case.name);
    // A warning is a failure, too.
    let complains = ["warning", "error:", "invalid", "unknown", "deprecated"];
    let is_quiet = !complains
        .iter()
        .any(|word| stderr.to_lowercase().contains(word));
    assert!(is_quiet, "{}: {command:?}: {stderr}", case.name);
    String::from_utf8(stdout).unwrap()
}

#[test]
fn netplan_takes_what_is_written_for_it_and_for_cloud_init() {
    if require("netplan").is_none() {
        return;
    }
    let mut count = 0;
    for case in all() {
        let root = written(&case);
        // cloud-init's document has the same format, so netplan can check it.
        let cloud = root
            .path()
            .join("etc/cloud/cloud.cfg.d/50-network-config.cfg");
        let plan = root.path().join("etc/netplan/60-diskfs.yaml");
        if cloud.exists() {
            create(&plan);
            fs::copy(cloud, &plan).unwrap();
        }
        if plan.exists() {
            let mut command = Command::new("netplan");
            command.arg("generate").arg("--root-dir").arg(root.path());
            run(&case, &mut command, Stdio::null());
            let made = [
                "run/systemd/network",
                "run/NetworkManager/system-connections",
            ];
            let made = made.iter().map(|dir| files(&root, dir).len());
            assert!(made.sum::<usize>() >= 2, "{}", case.name);
            count += 1;
        }
    }
    assert!(count >= 4, "{count} cases");
}

#[test]
fn network_manager_takes_its_keyfiles() {
    if require("nmcli").is_none() {
        return;
    }
    let mut count = 0;
    for case in all() {
        let root = written(&case);
        for path in files(&root, "etc/NetworkManager/system-connections") {
            let mut command = Command::new("nmcli");
            command.args([
                "--offline",
                "connection",
                "modify",
                "connection.lldp",
                "default",
            ]);
            let input = fs::File::open(&path).unwrap();
            let read = run(&case, &mut command, input.into());
            // nmcli drops what it does not understand. It writes the gateway with the first
            // address.
            for line in fs::read_to_string(&path).unwrap().lines() {
                let is_key = line.contains('=') && !line.starts_with('#');
                let value = line
                    .strip_prefix("gateway=")
                    .map(|gateway| format!(",{gateway}\n"));
                let expected = value.unwrap_or_else(|| line.to_owned());
                assert!(
                    !is_key || read.contains(&expected),
                    "{}: {line}: {read}",
                    case.name
                );
            }
            count += 1;
        }
    }
    assert!(count >= 8, "{count} connections");
}

#[test]
fn ifupdown_takes_its_interfaces() {
    if require("ifup").is_none() {
        return;
    }
    let mut count = 0;
    for case in all() {
        let root = written(&case);
        let path = root.path().join("etc/network/interfaces");
        if !path.exists() {
            continue;
        }
        let mut command = diskfs_fixtures::command("ifup");
        command.args(["--no-act", "--force", "-a", "-i"]).arg(&path);
        run(&case, &mut command, Stdio::null());
        let mut command = Command::new("ifquery");
        command.args(["--list", "-a", "-i"]).arg(&path);
        let listed = run(&case, &mut command, Stdio::null());
        let text = fs::read_to_string(&path).unwrap();
        let named = text.lines().filter_map(|line| line.strip_prefix("auto "));
        let named: Vec<&str> = named.collect();
        assert_eq!(listed.lines().collect::<Vec<_>>(), named, "{}", case.name);
        count += 1;
    }
    assert!(count >= 5, "{count} files");
}

#[test]
fn shells_take_what_they_read() {
    if require("bash").is_none() {
        return;
    }
    let mut count = 0;
    for case in all() {
        let root = written(&case);
        let dirs = [
            "etc/sysconfig/network-scripts",
            "etc/sysconfig/network",
            "etc/netctl",
            "etc/conf.d",
        ];
        let mut paths: Vec<PathBuf> = dirs.iter().flat_map(|dir| files(&root, dir)).collect();
        let is_routes = |path: &Path| path.to_string_lossy().contains("route");
        paths.retain(|path| !is_routes(path));
        paths.push(root.path().join("etc/rc.conf"));
        for path in paths.iter().filter(|path| path.exists()) {
            let mut command = Command::new("bash");
            run(&case, command.arg("-n").arg(path), Stdio::null());
            count += 1;
        }
    }
    assert!(count >= 20, "{count} files");
}
