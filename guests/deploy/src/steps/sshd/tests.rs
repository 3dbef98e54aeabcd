//! Tests of sshd options in the file layouts of distributions.

use std::path::PathBuf;
use std::process::Command;

use diskfs_fixtures::require;

use super::super::testing::{after, apply, attributes, guest, text};
use super::config::{DROP_IN, ETC_MAIN};

const DEBIAN: &str = "-- /etc/ssh/sshd_config --\n# This is it.\n\nInclude /etc/ssh/sshd_config.d/*.conf\n\n#Port 22\n#PermitRootLogin prohibit-password\nKbdInteractiveAuthentication no\nSubsystem\tsftp\t/usr/lib/openssh/sftp-server\n\
    -- /etc/ssh/sshd_config.d/50-cloud-init.conf --\nPasswordAuthentication no\n";

const CENTOS_6: &str = "-- /etc/ssh/sshd_config --\n#PermitRootLogin yes\nPasswordAuthentication=yes\n  permitrootlogin no\nPermitRootLogin yes\nPort 22\nPort 2222\nMatch User bob\n  PermitRootLogin yes\n  X11Forwarding no\n";

#[test]
fn a_drop_in_comes_first() {
    let step = "- sshd: {permit-root-login: yes, password-authentication: true, port: 2022, options: {MaxAuthTries: 3, KbdInteractiveAuthentication: yes}}";
    let guest = after(DEBIAN, step);
    assert_eq!(
        text(&guest, DROP_IN),
        "PermitRootLogin yes\nPasswordAuthentication yes\nPort 2022\nKbdInteractiveAuthentication yes\nMaxAuthTries 3\n"
    );
    assert_eq!(attributes(&guest, DROP_IN), "0600 0:0");
    assert_eq!(guest.stage.changes().unwrap().len(), 1);
}

#[test]
fn without_one_the_first_line_is_replaced() {
    let step = "- sshd: {permit-root-login: prohibit-password, password-authentication: false, port: 2022, options: {X11Forwarding: true}}";
    let guest = after(CENTOS_6, step);
    assert_eq!(
        text(&guest, ETC_MAIN),
        "#PermitRootLogin yes\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nPermitRootLogin yes\nPort 2022\nX11Forwarding yes\nMatch User bob\n  PermitRootLogin yes\n  X11Forwarding no\n"
    );
}

#[test]
fn what_is_so_already_stays() {
    let step = "- sshd: {permit-root-login: no, password-authentication: true}";
    assert!(after(CENTOS_6, step).stage.changes().unwrap().is_empty());
    let suse = "-- /usr/etc/ssh/sshd_config --\nInclude sshd_config.d/*.conf\nPermitRootLogin no\n";
    let guest = after(suse, "- sshd: {permit-root-login: yes}");
    assert_eq!(text(&guest, DROP_IN), "PermitRootLogin yes\n");
}

#[test]
fn a_line_before_the_include_counts() {
    let early =
        "-- /etc/ssh/sshd_config --\nPermitRootLogin no\nInclude /etc/ssh/sshd_config.d/*.conf\n";
    let guest = after(early, "- sshd: {permit-root-login: yes}");
    assert!(text(&guest, ETC_MAIN).starts_with("PermitRootLogin yes\nInclude"));
    assert_eq!(attributes(&guest, DROP_IN), "-");
}

#[test]
fn other_effective_settings_are_reported() {
    let other =
        format!("{DEBIAN}-- /etc/ssh/sshd_config.d/00-a.conf --\nPasswordAuthentication no\n");
    let mut guest = guest(&other);
    apply(&mut guest, "- sshd: {password-authentication: true}").unwrap();
    let notes = guest.report("sshd").notes;
    assert!(
        notes.iter().any(|note| note.contains("00-a.conf")),
        "{notes:?}"
    );
}

#[test]
fn what_is_no_setting_is_refused() {
    for step in [
        "- sshd: {permit-root-login: maybe}",
        "- sshd: {port: 0}",
        "- sshd: {options: {Match: all}}",
        "- sshd: {options: {\"A B\": c}}",
        "- sshd: {options: {Banner: \"a\\nPermitRootLogin yes\"}}",
        "- sshd: {options: {Banner: \"\"}}",
    ] {
        let mut guest = guest(DEBIAN);
        assert!(apply(&mut guest, step).is_err(), "{step}");
        assert!(guest.stage.changes().unwrap().is_empty(), "{step}");
    }
    assert!(apply(&mut guest("-- /etc/passwd --\n"), "- sshd: {port: 22}").is_err());
}

#[test]
fn circles_of_includes_end() {
    let circle = "-- /etc/ssh/sshd_config --\nInclude sshd_config\n";
    let guest = after(circle, "- sshd: {permit-root-login: yes}");
    assert_eq!(
        text(&guest, ETC_MAIN),
        "Include sshd_config\nPermitRootLogin yes\n"
    );
}

/// Returns the absolute path of sshd, which refuses to run under a relative one.
fn whole_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut programs = dirs.map(|dir| dir.join(program));
    programs.find(|path| path.is_file()).unwrap()
}

/// Returns the output of `sshd -T` for a configuration, run where it finds its user and directory.
fn sshd_says(settings: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let keygen = ["-q", "-t", "ed25519", "-N", "", "-f"];
    let keygen = Command::new("ssh-keygen")
        .args(keygen)
        .arg(at("key"))
        .status();
    assert!(keygen.unwrap().success());
    std::fs::write(at("config"), settings).unwrap();
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let users = format!("{users}\nsshd:x:105:65534::/run/sshd:/bin/false\n");
    std::fs::write(at("passwd"), users).unwrap();
    let output = Command::new("bwrap")
        .args([
            "--dev-bind",
            "/",
            "/",
            "--tmpfs",
            "/run",
            "--dir",
            "/run/sshd",
        ])
        .arg("--ro-bind")
        .arg(at("passwd"))
        .arg("/etc/passwd")
        .arg(whole_path("sshd"))
        .args(["-T", "-f"])
        .arg(at("config"))
        .arg("-h")
        .arg(at("key"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn sshd_takes_it() {
    if ["sshd", "ssh-keygen", "bwrap"]
        .iter()
        .any(|program| require(program).is_none())
    {
        return;
    }
    let step = "- sshd: {permit-root-login: no, port: 2022, options: {MaxAuthTries: 3, AllowUsers: ann bob}}";
    for (txtar, file) in [(CENTOS_6, ETC_MAIN), (DEBIAN, DROP_IN)] {
        let said = sshd_says(&text(&after(txtar, step), file));
        let of = |key: &str| -> Vec<&str> {
            let lines = said.lines();
            lines.filter_map(|line| line.strip_prefix(key)).collect()
        };
        assert_eq!(of("port "), ["2022"]);
        assert_eq!(of("permitrootlogin "), ["no"]);
        assert_eq!(of("maxauthtries "), ["3"]);
        assert_eq!(of("allowusers "), ["ann", "bob"]);
    }
}
