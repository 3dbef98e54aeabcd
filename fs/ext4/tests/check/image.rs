//! Images that a test damages, and the verdicts on them.
#![allow(dead_code, reason = "each test uses its part")]

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{File, Memory};
use diskfs_ext4::{CheckOptions, CheckReport, check};

use crate::common::{debugfs, make_holes, make_tree, mke2fs, run};

/// Checks the filesystem in a file.
pub(crate) fn check_file(image: &Path) -> CheckReport {
    let device = Arc::new(File::open(image).unwrap());
    check(device, &CheckOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap()
}

/// Checks the filesystem in memory.
pub(crate) fn check_bytes(bytes: Vec<u8>, threads: usize) -> CheckReport {
    let options = CheckOptions {
        threads,
        ..CheckOptions::default()
    };
    let device = Arc::new(Memory::new(bytes));
    match check(device, &options, &mut |_| ControlFlow::Continue(())) {
        Ok(report) => report,
        Err(e) => panic!("{e}"),
    }
}

/// Returns whether `e2fsck -fn` finds something, and its output. Its exit code does not count
/// problems that it also ignores, so a question that it answers counts as well.
pub(crate) fn e2fsck_verdict(image: &Path) -> (bool, String) {
    let output = diskfs_fixtures::command("e2fsck")
        .args(["-f", "-n"])
        .arg(image)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let code = output.status.code().unwrap_or(8);
    (code != 0 || text.contains("? no"), text)
}

/// Returns the findings as lines, for messages.
pub(crate) fn lines(report: &CheckReport) -> String {
    let line = |finding: &diskfs_ext4::Finding| {
        format!(
            "{} {:?}: {}",
            finding.kind.code(),
            finding.place,
            finding.detail
        )
    };
    report
        .findings
        .iter()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Creates a filesystem with files of every structure, and with indexed directories if the features
/// allow it.
pub(crate) fn make(dir: &Path, args: &str) -> PathBuf {
    let tree = dir.join("tree");
    if !tree.exists() {
        make_tree(&tree, 400);
        make_holes(&tree);
    }
    let image = mke2fs(dir, &tree, "24M", args);
    let long = "v".repeat(300);
    debugfs(
        &image,
        &[
            &format!("ea_set /a/len-160 user.long {long}"),
            "ea_set /a/len-160 user.second two",
            "ea_set /a/len-200 user.short value",
            "mknod pipe p",
            "mknod device c 1 3",
        ],
    );
    // This makes indexes; the exit code says that something was changed.
    let _ = diskfs_fixtures::command("e2fsck")
        .args(["-f", "-y", "-D"])
        .arg(&image)
        .output()
        .unwrap();
    assert!(!e2fsck_verdict(&image).0, "{args}");
    image
}

/// An image whose bytes are changed.
pub(crate) struct Patched {
    path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) block_bytes: usize,
}

impl Patched {
    pub(crate) fn open(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let log = bytes[1024 + 0x18];
        Self {
            path: path.to_owned(),
            block_bytes: 1024 << log,
            bytes,
        }
    }

    /// Returns the output of a command of debugfs.
    pub(crate) fn debugfs(&self, command: &str) -> String {
        run("debugfs", &["-R", command, self.path.to_str().unwrap()])
    }

    /// Returns the byte offset of a block of a file.
    pub(crate) fn file_block(&self, path: &str, nth: u32) -> usize {
        let block = self.debugfs(&format!("bmap {path} {nth}"));
        let block: usize = block.trim().parse().unwrap();
        assert_ne!(block, 0, "{path}");
        block * self.block_bytes
    }

    /// Returns the byte offset of an inode.
    pub(crate) fn inode(&self, path: &str) -> usize {
        let text = self.debugfs(&format!("imap {path}"));
        let (_, place) = text.split_once("block ").unwrap();
        // "block group 0\n\tlocated at block 38, offset 0x0b00"
        let (_, place) = place.split_once("at block ").unwrap();
        let (block, offset) = place.trim().split_once(", offset 0x").unwrap();
        let block: usize = block.parse().unwrap();
        block * self.block_bytes + usize::from_str_radix(offset, 16).unwrap()
    }

    /// Returns the byte offset of a bitmap or of another block that dumpe2fs names.
    pub(crate) fn named_block(&self, what: &str) -> usize {
        let text = run("dumpe2fs", &[self.path.to_str().unwrap()]);
        let (_, place) = text.split_once(what).unwrap();
        let number: String = place
            .trim_start_matches([' ', ':'])
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        number.parse::<usize>().unwrap() * self.block_bytes
    }

    /// Returns the offset of `text` in the block at `start`.
    pub(crate) fn find(&self, start: usize, text: &[u8]) -> usize {
        let block = &self.bytes[start..start + self.block_bytes];
        let at = block.windows(text.len()).position(|bytes| bytes == text);
        start + at.unwrap_or_else(|| panic!("{}", text.escape_ascii()))
    }

    pub(crate) fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn flip(&mut self, offset: usize) {
        self.bytes[offset] ^= 0xff;
    }

    /// Writes the changed bytes to the file.
    pub(crate) fn save(&self) {
        fs::write(&self.path, &self.bytes).unwrap();
    }
}
