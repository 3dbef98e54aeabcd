//! Persistent bitmaps: our writes are recorded in them as QEMU's would be.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use diskfs_image::{Image, OpenOptions};

use crate::model::{is_clean, open};
use crate::tools::{Random, have_qemu, run, start};

const SIZE: u64 = 32 << 20;

/// Returns a digest of each bitmap, computed by QEMU.
pub(crate) fn digests(dir: &Path, image: &str, names: &[&str]) -> Vec<String> {
    let blockdev = format!("driver=qcow2,node-name=disk,file.driver=file,file.filename={image}");
    let mut command = Command::new("qemu-storage-daemon");
    command
        .args(["--blockdev", &blockdev])
        .args(["--chardev", "stdio,id=qmp", "--monitor", "chardev=qmp"])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = start(&mut command);
    let mut input = child.stdin.take().unwrap();
    writeln!(input, r#"{{"execute":"qmp_capabilities"}}"#).unwrap();
    for name in names {
        writeln!(
            input,
            r#"{{"execute":"x-debug-block-dirty-bitmap-sha256","arguments":{{"node":"disk","name":"{name}"}}}}"#
        )
        .unwrap();
    }
    writeln!(input, r#"{{"execute":"quit"}}"#).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found: Vec<_> = text
        .lines()
        .filter(|line| line.contains("sha256"))
        .map(str::to_owned)
        .collect();
    assert_eq!(found.len(), names.len(), "{text}");
    found
}

#[test]
fn what_is_written_is_recorded() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for cluster in ["512", "65536"] {
        for image in ["ours.qcow2", "theirs.qcow2"] {
            let options = format!("cluster_size={cluster}");
            let size = SIZE.to_string();
            run(
                dir,
                "qemu-img",
                &["create", "-q", "-f", "qcow2", "-o", &options, image, &size],
            );
            run(
                dir,
                "qemu-img",
                &["bitmap", "--add", "-g", "512", image, "fine"],
            );
            run(
                dir,
                "qemu-img",
                &["bitmap", "--add", "-g", "128k", image, "coarse"],
            );
            // A bitmap that does not record does not change.
            run(
                dir,
                "qemu-img",
                &["bitmap", "--add", "--disable", image, "still"],
            );
        }
        let mut r = Random::new(7);
        for _ in 0..3 {
            let opened = open(dir, "ours.qcow2");
            let disk = opened.device();
            let mut args = Vec::new();
            for _ in 0..20 {
                let at = r.below(SIZE / 512) * 512;
                let len = ((1 + r.below(300)) * 512).min(SIZE - at);
                match r.below(4) {
                    0 => {
                        disk.write_zeroes(at, len).unwrap();
                        args.push(format!("write -z {at} {len}"));
                    }
                    1 => {
                        disk.discard(at, len).unwrap();
                        args.push(format!("discard {at} {len}"));
                    }
                    _ => {
                        let bytes = vec![9; usize::try_from(len).unwrap()];
                        disk.write_at(at, &bytes).unwrap();
                        args.push(format!("write -P 9 {at} {len}"));
                    }
                }
            }
            drop(disk);
            // During writing, no program may trust the bitmaps.
            let bytes = std::fs::read(dir.join("ours.qcow2")).unwrap();
            std::fs::write(dir.join("crashed.qcow2"), bytes).unwrap();
            opened.close().unwrap();
            let info = run(dir, "qemu-img", &["info", "-f", "qcow2", "crashed.qcow2"]);
            assert_eq!(info.matches("in-use").count(), 2, "{info}");
            let mut args: Vec<_> = args.iter().flat_map(|c| ["-c", c.as_str()]).collect();
            args.splice(0..0, ["-d", "unmap"]);
            args.push("theirs.qcow2");
            run(dir, "qemu-io", &args);
            is_clean(dir, "ours.qcow2");
            let info = run(dir, "qemu-img", &["info", "ours.qcow2"]);
            assert!(!info.contains("in-use"), "{info}");
            let names = ["fine", "coarse"];
            assert_eq!(
                digests(dir, "ours.qcow2", &names),
                digests(dir, "theirs.qcow2", &names)
            );
        }
        let path = dir.join("ours.qcow2");
        let ours = Image::open(&path, &OpenOptions::default()).unwrap();
        assert!(ours.check().unwrap().unwrap().is_clean());
    }
}
