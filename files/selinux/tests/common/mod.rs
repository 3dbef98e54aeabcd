//! Helpers for the tests of labels: libselinux as the reference, and paths that patterns match.
#![allow(dead_code, reason = "each test binary uses some of it")]

pub(crate) mod instances;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use diskfs_selinux::{Context, FileKind, Labels, Texts};

/// A policy whose texts are in a directory, as in a guest.
pub(crate) struct Policy {
    pub(crate) directory: PathBuf,
    pub(crate) texts: [Vec<u8>; 5],
}

pub(crate) const NAMES: [&str; 5] = [
    "file_contexts",
    "file_contexts.homedirs",
    "file_contexts.local",
    "file_contexts.subs_dist",
    "file_contexts.subs",
];

impl Policy {
    /// Reads the policy of a directory `contexts/files`.
    pub(crate) fn open(directory: &Path) -> Self {
        let text = |name| fs::read(directory.join(name)).unwrap_or_default();
        Self {
            directory: directory.to_owned(),
            texts: NAMES.map(text),
        }
    }

    pub(crate) fn labels(&self) -> Labels {
        let [file_contexts, homedirs, local, subs_dist, subs] = &self.texts;
        Labels::parse(&Texts {
            file_contexts,
            homedirs,
            local,
            subs_dist,
            subs,
        })
        .unwrap()
    }

    /// Returns all patterns of the policy.
    pub(crate) fn patterns(&self) -> Vec<String> {
        let texts = self.texts[..3].concat();
        let text = String::from_utf8(texts).unwrap();
        let words = text
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let patterns = words.filter(|word| !word.starts_with('#'));
        patterns.map(str::to_owned).collect()
    }

    /// Returns libselinux's labels of the paths, in one call of matchpathcon; "<<none>>" becomes
    /// `None`.
    pub(crate) fn judged<'a>(
        &self,
        kind: FileKind,
        paths: &'a [String],
    ) -> Vec<(&'a str, Option<String>)> {
        let mut judged = Vec::new();
        for paths in paths.chunks(5000) {
            let mut command = diskfs_fixtures::command("matchpathcon");
            command
                .arg("-n")
                .arg("-f")
                .arg(self.directory.join(NAMES[0]));
            let output = command
                .args(["-m", letters(kind)])
                .args(paths)
                .output()
                .unwrap();
            let text = said(&output);
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), paths.len());
            let lines = lines
                .iter()
                .map(|line| (*line != "<<none>>").then(|| (*line).to_owned()));
            judged.extend(paths.iter().map(String::as_str).zip(lines));
        }
        judged
    }

    /// Returns libselinux's label of one path by `selabel_lookup`, which does not interpret the
    /// path as an option.
    pub(crate) fn looked_up(&self, kind: FileKind, path: &str) -> Option<String> {
        let mut command = Command::new("selabel_lookup");
        command.args([
            "-b",
            "file",
            "-r",
            "-k",
            path,
            "-t",
            &mode(kind).to_string(),
        ]);
        let output = command
            .arg("-f")
            .arg(self.directory.join(NAMES[0]))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let context = text.trim().strip_prefix("Default context: ");
        context.map(str::to_owned)
    }
}

fn said(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Writes the texts of a policy to a temporary directory.
pub(crate) fn written(texts: [&str; 5]) -> (tempfile::TempDir, Policy) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in NAMES.iter().zip(texts) {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let policy = Policy::open(directory.path());
    (directory, policy)
}

pub(crate) fn label(labels: &Labels, path: &str, kind: FileKind) -> Option<String> {
    let context = labels.label_for(path.as_bytes(), kind);
    context.map(Context::as_str).map(str::to_owned)
}

/// Returns the file type bits of `st_mode`.
const fn mode(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => 0o100_000,
        FileKind::Directory => 0o040_000,
        FileKind::Symlink => 0o120_000,
        FileKind::CharacterDevice => 0o020_000,
        FileKind::BlockDevice => 0o060_000,
        FileKind::Fifo => 0o010_000,
        FileKind::Socket => 0o140_000,
    }
}

const fn letters(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "dir",
        FileKind::Symlink => "lnk_file",
        FileKind::CharacterDevice => "chr_file",
        FileKind::BlockDevice => "blk_file",
        FileKind::Fifo => "pipe",
        FileKind::Socket => "sock_file",
    }
}
