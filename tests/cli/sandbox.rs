//! Commands that only read images are confined.

use std::path::Path;
use std::process::Command;

use diskfs_fixtures::image;
use diskfs_sandbox::planted;

use crate::{DISKFS, Run, diskfs, diskfs_in};

fn run(dir: &Path, words: &[&str], variables: &[(&str, &str)]) -> Run {
    let output = Command::new(DISKFS)
        .args(words)
        .current_dir(dir)
        .env_remove("RUST_LOG")
        .env("DISKFS_VM", "none")
        .envs(variables.iter().copied())
        .output();
    Run {
        output: output.expect("start diskfs"),
    }
}

/// Each reading command with a compromised parser in it.
#[test]
fn a_compromised_parser_gets_nowhere() {
    let demo = image("demo.qcow2");
    std::fs::create_dir(demo.directory().join("mnt")).unwrap();
    let list = demo.directory().join("list");
    std::fs::write(&list, "demo.qcow2\ndemo.qcow2\n").unwrap();
    let commands: [&[&str]; 22] = [
        &["info", "demo.qcow2"],
        &["inspect", "demo.qcow2"],
        &["log", "demo.qcow2"],
        &["inspect", "--fleet", "list"],
        &["df", "demo.qcow2"],
        &["df", "--fleet", "list"],
        &["df", "."],
        &["du", "demo.qcow2:/"],
        &["diff", "demo.qcow2", "demo.qcow2:/etc"],
        &["grep", "-r", "x", "demo.qcow2:/"],
        &["ls", "demo.qcow2:/"],
        &["tree", "demo.qcow2:/"],
        &["find", "demo.qcow2:/"],
        &["stat", "demo.qcow2:/etc"],
        &["cat", "demo.qcow2:/etc/hostname"],
        &["tar", "demo.qcow2:/etc"],
        &["hash", "demo.qcow2:/etc"],
        &["validate", "--policy", "kubevirt", "demo.qcow2"],
        &["mount", "--explain", "demo.qcow2"],
        &["mount", "demo.qcow2", "mnt"],
        &["mount", "--rw", "demo.qcow2", "mnt"],
        &["mount", "--overlay", "new.qcow2", "demo.qcow2", "mnt"],
    ];
    for words in commands {
        let planted = run(demo.directory(), words, &[(planted::VARIABLE, "1")]);
        let stderr = planted.stderr();
        assert_eq!(planted.code(), Some(99), "{words:?}: {stderr}");
        let succeeded = stderr.split_once("succeeded: ").unwrap_or_default().1;
        let is_as_expected = if words[0] == "mount" && words.contains(&"mnt") {
            // The first opens /dev/fuse. For the second, it has no socket that listens, and for the
            // third no ring. The last one binds its own thread.
            let calls: Vec<&str> = succeeded.split("; ").collect();
            let expected = [
                "[SYS_openat here fuse.as_ptr()",
                "SYS_accept4 pair[0]",
                "SYS_io_uring_enter -1",
                "SYS_sched_setaffinity 0",
            ];
            let mut both = calls.iter().zip(expected);
            calls.len() == expected.len() && both.all(|(call, expected)| call.starts_with(expected))
        } else {
            succeeded.starts_with("[]")
        };
        assert!(is_as_expected, "{words:?}: {stderr}");
        assert!(stderr.starts_with("planted: 1"), "{words:?}: {stderr}");
    }
}

#[test]
fn the_log_says_so() {
    let demo = image("demo.qcow2");
    let confined = run(demo.directory(), &["-v", "info", "demo.qcow2"], &[]).stderr();
    assert!(confined.contains("is confined"), "{confined}");
    let words = ["-v", "--no-sandbox", "info", "demo.qcow2"];
    let open = run(demo.directory(), &words, &[]).stderr();
    assert!(open.contains("not confined: --no-sandbox"), "{open}");
    assert!(!open.contains("is confined"), "{open}");
}

/// The broker opens what the gate allows, in the same words as without it.
#[test]
fn backing_files_open_by_the_gate() {
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    for sub in ["overlays/sub", "elsewhere"] {
        std::fs::create_dir_all(dir.join(sub)).unwrap();
    }
    for to in [
        "overlays/sub/base.qcow2",
        "elsewhere/base.qcow2",
        "overlays/odd:name",
    ] {
        std::fs::copy(dir.join("demo.qcow2"), dir.join(to)).unwrap();
    }
    let create = |name: &str, base: &str| {
        let words = [
            "create",
            "--allow-backing",
            "..",
            "--backing",
            base,
            "--backing-format",
            "qcow2",
            name,
        ];
        diskfs_in(&dir.join("overlays"), &words).text();
    };
    create("near.qcow2", "sub/base.qcow2");
    create("far.qcow2", "../elsewhere/base.qcow2");
    let cases: [&[&str]; 6] = [
        &["cat", "overlays/near.qcow2:/etc/hostname"],
        &["cat", "overlays/far.qcow2:/etc/hostname"],
        &[
            "cat",
            "--allow-backing",
            "elsewhere",
            "overlays/far.qcow2:/etc/hostname",
        ],
        &["cat", "--no-backing", "overlays/near.qcow2:/etc/hostname"],
        &["cat", "overlays/odd:name:etc/hostname", "/etc/os-release"],
        &["cat", "missing.qcow2:/etc/hostname"],
    ];
    let mut succeeded = 0;
    for words in cases {
        let confined = run(dir, words, &[]);
        let words: Vec<&str> = ["--no-sandbox"].iter().chain(words).copied().collect();
        let open = run(dir, &words, &[]);
        assert_eq!(confined.output, open.output, "{words:?}");
        succeeded += i32::from(open.output.status.success());
    }
    assert_eq!(succeeded, 3);
}

#[test]
fn output_files_are_created() {
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    std::fs::create_dir(dir.join("out")).unwrap();
    diskfs(
        &demo,
        &["cat", "-o", "out/name", "demo.qcow2:/etc/hostname"],
    )
    .text();
    diskfs(
        &demo,
        &["cat", "-o", "out/name", "demo.qcow2:/etc/hostname"],
    )
    .text();
    diskfs(&demo, &["tar", "-f", "etc.tar", "demo.qcow2:/etc"]).text();
    for (words, is_confined) in [
        (["cp", "demo.qcow2:/etc/hostname", "out"], true),
        (["cp", "demo.qcow2:/etc/hostname", "copied"], true),
        (["cp", "demo.qcow2:/etc/hostname", "out/hostname"], true),
        (["cp", "out/hostname", "demo.qcow2:/copied"], false),
    ] {
        let words: Vec<&str> = ["-v"].iter().chain(&words).copied().collect();
        let run = run(dir, &words, &[]);
        assert!(run.output.status.success(), "{words:?}: {}", run.stderr());
        assert_eq!(
            run.stderr().contains("is confined"),
            is_confined,
            "{words:?}"
        );
    }
    diskfs(&demo, &["cp", "-r", "demo.qcow2:/etc", "tree"]).text();
    diskfs(&demo, &["cp", "-a", "demo.qcow2:/etc", "kept"]).text();
    let hostname = |path: &str| std::fs::read(dir.join(path)).unwrap();
    for path in ["copied", "tree/hostname", "kept/hostname"] {
        assert_eq!(hostname("out/hostname"), hostname(path), "{path}");
    }
    let expected = diskfs(&demo, &["cat", "demo.qcow2:/etc/hostname"]);
    assert_eq!(
        std::fs::read(dir.join("out/name")).unwrap(),
        expected.bytes()
    );
    assert!(dir.join("etc.tar").metadata().unwrap().len() > 1024);
    let null = diskfs(
        &demo,
        &["cat", "-o", "/dev/null", "demo.qcow2:/etc/hostname"],
    );
    assert!(null.bytes().is_empty());
}
