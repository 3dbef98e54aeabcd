//! Tests of users in guests of several kinds.

use std::process::Command;

use diskfs_fixtures::{require, require_root};
use proptest::prelude::*;

use super::super::super::accounts::{GROUP, GSHADOW, SHADOW};
use super::super::testing::{after, apply, attributes, guest, text};
use super::*;

const DEBIAN_12: &str = include_str!("tests/debian-12.txtar");
const RHEL_9: &str = include_str!("tests/rhel-9.txtar");
const ALPINE: &str = include_str!("tests/alpine.txtar");
const CENTOS_6: &str = include_str!("tests/centos-6.txtar");

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHw5jFmJ8u0oD5nB6wQ1zvO7pV0cY8aJ1mWq2xT3rKfL";

/// Returns the line of a name in a file, or "" if there is none.
fn line(guest: &Guest, file: &str, name: &str) -> String {
    let text = text(guest, file);
    let prefix = format!("{name}:");
    let mut lines = text.lines();
    lines
        .find(|line| line.starts_with(&prefix))
        .unwrap_or_default()
        .to_owned()
}

fn notes(guest: &mut Guest) -> String {
    guest.report("user").notes.join("\n")
}

#[test]
fn a_debian() {
    let step = format!(
        "- user: {{name: bob, comment: Bob B, groups: [adm, sudo], sudo: nopasswd, ssh-keys: [\"{KEY}\"], password: {{locked: true}}}}"
    );
    let guest = after(DEBIAN_12, &step);
    assert_eq!(
        line(&guest, PASSWD, "bob"),
        "bob:x:1001:1001:Bob B:/home/bob:/bin/bash"
    );
    assert_eq!(line(&guest, SHADOW, "bob"), "bob:!:19675:0:99999:7:::");
    assert_eq!(line(&guest, GROUP, "bob"), "bob:x:1001:");
    assert_eq!(line(&guest, GSHADOW, "bob"), "bob:!::");
    assert_eq!(line(&guest, GROUP, "adm"), "adm:x:4:ann,bob");
    assert_eq!(line(&guest, GSHADOW, "adm"), "adm:*::ann,bob");
    assert_eq!(line(&guest, GROUP, "sudo"), "sudo:x:27:bob");
    assert_eq!(line(&guest, "/etc/subuid", "bob"), "bob:165536:65536");
    assert_eq!(line(&guest, "/etc/subgid", "bob"), "bob:165536:65536");
    assert_eq!(attributes(&guest, "/home/bob"), "0700 1001:1001");
    assert_eq!(
        attributes(&guest, "/home/bob/.bashrc")
            .split_once(' ')
            .unwrap()
            .1,
        "1001:1001"
    );
    assert_eq!(text(&guest, "/home/bob/.bashrc"), "# bash\n");
    assert_eq!(text(&guest, "/home/bob/.config/a/b"), "b\n");
    assert_eq!(attributes(&guest, "/home/bob/.link"), "0777 1001:1001");
    assert_eq!(
        text(&guest, "/etc/sudoers.d/90-bob"),
        "bob ALL=(ALL:ALL) NOPASSWD: ALL\n"
    );
    assert_eq!(
        text(&guest, "/home/bob/.ssh/authorized_keys"),
        format!("{KEY}\n")
    );
    // Everything else is unchanged.
    for file in [PASSWD, SHADOW, GROUP, GSHADOW, "/etc/subuid"] {
        assert!(text(&guest, file).lines().count() > 1, "{file}");
        assert!(text(&guest, file).ends_with('\n'));
    }
}

#[test]
fn a_service_of_a_red_hat() {
    let guest = after(
        RHEL_9,
        "- user: {name: app, system: true, shell: /sbin/nologin}",
    );
    assert_eq!(
        line(&guest, PASSWD, "app"),
        "app:x:996:996::/home/app:/sbin/nologin"
    );
    assert_eq!(line(&guest, SHADOW, "app"), "app:!:19675::::::");
    assert_eq!(attributes(&guest, "/home/app"), "-");
    assert_eq!(line(&guest, "/etc/subuid", "app"), "");
    assert_eq!(attributes(&guest, "/var/spool/mail/app"), "-");
}

#[test]
fn a_person_on_a_red_hat() {
    let guest = after(RHEL_9, "- user: {name: bob, uid: 1500, sudo: true}");
    assert_eq!(
        line(&guest, PASSWD, "bob"),
        "bob:x:1500:1500::/home/bob:/bin/bash"
    );
    assert_eq!(attributes(&guest, "/home/bob"), "0700 1500:1500");
    assert_eq!(attributes(&guest, "/var/spool/mail/bob"), "0660 1500:12");
    assert_eq!(line(&guest, "/etc/subuid", "bob"), "bob:100000:65536");
}

#[test]
fn an_alpine_has_no_bash_and_no_sudo() {
    let step = "- user: {name: bob, shell: /bin/bash, sudo: true}";
    let mut guest = after(ALPINE, step);
    assert_eq!(
        line(&guest, PASSWD, "bob"),
        "bob:x:1000:1000::/home/bob:/bin/sh"
    );
    assert_eq!(line(&guest, GROUP, "wheel"), "wheel:x:10:root,bob");
    assert!(notes(&mut guest).contains("/bin/bash"));
}

#[test]
fn an_old_centos_before_nis() {
    let guest = after(CENTOS_6, "- user: {name: bob, password: {random: true}}");
    assert_eq!(
        line(&guest, PASSWD, "bob"),
        "bob:x:501:501::/home/bob:/bin/bash"
    );
    assert!(text(&guest, PASSWD).ends_with("/bin/bash\n+::::::\n"));
    assert!(line(&guest, SHADOW, "bob").starts_with("bob:$6$"));
}

#[test]
fn one_who_is_there_is_changed_in_what_is_given() {
    let mut guest = after(
        DEBIAN_12,
        "- user: {name: ann, shell: /bin/sh, comment: A, create: false, groups: [sudo]}",
    );
    assert_eq!(
        line(&guest, PASSWD, "ann"),
        "ann:x:1000:1000:A:/home/ann:/bin/sh"
    );
    assert_eq!(line(&guest, GROUP, "sudo"), "sudo:x:27:ann");
    let changed: Vec<String> = guest
        .stage
        .changes()
        .unwrap()
        .into_iter()
        .map(|it| it.path)
        .collect();
    assert_eq!(changed, [GROUP, GSHADOW, PASSWD]);
    apply(&mut guest, "- user: {name: ann, password: {random: true}}").unwrap();
    assert!(guest.report("user").secrets.is_empty());
}

#[test]
fn groups_as_the_guest_has_them() {
    let given = after(
        DEBIAN_12,
        "- user: {name: bob, gid: 4}\n- user: {name: eve, gid: 4000}",
    );
    assert!(line(&given, PASSWD, "bob").starts_with("bob:x:1001:4:"));
    assert_eq!(line(&given, GROUP, "bob"), "");
    assert_eq!(line(&given, GROUP, "eve"), "eve:x:4000:");
    // The group exists, but the user does not.
    let own = after(DEBIAN_12, "- user: {name: adm, groups: [adm]}");
    assert!(line(&own, PASSWD, "adm").starts_with("adm:x:1001:4:"));
    let shared = DEBIAN_12.replace("USERGROUPS_ENAB yes", "USERGROUPS_ENAB no");
    let shared = after(&shared, "- user: {name: bob}");
    assert!(line(&shared, PASSWD, "bob").starts_with("bob:x:1001:100:"));
}

#[test]
fn what_is_no_user_is_refused() {
    for step in [
        "- user: {name: Bob}",
        "- user: {name: \"a:0:0\"}",
        "- user: {name: bob, groups: [none]}",
        "- user: {name: bob, create: false}",
        "- user: {name: bob, uid: 1000}",
        "- user: {name: bob, uid: 4294967295}",
        "- user: {name: ann, uid: 1001}",
        "- user: {name: ann, gid: 4}",
        "- user: {name: bob, home: home/bob}",
        "- user: {name: bob, comment: \"a:b\"}",
        "- user: {name: bob, shell: \"/bin/sh\\nroot2::0:0::/:/bin/sh\"}",
        "- user: {name: bob, sudo: maybe}",
        "- user: {name: bob, ssh-keys: [x]}",
        "- user: {name: bob, ssh_keys: []}",
    ] {
        assert!(apply(&mut guest(DEBIAN_12), step).is_err(), "{step}");
    }
    let bsd = "-- /etc/master.passwd --\n-- /etc/passwd --\n";
    assert!(apply(&mut guest(bsd), "- user: {name: bob}").is_err());
}

#[test]
fn an_account_expires_no_more() {
    let step = "- user: {name: bob, never-expires: true}";
    for (row, expected) in [
        ("bob:!:19000:0:90:7:14:19100:", "bob:!:19000:0:99999:7:::"),
        ("bob:x:0:1:99999:7:::", "bob:x:19675:1:99999:7:::"),
        ("bob:x:19000::::30", "bob:x:19000::::::"),
        // Nothing expires: the line stays as it is.
        ("bob:x:19000", "bob:x:19000"),
        ("bob:x:19000:0:99999:7:::", "bob:x:19000:0:99999:7:::"),
    ] {
        let account = "-- /etc/passwd --\nbob:x:7:7::/:/bin/sh\n-- /etc/shadow --\n";
        let guest = after(&format!("{account}{row}\n"), step);
        assert_eq!(line(&guest, SHADOW, "bob"), expected);
    }
    // The defaults of a new account are overridden, too.
    let defaults = "-- /etc/passwd --\nroot:x:0:0::/:/bin/sh\n-- /etc/shadow --\nroot:*:::::::\n\
        -- /etc/group --\nroot:x:0:\n-- /etc/default/useradd --\nINACTIVE=3\nEXPIRE=2030-01-01\n";
    let guest = after(
        defaults,
        "- user: {name: bob, system: true, never-expires: true}",
    );
    assert_eq!(line(&guest, SHADOW, "bob"), "bob:!:19675::::::");
}

#[test]
fn a_plan_is_written_as_it_was_read() {
    let text = r#"{"name":"bob","password":"x","sudo":"nopasswd","ssh-keys":["k"]}"#;
    let user: User = serde_json::from_str(text).unwrap();
    assert!(user.create && user.sudo == Some(Sudo::NoPassword));
    assert_eq!(serde_json::to_string(&user).unwrap(), text);
}

/// Checks that `pwck` and `grpck` report no errors in the files.
#[test]
fn the_files_are_well_formed() {
    if require("pwck").is_none() || require("grpck").is_none() {
        return;
    }
    let steps = "- user: {name: bob, password: x, groups: [root]}\n- user: {name: svc, system: true}\n- root-password: {locked: true}";
    for txtar in [DEBIAN_12, RHEL_9] {
        let guest = after(txtar, steps);
        check(&guest, "pwck", [PASSWD, SHADOW]);
        check(&guest, "grpck", [GROUP, GSHADOW]);
    }
}

/// Lines that no tool has written, including names that steps search for.
fn odd_lines() -> impl Strategy<Value = String> {
    let line = "(bob|root|adm|\\+|#)?(:(x|0|4|1000|4294967295|!|a,b|/home/bob|/|\u{f6}|)){0,8}\r?";
    prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_done_is_done(files in prop::collection::vec(odd_lines(), 6)) {
        let mut guest = guest("-- /bin/sh --\n-- /etc/sudoers.d/x --\n");
        for (file, text) in FILES.iter().zip(&files) {
            guest.stage.write_text(file, text).unwrap();
        }
        let steps = "- user: {name: bob, groups: [adm], sudo: true, password: {locked: true}, comment: B}";
        if apply(&mut guest, steps).is_ok() {
            guest.stage.take_touched();
            apply(&mut guest, steps).unwrap();
            prop_assert!(guest.stage.take_touched().is_empty());
        }
    }
}

/// The account files, and the files that useradd(8) reads in addition.
const FILES: [&str; 8] = [
    PASSWD,
    SHADOW,
    GROUP,
    GSHADOW,
    "/etc/subuid",
    "/etc/subgid",
    "/etc/login.defs",
    "/etc/default/useradd",
];

/// Returns the lines of a file by name, without the day of the last password change.
fn sorted(file: &str, text: &str) -> Vec<String> {
    let undated = |line: &str| {
        let mut fields: Vec<&str> = line.split(':').collect();
        if let Some(day) = fields.get_mut(2).filter(|_| file == SHADOW) {
            *day = "";
        }
        fields.join(":")
    };
    let mut lines: Vec<String> = text.lines().map(undated).collect();
    lines.sort();
    lines
}

/// Checks that `useradd --prefix` creates the same users from the same files.
#[test]
fn useradd_does_the_same() {
    if require("useradd").is_none() || require_root().is_none() {
        return;
    }
    let users: [(&str, &[&str]); 5] = [
        ("{name: bob}", &["-m", "bob"]),
        ("{name: svc, system: true}", &["-r", "svc"]),
        ("{name: svc2, system: true}", &["-r", "svc2"]),
        (
            "{name: eve, uid: 3000, groups: [root]}",
            &["-m", "-u", "3000", "-G", "root", "eve"],
        ),
        (
            "{name: zoe, comment: Z, home: /srv/z}",
            &["-m", "-c", "Z", "-d", "/srv/z", "zoe"],
        ),
    ];
    for txtar in [DEBIAN_12, RHEL_9] {
        let dir = tempfile::tempdir().unwrap();
        let before = guest(txtar);
        std::fs::create_dir_all(dir.path().join("etc/default")).unwrap();
        for file in FILES {
            std::fs::write(dir.path().join(&file[1..]), text(&before, file)).unwrap();
        }
        let mut steps = String::new();
        for (step, words) in users {
            steps.extend(["- user: ", step, "\n"]);
            let mut useradd = Command::new("/usr/sbin/useradd");
            let status = useradd.arg("-P").arg(dir.path()).args(words).status();
            assert!(status.unwrap().success(), "{words:?}");
        }
        let ours = after(txtar, &steps);
        for file in FILES {
            let theirs = std::fs::read_to_string(dir.path().join(&file[1..])).unwrap();
            assert_eq!(
                sorted(file, &text(&ours, file)),
                sorted(file, &theirs),
                "{file}"
            );
        }
    }
}

fn check(guest: &Guest, program: &str, files: [&str; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(format!("/usr/sbin/{program}"));
    command.arg("-r");
    for file in files {
        let path = dir.path().join(file.rsplit('/').next().unwrap());
        std::fs::write(&path, text(guest, file)).unwrap();
        command.arg(path);
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    // pwck looks for homes and shells on the host, and grpck for users, where they do not exist.
    let is_of_here = |line: &str| {
        line.starts_with("user '") && (line.contains("directory") || line.contains("program"))
            || line.contains("group ") && line.contains("no user")
            || line.starts_with("delete member")
            || line.starts_with("user '") && line.contains("no group")
            || line.contains("no changes")
            || line.contains("files have been updated")
    };
    let wrong: Vec<&str> = said
        .lines()
        .filter(|line| !is_of_here(line.trim()))
        .collect();
    assert!(wrong.is_empty(), "{program}: {wrong:?}");
}
