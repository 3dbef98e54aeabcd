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
