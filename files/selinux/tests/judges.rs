//! Tests against libselinux: with Debian's own policy, and with one written for the tests.

mod common;

use std::path::{Path, PathBuf};

use common::instances::instance;
use common::{Policy, label, written};
use diskfs_fixtures::{require, skip};
use diskfs_selinux::FileKind;

const CONTEXTS: &str = include_str!("policy/file_contexts");
const HOMEDIRS: &str = include_str!("policy/file_contexts.homedirs");
const LOCAL: &str = include_str!("policy/file_contexts.local");
const SUBS_DIST: &str = include_str!("policy/file_contexts.subs_dist");
const SUBS: &str = include_str!("policy/file_contexts.subs");

/// Returns Debian's policy, or the one in the directory that the environment variable names.
fn policy() -> Option<Policy> {
    let directory = std::env::var_os("DISKFS_SELINUX_CONTEXTS").map_or_else(
        || Path::new("/etc/selinux/default/contexts/files").to_owned(),
        PathBuf::from,
    );
    if !directory.join("file_contexts").is_file() {
        skip("selinux-policy-default is not installed");
        return None;
    }
    Some(Policy::open(&directory))
}

fn made() -> (tempfile::TempDir, Policy) {
    written([CONTEXTS, HOMEDIRS, LOCAL, SUBS_DIST, SUBS])
}

/// Returns typical paths of systems.
fn usual_paths() -> Vec<String> {
    let paths = include_str!("policy/usual_paths").lines();
    paths.map(str::to_owned).collect()
}

/// Returns paths that the policy's patterns match, and others beside, above and below them.
fn paths_of(policy: &Policy) -> Vec<String> {
    let mut paths = usual_paths();
    for (seed, pattern) in (1..).zip(policy.patterns()) {
        for choice in 0..4 {
            let path = instance(&pattern, seed * 4 + choice);
            let above = path.rsplit_once('/').map_or("/", |(above, _)| above);
            paths.extend([
                format!("{above}/other"),
                format!("{path}/x"),
                format!("{path}x"),
            ]);
            paths.push(path);
        }
    }
    // matchpathcon takes an argument with a leading hyphen as an option, and refuses an empty path.
    paths.retain(|path| path.starts_with('/'));
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Compares the labels of all paths. Returns the number of comparisons, and how many of the paths
/// had a label.
fn compare(policy: &Policy, paths: &[String]) -> (usize, usize) {
    let labels = policy.labels();
    let (mut compared, mut labelled) = (0, 0);
    let mut others = Vec::new();
    for kind in FileKind::ALL {
        for (path, theirs) in policy.judged(kind, paths) {
            let ours = label(&labels, path, kind);
            compared += 1;
            labelled += usize::from(ours.is_some());
            if ours != theirs {
                others.push((path, kind, ours, theirs));
            }
        }
    }
    let first = &others[..others.len().min(10)];
    assert!(
        others.is_empty(),
        "{} of {compared}: {first:#?}",
        others.len()
    );
    (compared, labelled)
}

#[test]
fn libselinux_has_the_same_labels_by_the_policy_of_debian() {
    if require("matchpathcon").is_none() {
        return;
    }
    let Some(policy) = policy() else {
        return;
    };
    let labels = policy.labels();
    assert_eq!(labels.problems(), []);
    assert!(labels.len() > 5000, "{}", labels.len());
    let paths = paths_of(&policy);
    assert!(paths.len() > 20_000, "{}", paths.len());
    let (compared, labelled) = compare(&policy, &paths);
    assert!(compared > 150_000, "{compared}");
    assert!(labelled * 2 > compared);
}

#[test]
fn libselinux_has_the_same_labels_by_a_policy_made_for_it() {
    if require("matchpathcon").is_none() {
        return;
    }
    let (_directory, policy) = made();
    assert_eq!(policy.labels().problems(), []);
    let paths = paths_of(&policy);
    let (compared, _) = compare(&policy, &paths);
    assert!(compared > 3000, "{compared}");
}

/// Looks up paths one at a time that matchpathcon would take as options or not print well.
#[test]
fn selabel_lookup_has_the_same_labels() {
    if require("selabel_lookup").is_none() {
        return;
    }
    let (_directory, policy) = made();
    let labels = policy.labels();
    for path in [
        "/",
        "//",
        "/etc",
        "//etc",
        "/etc//passwd",
        "/etc///conf.d//x",
        "/nl/x\n",
        "/ends\n",
        "/ends\n\n",
        "/etc/a b",
        "/etc/ü",
        "/home/ü/x",
        "etc/passwd",
        "/alias",
        "/alias//x",
        "/chroot",
        "/chroot/",
        "/chroot/etc",
    ] {
        let kind = FileKind::Regular;
        // Before 3.6, libselinux keeps the slash at the end of a path.
        let path = if path == "/chroot/" { "/chroot" } else { path };
        assert_eq!(
            label(&labels, path, kind),
            policy.looked_up(kind, path),
            "{path:?}"
        );
    }
}

/// Tries each supported syntax on paths that it distinguishes.
#[test]
fn patterns_mean_what_pcre_says() {
    if require("matchpathcon").is_none() {
        return;
    }
    let patterns = include_str!("policy/patterns");
    let words = [
        "", "a", "b", "aa", "ab", "abc", "aaa", "aab", "]", "-", "^", "\\", "[", "&", "&&", "~",
        "x{", "x{a}", "{", "}", "<", ">", "<a", "a b", "a\tb", "\u{b}", "\n", "0", "09", "a_", "_",
        ".", "..", "a.b", "axb", "/", "a/b", "|", "a|b", "(", ")", "(a)", "?", "+", "*", "a+",
        "a*", "ü", "\u{7f}", "\u{1}", "A", "Z", "z", ",", "+,-", ":", "[:a", "a:]", "x]", "a]",
        "#", "%", "\"", "'", "$", "a$", "^a",
    ];
    let paths: Vec<_> = words.iter().map(|word| format!("/t/{word}")).collect();
    let mut compared = 0;
    for pattern in patterns.lines().filter(|line| !line.is_empty()) {
        let text = format!("/t/{pattern} u:r:t\n");
        let (_directory, policy) = written([&text, "", "", "", ""]);
        let labels = policy.labels();
        assert_eq!(labels.problems(), [], "{pattern}");
        for (path, theirs) in policy.judged(FileKind::Regular, &paths) {
            let ours = label(&labels, path, FileKind::Regular);
            assert_eq!(ours, theirs, "{pattern} on {path:?}");
            compared += 1;
        }
    }
    assert!(compared > 4000, "{compared}");
}
