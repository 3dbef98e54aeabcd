use std::fs;
use std::process::Command;

use diskfs_fixtures::require;

use super::super::testing::{after, apply, attributes, guest, text};

/// Looks like a key, but is none: only its first byte is that of an `OpenPGP` packet.
const KEY: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----\\n\\nmAEC\\n=AAAA\\n-----END PGP PUBLIC KEY BLOCK-----\\n";

const DEBIAN: &str =
    "-- /etc/apt/sources.list --\n# x\n-- /var/lib/dpkg/status --\nPackage: apt\nVersion: 2.6.1\n";
const OLD: &str = "-- /etc/apt/sources.list --\n# x\n-- /var/lib/dpkg/status --\nPackage: apt\nVersion: 1.0.9.8.6\n";

fn step(more: &str) -> String {
    format!("- repository: {{name: app, url: \"https://packages.example.org/x\"{more}}}")
}

fn with_key(more: &str) -> String {
    step(&format!(", key: \"{KEY}\"{more}"))
}

#[test]
fn apt_has_a_file_and_a_key() {
    let apt =
        ", suites: [bookworm, bookworm-updates], components: [main, extra], architectures: [amd64]";
    let new = after(DEBIAN, &with_key(apt));
    let expected = "# Written by diskfs deploy.\nTypes: deb\nURIs: https://packages.example.org/x\n\
        Suites: bookworm bookworm-updates\nComponents: main extra\nArchitectures: amd64\n\
        Signed-By: /etc/apt/keyrings/app.gpg\n";
    assert_eq!(text(&new, "/etc/apt/sources.list.d/app.sources"), expected);
    let key = new.stage.bytes("/etc/apt/keyrings/app.gpg").unwrap();
    assert_eq!(key.unwrap(), [0x98, 1, 2]);
    let old = after(OLD, &with_key(apt));
    let expected = "# Written by diskfs deploy.\n\
        deb [arch=amd64] https://packages.example.org/x bookworm main extra\n\
        deb [arch=amd64] https://packages.example.org/x bookworm-updates main extra\n";
    assert_eq!(text(&old, "/etc/apt/sources.list.d/app.list"), expected);
    assert_eq!(
        attributes(&old, "/etc/apt/trusted.gpg.d/app.gpg"),
        "0644 0:0"
    );
}

#[test]
fn apt_reads_it() {
    if require("apt-get").is_none() {
        return;
    }
    for (tree, kind) in [(DEBIAN, "sources"), (OLD, "list")] {
        for (parts, expected) in [
            (
                ", suites: [bookworm], components: [main, extra], architectures: [amd64]",
                "/dists/bookworm/extra/binary-amd64/",
            ),
            (", suites: [./], unsigned: true", "/./Packages"),
        ] {
            let guest = after(tree, &step(parts));
            let dir = tempfile::tempdir().unwrap();
            let at = |path: &str| dir.path().join(path);
            for path in [
                "etc/apt/sources.list.d",
                "var/lib/apt/lists/partial",
                "var/lib/dpkg",
            ] {
                fs::create_dir_all(at(path)).unwrap();
            }
            fs::write(at("var/lib/dpkg/status"), "").unwrap();
            let path = format!("etc/apt/sources.list.d/app.{kind}");
            fs::write(at(&path), text(&guest, &format!("/{path}"))).unwrap();
            let output = Command::new("apt-get")
                .args(["--print-uris", "update", "-o"])
                .arg(format!("Dir={}", dir.path().display()))
                .args([
                    "-o",
                    &format!("Dir::State::status={}", at("var/lib/dpkg/status").display()),
                ])
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && told.contains(expected),
                "{told}{errors}"
            );
        }
    }
}

#[test]
fn rpm_has_a_section_and_a_key() {
    let tree = "-- /etc/yum.repos.d/fedora.repo --\nx\n";
    let fedora = after(tree, &with_key(""));
    let expected = "# Written by diskfs deploy.\n[app]\nname=app\nbaseurl=https://packages.example.org/x\nenabled=1\n\
        gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-app\n";
    assert_eq!(text(&fedora, "/etc/yum.repos.d/app.repo"), expected);
    assert!(text(&fedora, "/etc/pki/rpm-gpg/RPM-GPG-KEY-app").starts_with("-----BEGIN PGP"));
    let suse = after("-- /etc/zypp/zypp.conf --\nx\n", &step(", unsigned: true"));
    let repo = text(&suse, "/etc/zypp/repos.d/app.repo");
    assert!(repo.contains("gpgcheck=0\nautorefresh=1\n"), "{repo}");
}

#[test]
fn apk_has_a_line_and_pacman_a_section() {
    let tree = "-- /etc/apk/repositories --\nhttps://a/main\n# Written by diskfs deploy: app\nhttps://old\nhttps://b\n";
    let alpine = after(tree, &step(""));
    let expected = "https://a/main\nhttps://b\n# Written by diskfs deploy: app\nhttps://packages.example.org/x\n";
    assert_eq!(text(&alpine, "/etc/apk/repositories"), expected);
    let tree =
        "-- /etc/pacman.conf --\n[options]\nx\n\n[app]\nServer = old\n\n[extra]\nInclude = y\n";
    let arch = after(tree, &step(", unsigned: true"));
    let expected = "[options]\nx\n\n[app]\nServer = https://packages.example.org/x\nSigLevel = Optional TrustAll\n\n[extra]\nInclude = y\n";
    assert_eq!(text(&arch, "/etc/pacman.conf"), expected);
    let arch = after("-- /etc/pacman.conf --\n[options]\nx\n", &step(""));
    let expected = "[options]\nx\n\n[app]\nServer = https://packages.example.org/x\n";
    assert_eq!(text(&arch, "/etc/pacman.conf"), expected);
}

#[test]
fn what_was_put_can_be_removed() {
    let remove = "- repository: {name: app, remove: true}";
    for (tree, more) in [
        (DEBIAN, ", suites: [a], components: [b]"),
        ("-- /etc/yum.repos.d/fedora.repo --\nx\n", ""),
        ("-- /etc/zypp/repos.d/oss.repo --\nx\n", ""),
        ("-- /etc/apk/repositories --\nhttps://a\n", ""),
        ("-- /etc/pacman.conf --\n[options]\nx\n", ""),
    ] {
        let mut guest = guest(tree);
        apply(&mut guest, &format!("{}\n{remove}", step(more))).unwrap();
        let changed = guest.stage.changes().unwrap().into_iter();
        let files: Vec<String> = changed
            .filter(|it| {
                it.after
                    .as_ref()
                    .is_none_or(|it| it.kind != crate::EntryKind::Directory)
            })
            .map(|it| it.path)
            .collect();
        assert_eq!(files, [""; 0], "{tree}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for more in [
        "",
        ", suites: [a]",
        ", suites: [./], components: [main]",
        ", suites: [\"a b\"], components: [c]",
        ", suites: [a], components: [b], key: hello",
        ", suites: [a], components: [b], key: x, unsigned: true",
    ] {
        assert!(apply(&mut guest(DEBIAN), &step(more)).is_err(), "{more}");
    }
    for whole in [
        "- repository: {name: ../a, url: \"https://x\"}",
        "- repository: {name: a}",
        "- repository: {name: a, url: x}",
        "- repository: {name: a, url: \"https://x\\ny\"}",
    ] {
        let tree = "-- /etc/yum.repos.d/x --\nx\n";
        assert!(apply(&mut guest(tree), whole).is_err(), "{whole}");
    }
    assert!(apply(&mut guest("-- /etc/x --\n"), &step("")).is_err());
}
