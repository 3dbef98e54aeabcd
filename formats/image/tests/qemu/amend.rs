//! Properties that are changed by us, as QEMU sees them.

use diskfs_image::OpenOptions;
use diskfs_image::amend::{Amend, amend};
use diskfs_image::create::{Compat, RefcountUpdates};
use serde_json::Value;

use crate::model::is_clean;
use crate::tools::{converted, have_qemu, run};

#[test]
fn amended_images() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let path = dir.join("disk.qcow2");
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "raw", "base.raw", "2M"],
    );
    let long_name = format!("{}base.raw", "./".repeat(200));
    for cluster in ["512", "4k", "64k"] {
        for base in ["base.raw", &long_name] {
            if base == long_name && cluster == "512" {
                continue;
            }
            let options = format!("compat=0.10,cluster_size={cluster}");
            let create = [
                "create", "-q", "-f", "qcow2", "-o", &options, "-b", base, "-F", "raw",
            ];
            run(
                dir,
                "qemu-img",
                &[&create[..], &["disk.qcow2", "3M"]].concat(),
            );
            run(dir, "qemu-io", &["-c", "write -P 7 1M 300k", "disk.qcow2"]);
            run(dir, "qemu-img", &["snapshot", "-c", "s", "disk.qcow2"]);
            run(dir, "qemu-io", &["-c", "write -P 9 1M 100k", "disk.qcow2"]);
            let disk = converted(dir, "disk.qcow2", &[]).unwrap();
            let steps = [
                Amend {
                    compat: Some(Compat::V1_1),
                    ..Amend::default()
                },
                Amend {
                    refcounts: Some(RefcountUpdates::Lazy),
                    refcount_bits: Some(64),
                    ..Amend::default()
                },
                Amend {
                    refcounts: Some(RefcountUpdates::Eager),
                    refcount_bits: Some(2),
                    ..Amend::default()
                },
            ];
            for (step, lazy, bits) in [(0, false, 16), (1, true, 64), (2, false, 2)] {
                amend(&path, steps[step], &OpenOptions::default()).unwrap();
                is_clean(dir, "disk.qcow2");
                let text = run(dir, "qemu-img", &["info", "--output=json", "disk.qcow2"]);
                let info: Value = serde_json::from_str(&text).unwrap();
                let data = &info["format-specific"]["data"];
                assert_eq!(data["compat"], "1.1");
                assert_eq!(data["lazy-refcounts"], lazy);
                assert_eq!(data["refcount-bits"], bits);
                assert_eq!(info["backing-filename"], base);
                assert!(converted(dir, "disk.qcow2", &[]).unwrap() == disk);
            }
            // The snapshot has two references to a cluster, which one bit cannot count.
            let narrow = Amend {
                refcount_bits: Some(1),
                ..Amend::default()
            };
            let error = amend(&path, narrow, &OpenOptions::default()).unwrap_err();
            assert!(error.to_string().contains("too narrow"), "{error}");
        }
    }
}

/// Images of version 3 become ones of version 2, as with qemu-img, or both programs refuse.
#[test]
fn images_of_the_old_version() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let path = dir.join("disk.qcow2");
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "raw", "base.raw", "8M"],
    );
    run(
        dir,
        "qemu-io",
        &["-f", "raw", "-c", "write -P 3 0 8M", "base.raw"],
    );
    let on_base = ["-b", "base.raw", "-F", "raw"];
    let zeroes = [
        "-c",
        "write -P 5 1M 4M",
        "-c",
        "write -z 0 2M",
        "-c",
        "write -z 4M 1M",
    ];
    let preallocated = ["-c", "write -P 5 0 4M", "-c", "write -z 1M 2M"];
    let nothing: &[&str] = &[];
    for (options, base, writes, is_possible) in [
        ("compat=1.1", nothing, &zeroes[..], true),
        ("cluster_size=4k", nothing, &preallocated, true),
        ("cluster_size=512", nothing, &zeroes, true),
        ("compat=1.1", &on_base, &zeroes, true),
        ("cluster_size=2M", &on_base, &preallocated, true),
        ("lazy_refcounts=on", nothing, &zeroes, true),
        ("refcount_bits=8", nothing, &zeroes, false),
        ("extended_l2=on", nothing, nothing, false),
        ("data_file=data.raw", nothing, nothing, false),
    ] {
        let create = ["create", "-q", "-f", "qcow2", "-o", options];
        run(
            dir,
            "qemu-img",
            &[&create[..], base, &["disk.qcow2", "8M"]].concat(),
        );
        for snapshot in [false, true] {
            if snapshot && (!is_possible || !base.is_empty()) {
                continue;
            }
            if snapshot {
                let up = ["amend", "-o", "compat=1.1", "disk.qcow2"];
                run(dir, "qemu-img", &up);
                run(dir, "qemu-io", &[writes, &["disk.qcow2"]].concat());
                run(dir, "qemu-img", &["snapshot", "-c", "s", "disk.qcow2"]);
                run(dir, "qemu-io", &["-c", "write -z 6M 1M", "disk.qcow2"]);
            }
            if !writes.is_empty() {
                run(dir, "qemu-io", &[writes, &["disk.qcow2"]].concat());
            }
            let disk = converted(dir, "disk.qcow2", &[]).unwrap();
            let old = Amend {
                compat: Some(Compat::V0_10),
                ..Amend::default()
            };
            let done = amend(&path, old, &OpenOptions::default());
            assert_eq!(done.is_ok(), is_possible, "{options}: {done:?}");
            is_clean(dir, "disk.qcow2");
            let text = run(dir, "qemu-img", &["info", "--output=json", "disk.qcow2"]);
            let info: Value = serde_json::from_str(&text).unwrap();
            let compat = if is_possible { "0.10" } else { "1.1" };
            assert_eq!(info["format-specific"]["data"]["compat"], compat);
            assert!(
                converted(dir, "disk.qcow2", &[]).unwrap() == disk,
                "{options}"
            );
        }
        std::fs::remove_file(&path).unwrap();
    }
}
