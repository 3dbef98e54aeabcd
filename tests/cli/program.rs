//! The program's own information: help, man pages, completions, the demo.

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
        "bitmap",
        "amend",
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
    #[cfg(feature = "fuse")]
    for name in ["mount.diskfs", "mount.fuse.diskfs", "umount.fuse.diskfs"] {
        let page = directory.path().join("man8").join(format!("{name}.8"));
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains("mount.diskfs"), "{page}");
    }
}

/// The helper of mount(8) has no commands: its first word is an image, whatever it is.
#[cfg(feature = "fuse")]
#[test]
fn a_helper_takes_each_first_word_for_an_image() {
    let directory = tempfile::tempdir().unwrap();
    let helper = directory.path().join("mount.diskfs");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_diskfs"), &helper).unwrap();
    for image in ["mount-companion", "service-worker", "cat"] {
        let output = std::process::Command::new(&helper)
            .args([image, "."])
            .current_dir(directory.path())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{image}: {output:?}");
        assert!(said.contains(&format!("{image}: ")), "{said}");
    }
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
fn completions_offer_what_images_hold() {
    let demo = image("demo.qcow2");
    let offered = |shell: &str, line: &str| {
        let run = diskfs_in(demo.directory(), &["complete", shell, "--", line]);
        run.text().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        offered("zsh", "diskfs cat demo.qcow2:/etc/hostn"),
        ["demo.qcow2:/etc/hostname"]
    );
    assert_eq!(offered("bash", "diskfs ls -l demo.qcow2:/et"), ["/etc/"]);
    assert_eq!(
        offered("fish", "diskfs ls demo.qcow2 --volume=p"),
        ["--volume=p1", "--volume=p14", "--volume=p15"]
    );
    assert_eq!(
        offered("zsh", "diskfs ls demo.qcow2 --volume p1"),
        ["p1", "p14", "p15"]
    );
    assert_eq!(
        offered("zsh", "diskfs deploy --describe hostn"),
        ["hostname"]
    );
    let nothing: [&str; 0] = [];
    for line in [
        "diskfs ls ",
        "diskfs l",
        "diskfs cat none:/e",
        "diskfs cp -",
        "",
    ] {
        assert_eq!(offered("zsh", line), nothing, "{line}");
    }
    let snapshots = image("qcow2-snapshots.qcow2");
    let line = "diskfs ls qcow2-snapshots.qcow2 --snapshot ";
    let run = diskfs_in(snapshots.directory(), &["complete", "zsh", "--", line]);
    assert!(!run.text().is_empty());
}

/// Completion requests as from bash, which splits words at colons.
#[test]
fn bash_completes_a_path_in_an_image() {
    let Some(()) = diskfs_fixtures::require("bash") else {
        return;
    };
    let demo = image("demo.qcow2");
    let script = r#"source <("$1" completions bash)
        COMP_WORDS=("$1" cat demo.qcow2 : /etc/hostn) COMP_CWORD=4
        COMP_LINE="diskfs cat demo.qcow2:/etc/hostn" COMP_POINT=${#COMP_LINE}
        _diskfs_asked diskfs /etc/hostn : 2>/dev/null; echo "${COMPREPLY[@]}"
        COMP_WORDS=("$1" snap) COMP_CWORD=1 COMP_LINE="diskfs snap" COMP_POINT=11
        _diskfs_asked diskfs snap diskfs 2>/dev/null; echo "${COMPREPLY[@]}""#;
    let output = std::process::Command::new("bash")
        .args(["-c", script, "bash", crate::DISKFS])
        .current_dir(demo.directory())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("/etc/hostname\n"), "{text} {output:?}");
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

#[test]
fn common_options_are_summed_up() {
    let directory = tempfile::tempdir().unwrap();
    let help = |words: &[&str]| diskfs_in(directory.path(), words).text();
    for command in ["cp", "mount", "tar", "deploy", "commit"] {
        for text in [help(&[command, "-h"]), help(&[command, "--help"])] {
            let own = text.find("\nOptions:").expect("own options");
            let examples = text.find("\nExample").expect("examples");
            let common = text.find("\nCommon options").expect("common options");
            assert!(own < examples && examples < common, "{command}: {text}");
            assert!(text[common..].contains(" --force-share --allow-backing "));
            assert!(!text.contains("Image options:"), "{command}: {text}");
        }
    }
    let explained = help(&["help", "options"]);
    assert!(explained.contains("Image options:") && explained.contains("--force-share\n"));
    assert!(explained.contains("Output options:") && explained.contains("--json\n"));
    assert_eq!(help(&["options"]), explained);
}
