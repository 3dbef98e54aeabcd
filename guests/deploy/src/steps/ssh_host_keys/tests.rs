//! Tests of host keys with `ssh-keygen`.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use diskfs_fixtures::require;

use super::super::testing::{after, apply, attributes, guest, text};
use super::*;

const DEBIAN: &str = "-- /etc/ssh/sshd_config --\n#HostKey /etc/ssh/ssh_host_rsa_key\nPort 22\n";
const ED25519: &str = "/etc/ssh/ssh_host_ed25519_key";

fn names(guest: &Guest) -> Vec<String> {
    guest.stage.names(DIR).unwrap()
}

/// Returns the output of `ssh-keygen`.
fn ssh_keygen(words: &[&str]) -> String {
    let output = Command::new("ssh-keygen").args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn missing_keys_are_made_once_and_ssh_keygen_reads_them() {
    let guest = after(DEBIAN, "- ssh-host-keys: generate");
    assert_eq!(names(&guest).len(), 7);
    assert_eq!(attributes(&guest, ED25519), "0600 0:0");
    assert_eq!(attributes(&guest, &format!("{ED25519}.pub")), "0644 0:0");
    if require("ssh-keygen").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (kind, bits) in [("rsa", "3072 "), ("ecdsa", "256 "), ("ed25519", "256 ")] {
        let path = dir.path().join(kind);
        let key = format!("{DIR}/ssh_host_{kind}_key");
        std::fs::write(&path, text(&guest, &key)).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let path = path.to_str().unwrap();
        let public = ssh_keygen(&["-y", "-f", path]);
        assert_eq!(public, text(&guest, &format!("{key}.pub")), "{kind}");
        let listed = ssh_keygen(&["-l", "-f", path]);
        assert!(listed.starts_with(bits), "{listed}");
        // Signs with the key and verifies the signature, which shows that the private half matches.
        let signed = dir.path().join("text");
        std::fs::write(&signed, "text").unwrap();
        let signature = format!("{}.sig", signed.display());
        let _ = std::fs::remove_file(&signature);
        ssh_keygen(&[
            "-q",
            "-Y",
            "sign",
            "-n",
            "file",
            "-f",
            path,
            signed.to_str().unwrap(),
        ]);
        let mut check = Command::new("ssh-keygen");
        check.args(["-Y", "check-novalidate", "-n", "file", "-s", &signature]);
        let check = check.stdin(std::fs::File::open(&signed).unwrap()).status();
        assert!(check.unwrap().success(), "{kind}");
    }
}

#[test]
fn only_keys_that_sshd_reads() {
    let config = "-- /etc/ssh/sshd_config --\nHostKey /etc/ssh/ssh_host_ed25519_key\nHostKey /etc/ssh/mine\n\
        -- /etc/group --\nssh_keys:x:101:\n";
    let mut guest = guest(config);
    apply(&mut guest, "- ssh-host-keys: generate").unwrap();
    let ours = [
        "ssh_host_ed25519_key",
        "ssh_host_ed25519_key.pub",
        "sshd_config",
    ];
    assert_eq!(names(&guest), ours);
    assert_eq!(attributes(&guest, ED25519), "0640 0:101");
    assert!(guest.report("ssh-host-keys").notes[0].contains("/etc/ssh/mine"));
}

#[test]
fn keys_are_removed_or_replaced() {
    let config = "-- /etc/ssh/sshd_config --\nHostKey /etc/ssh/ssh_host_ed25519_key\n-- /etc/ssh/ssh_host_rsa_key --\nr\n\
        -- /etc/ssh/ssh_host_rsa_key.pub --\nr\n-- /etc/ssh/ssh_host_ed25519_key --\ne\n-- /etc/ssh/ssh_host_ed25519_key-cert.pub --\nc\n\
        -- /etc/ssh/moduli --\nm\n-- /etc/dropbear/dropbear_rsa_host_key --\nd\n";
    let removed = after(config, "- ssh-host-keys: remove");
    assert_eq!(names(&removed), ["moduli", "sshd_config"]);
    assert!(removed.stage.names(DROPBEAR_DIR).unwrap().is_empty());
    let mut again = guest(config);
    apply(&mut again, "- ssh-host-keys: regenerate").unwrap();
    assert!(text(&again, ED25519).starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
    assert_eq!(names(&again).len(), 4);
}

#[test]
fn guests_that_could_not_read_them_make_their_own() {
    let centos = format!("{DEBIAN}-- /etc/redhat-release --\nCentOS release 6.10 (Final)\n");
    let guest = after(&centos, "- ssh-host-keys: generate");
    assert_eq!(names(&guest), ["sshd_config"]);
    let wheezy =
        "-- /etc/os-release --\nID=debian\nVERSION_ID=\"7\"\n-- /etc/ssh/ssh_host_rsa_key --\nr\n";
    let wheezy = format!("{DEBIAN}{wheezy}");
    let mut old = self::guest(&wheezy);
    assert!(apply(&mut old, "- ssh-host-keys: regenerate").is_err());
    assert!(old.stage.changes().unwrap().is_empty());
    let none = after("-- /etc/passwd --\n", "- ssh-host-keys: generate");
    assert!(none.stage.changes().unwrap().is_empty());
}

#[test]
fn no_more_keys_are_made_than_an_sshd_has() {
    let lines = (0..300).map(|n| format!("HostKey /etc/ssh/k{n}_ed25519\n"));
    let tree = format!("-- /etc/ssh/sshd_config --\n{}", lines.collect::<String>());
    let mut guest = guest(&tree);
    apply(&mut guest, "- ssh-host-keys: generate").unwrap();
    assert_eq!(names(&guest).len(), 1 + 2 * MAX_KEYS);
    assert_eq!(guest.report("ssh-host-keys").notes.len(), 1);
}
