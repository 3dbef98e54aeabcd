//! The program about itself: help, man pages, completions, the demo.

use diskfs_fixtures::image;

use crate::{diskfs_in, text_of};

#[test]
fn every_command_has_help_and_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let help = diskfs_in(directory.path(), &["--help"]).text();
    assert!(help.contains("Exit codes:"), "{help}");
    diskfs_in(directory.path(), &["man", "man1"]).bytes();
    let commands = [
        "info",
        "inspect",
        "log",
        "df",
        "ls",
        "tree",
        "find",
        "stat",
        "cat",
        "grep",
        "du",
        "diff",
        "deploy",
        "uefi",
        "hash",
        "create",
        "mkfs",
        "snapshot",
        "commit",
        "rebase",
        "cp",
        "tar",
        "write",
        "edit",
        "mkdir",
        "rm",
        "mv",
        "ln",
        "chmod",
        "chown",
        "touch",
        "truncate",
        "xattr",
        "tar-in",
        "demo",
        "completions",
        "man",
    ];
    for command in commands {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        let own = diskfs_in(directory.path(), &[command, "--help"]).text();
        assert!(own.contains("Usage: diskfs"), "{own}");
        let page = directory.path().join(format!("man1/diskfs-{command}.1"));
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(".SH") && page.contains("OPTIONS"), "{page}");
    }
    assert!(
        std::fs::read_to_string(directory.path().join("man1/diskfs.1"))
            .unwrap()
            .contains("Exit codes")
    );
    let plans = std::fs::read_to_string(directory.path().join("man5/diskfs-plan.5")).unwrap();
    assert!(plans.contains("hostname: TEXT"), "{plans}");
}

#[test]
fn completions_for_each_shell() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = diskfs_in(directory.path(), &["completions", shell]).text();
        assert!(
            script.contains("os") && script.contains("allow-backing"),
            "{shell}"
        );
    }
}

#[test]
fn the_demo_runs() {
    let directory = tempfile::tempdir().unwrap();
    let output = diskfs_in(directory.path(), &["demo"]);
    let text = String::from_utf8_lossy(&output.output.stdout).into_owned();
    assert_eq!(output.code(), Some(0), "{text}{}", output.stderr());
    for line in [
        "$ diskfs info demo.qcow2",
        "ID=demo",
        "$ diskfs cp -a demo.qcow2:/etc etc",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    diskfs_in(directory.path(), &["demo", "--save", "own.qcow2"]).bytes();
    let info = diskfs_in(directory.path(), &["info", "--json", "own.qcow2"]).json();
    assert_eq!(text_of(&info["image"]["path"]), "own.qcow2");
}

#[test]
fn logging_is_asked_for() {
    let demo = image("demo.qcow2");
    let run = diskfs_in(
        demo.directory(),
        &["-vvv", "cat", "demo.qcow2:/etc/hostname"],
    );
    assert_eq!((run.code(), &*run.output.stdout), (Some(0), &b"demo\n"[..]));
}

#[test]
fn progress_is_told_to_programs() {
    let demo = image("demo.qcow2");
    let words = ["cp", "-r", "--progress", "json", "demo.qcow2:/usr", "usr"];
    let run = diskfs_in(demo.directory(), &words);
    assert_eq!(run.code(), Some(0));
    let last = run.stderr().lines().last().map(str::to_owned).unwrap();
    let last: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert!(last["progress"]["files"].as_u64().unwrap() > 10, "{last}");
    assert!(
        last["progress"]["bytes"].as_u64().unwrap() > 200_000,
        "{last}"
    );
}
