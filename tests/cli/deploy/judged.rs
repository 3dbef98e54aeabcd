//! Units, checked by systemd's own verifier.

use std::fs;
use std::process::Command;

use diskfs_fixtures::require;

use super::Guest;

const PLAN: &str = "steps:
- firstboot: {name: hello, script: echo hello}
- units:
    write: [{name: mine.service, text: \"[Unit]\\nDescription=Mine\\n[Service]\\nExecStart=/usr/local/lib/diskfs/firstboot\\n[Install]\\nWantedBy=multi-user.target\\n\"}]
    enable: [mine, ssh]
";

#[test]
fn systemd_takes_the_units() {
    let Some(guest) = Guest::new().filter(|_| require("systemd-analyze").is_some()) else {
        return;
    };
    fs::write(guest.at("plan.yaml"), PLAN).unwrap();
    guest
        .diskfs(&["deploy", "disk.img", "--plan", "plan.yaml"])
        .text();
    for dir in ["etc", "usr"] {
        let from = format!("disk.img:/{dir}");
        guest
            .diskfs(&["cp", "-r", &from, &format!("out-{dir}")])
            .text();
    }
    let root = guest.at("root");
    fs::create_dir(&root).unwrap();
    for dir in ["etc", "usr"] {
        fs::rename(guest.at(&format!("out-{dir}")), root.join(dir)).unwrap();
    }
    let verify = |unit: &str| {
        let run = Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(format!("--root={}", root.display()))
            .arg(format!("/etc/systemd/system/{unit}"))
            .output();
        let run = run.unwrap();
        (
            run.status.success(),
            String::from_utf8_lossy(&run.stderr).into_owned(),
        )
    };
    for unit in ["diskfs-firstboot.service", "mine.service"] {
        let (is_good, said) = verify(unit);
        assert!(is_good && said.is_empty(), "{unit}: {said}");
    }
    // The verifier does reject a wrong unit.
    fs::write(
        root.join("etc/systemd/system/bad.service"),
        "[Service]\nType=never\n",
    )
    .unwrap();
    assert_ne!(verify("bad.service"), (true, String::new()));
}
