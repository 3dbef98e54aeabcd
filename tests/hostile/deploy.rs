//! Guests to which a plan must not be applied: a clear error, and no byte is written, or only at
//! allowed places.

use std::fs;
use std::path::PathBuf;

use diskfs_fixtures::{Workshop, require, sha256_hex};

use super::program::{diskfs, diskfs_within};

/// An image with a small guest, which debugfs damages.
struct Guest {
    shop: Workshop,
    image: PathBuf,
}

impl Guest {
    fn new(requests: &str) -> Option<Self> {
        Self::with_size(16 << 20, requests)
    }

    fn with_size(size_bytes: u64, requests: &str) -> Option<Self> {
        require("mke2fs")?;
        require("debugfs")?;
        let shop = Workshop::new().unwrap();
        let image = shop.sparse_file("disk.img", size_bytes).unwrap();
        shop.mke2fs(&image, "-t ext4").unwrap();
        let guest = Self { shop, image };
        guest.debugfs("mkdir etc\nmkdir usr\nmkdir usr/lib\nmkdir root");
        for (path, text) in [
            ("etc/os-release", "ID=debian\n"),
            ("etc/hostname", "old\n"),
            ("etc/hosts", "127.0.0.1 localhost\n"),
            ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"),
            ("etc/shadow", "root:*:19000:0:99999:7:::\n"),
            ("etc/group", "root:x:0:\n"),
            ("etc/fstab", "UUID=1 / ext4 defaults 0 1\n"),
        ] {
            guest.put(path, text.as_bytes());
        }
        guest.debugfs(requests);
        Some(guest)
    }

    fn debugfs(&self, requests: &str) {
        self.shop.debugfs(&self.image, requests).unwrap();
    }

    /// Puts a file there, and replaces an existing one.
    fn put(&self, path: &str, contents: &[u8]) {
        let source = self.shop.path("contents");
        fs::write(&source, contents).unwrap();
        self.debugfs(&format!("write {} {path}", source.display()));
    }

    fn sum(&self) -> String {
        sha256_hex(&fs::read(&self.image).unwrap())
    }

    fn words<'w>(&'w self, words: &[&'w str]) -> Vec<&'w str> {
        let image = self.image.to_str().unwrap();
        [&["deploy", "--volume", "disk", image], words].concat()
    }

    /// Checks that a plan of these options, of which the first is possible, fails with these words,
    /// and leaves the image unchanged.
    fn refuses(&self, words: &[&str], code: i32, told: &[&str]) {
        let before = self.sum();
        let words = [&["--hostname", "new"], words].concat();
        diskfs(self.words(&words)).expect(code, told);
        assert!(self.sum() == before, "{words:?} has written");
    }
}

/// The limit of processor time for a million lines, and for a million rounds of a hash, in an
/// unoptimized program, in seconds.
const PATIENCE: u32 = 8;

const PASSWORD: [&str; 2] = ["--root-password", "password:secret"];

#[test]
fn what_is_no_file_of_settings_is_told() {
    for (requests, path, kind, code) in [
        (
            "cd etc\nrm shadow\nmknod shadow p",
            "/etc/shadow",
            "is a FIFO",
            2,
        ),
        (
            "cd etc\nrm shadow\nmknod shadow c 1 5",
            "/etc/shadow",
            "is a character device",
            2,
        ),
        (
            "cd etc\nrm shadow\nmknod shadow b 8 0",
            "/etc/shadow",
            "is a block device",
            2,
        ),
        (
            "rm etc/shadow\nmkdir etc/shadow",
            "/etc/shadow",
            "is a directory",
            1,
        ),
        (
            "cd etc\nrm passwd\nmknod passwd c 1 5",
            "/etc/passwd",
            "is a character device",
            2,
        ),
    ] {
        let Some(guest) = Guest::new(requests) else {
            return;
        };
        guest.refuses(&PASSWORD, code, &[path, kind, "root-password"]);
    }
}

#[test]
fn symlinks_in_circles_end() {
    let circles = "rm etc/shadow\nsymlink etc/shadow shadow";
    let longer =
        "rm etc/shadow\nsymlink etc/shadow ../a/etc/b\nsymlink a /\nsymlink etc/b /a/etc/shadow";
    for requests in [circles, longer] {
        let Some(guest) = Guest::new(requests) else {
            return;
        };
        guest.refuses(
            &PASSWORD,
            1,
            &["too many levels of symbolic links", "root-password"],
        );
    }
    let Some(guest) = Guest::new("kill_file etc/os-release\nrm etc/hosts\nsymlink etc/hosts hosts")
    else {
        return;
    };
    let plan = guest.shop.path("plan.yaml");
    fs::write(&plan, "steps: [{hosts: [{address: 10.0.0.1, names: [a]}]}]").unwrap();
    guest.refuses(
        &["--plan", plan.to_str().unwrap()],
        1,
        &["too many levels of symbolic links"],
    );
}

#[test]
fn a_symlink_to_a_file_of_this_machine_leads_into_the_guest() {
    let Some(guest) = Guest::new("rm etc/hosts") else {
        return;
    };
    let ours = guest.shop.path("ours");
    fs::write(&ours, "mine\n").unwrap();
    guest.debugfs(&format!("symlink etc/hosts {}", ours.display()));
    let plan = guest.shop.path("plan.yaml");
    let steps = "steps: [{hosts: [{address: 10.0.0.1, names: [a]}]}]";
    fs::write(&plan, steps).unwrap();
    let words = guest.words(&["--plan", plan.to_str().unwrap()]);
    // The directories that contain it are not part of the guest.
    let before = guest.sum();
    diskfs(&words).expect(3, &["no such directory"]);
    assert!(guest.sum() == before);
    let mut at = String::new();
    let above = ours.parent().unwrap().to_str().unwrap();
    let dirs = above
        .split('/')
        .filter(|name| !name.is_empty())
        .map(|name| {
            at = format!("{at}/{name}");
            format!("mkdir {at}\n")
        });
    guest.debugfs(&dirs.collect::<String>());
    diskfs(&words).expect(0, &[]);
    assert_eq!(fs::read_to_string(&ours).unwrap(), "mine\n");
    let operand = format!("{}:{}", guest.image.display(), ours.display());
    let told = diskfs(["cat", &operand]);
    assert_eq!(told.stdout, "10.0.0.1\ta\n");
}

#[test]
fn what_is_too_large_is_not_read() {
    for path in ["etc/passwd", "etc/shadow", "etc/group", "etc/login.defs"] {
        let Some(guest) = Guest::new("") else { return };
        if path == "etc/login.defs" {
            guest.put(path, b"UMASK 022\n");
        }
        guest.debugfs(&format!("sif {path} size {}", 10_u64 << 30));
        let plan = guest.shop.path("plan.yaml");
        fs::write(&plan, "steps: [{user: {name: ann, password: secret}}]").unwrap();
        let plan = ["--plan", plan.to_str().unwrap()];
        guest.refuses(&plan, 2, &[path]);
    }
}

#[test]
fn a_million_lines_are_read_in_bounds() {
    let Some(guest) = Guest::with_size(64 << 20, "rm etc/fstab") else {
        return;
    };
    let lines = "/dev/x /m x\n".repeat(1_000_000);
    guest.put("etc/fstab", lines.as_bytes());
    let plan = guest.shop.path("plan.yaml");
    let steps =
        "steps: [{fstab: {add: [{device: UUID=1, path: /data, type: ext4}], remove: [/none]}}]";
    fs::write(&plan, steps).unwrap();
    let words = guest.words(&["--plan", plan.to_str().unwrap()]);
    diskfs_within(PATIENCE, &words).expect(0, &[]);
    let operand = format!("{}:/etc/fstab", guest.image.display());
    let tail = "UUID=1 /data ext4 defaults 0 0\n";
    let read = guest.shop.path("read");
    diskfs(["cp", &operand, read.to_str().unwrap()]).expect(0, &[]);
    assert!(fs::read_to_string(read).unwrap() == lines + tail);
    let once = guest.sum();
    diskfs_within(PATIENCE, &words).expect(0, &[]);
    assert!(guest.sum() == once, "written again");

    let Some(guest) = Guest::with_size(64 << 20, "rm etc/fstab") else {
        return;
    };
    guest.put(
        "etc/fstab",
        "/dev/x /mount x\n".repeat(1_100_000).as_bytes(),
    );
    guest.refuses(&["--plan", plan.to_str().unwrap()], 2, &["/etc/fstab"]);
}

#[test]
fn costs_that_nobody_waits_for_are_cut() {
    for line in [
        "ENCRYPT_METHOD SHA512\nSHA_CRYPT_MIN_ROUNDS 999999999\n",
        "ENCRYPT_METHOD YESCRYPT\nYESCRYPT_COST_FACTOR 11\n",
    ] {
        let Some(guest) = Guest::new("") else { return };
        guest.put("etc/login.defs", line.as_bytes());
        diskfs_within(PATIENCE, guest.words(&PASSWORD)).expect(0, &[]);
    }
}
