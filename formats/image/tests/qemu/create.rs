//! New images, compared with QEMU's: `qemu-img check` finds no errors, and `qemu-img info` and
//! `qemu-img map` report the same as for an image of `qemu-img create`.

use std::path::Path;

use diskfs_image::create::{
    BackingCheck, Compat, DataFileLayout, L2Entries, NewBacking, NewDataFile, NewImage, NewQcow2,
    Preallocation, RefcountUpdates,
};
use diskfs_image::{Compression, CreateOptions, Format, Image, OpenOptions, create};
use serde_json::Value;

use crate::tools::{have_qemu, number, run};

/// A combination of options.
#[derive(Debug, Clone)]
struct Case {
    size_bytes: u64,
    image: NewQcow2,
    preallocation: Preallocation,
}

impl Case {
    /// Returns the options for `qemu-img create -o`.
    fn options(&self) -> String {
        let image = &self.image;
        let mut options = vec![
            format!("cluster_size={}", image.cluster_size_bytes),
            format!("refcount_bits={}", image.refcount_bits),
            format!(
                "compat={}",
                if image.compat == Compat::V0_10 {
                    "0.10"
                } else {
                    "1.1"
                }
            ),
        ];
        if image.l2_entries == L2Entries::Extended {
            options.push("extended_l2=on".into());
        }
        if image.refcounts == RefcountUpdates::Lazy {
            options.push("lazy_refcounts=on".into());
        }
        if image.compression != Compression::Zlib {
            options.push("compression_type=zstd".into());
        }
        if let Some(data_file) = &image.data_file {
            options.push("data_file=theirs.data".into());
            if data_file.layout == DataFileLayout::Raw {
                options.push("data_file_raw=on".into());
            }
        }
        options.push(format!(
            "preallocation={}",
            match self.preallocation {
                Preallocation::Off => "off",
                Preallocation::Metadata => "metadata",
                Preallocation::Falloc => "falloc",
                Preallocation::Full => "full",
            }
        ));
        options.join(",")
    }

    fn run(&self, dir: &Path) {
        for old in ["ours.qcow2", "theirs.qcow2", "ours.data", "theirs.data"] {
            let _ = std::fs::remove_file(dir.join(old));
        }
        let size = self.size_bytes.to_string();
        let options = self.options();
        let mut words = vec!["create", "-q", "-f", "qcow2", "-o", &options];
        if self.image.backing.is_some() {
            words.extend(["-b", "base.raw", "-F", "raw"]);
        }
        words.extend(["theirs.qcow2", &size]);
        run(dir, "qemu-img", &words);
        let options = CreateOptions {
            preallocation: self.preallocation,
            ..CreateOptions::new(
                NewImage::Qcow2(Box::new(self.image.clone())),
                Some(self.size_bytes),
            )
        };
        create(&dir.join("ours.qcow2"), &options).unwrap_or_else(|e| panic!("{self:?}: {e}"));
        self.compare(dir);
    }

    fn compare(&self, dir: &Path) {
        let check = run(dir, "qemu-img", &["check", "ours.qcow2"]);
        assert!(check.contains("No errors were found"), "{self:?}: {check}");
        assert_eq!(
            info(dir, "ours.qcow2"),
            info(dir, "theirs.qcow2"),
            "{self:?}"
        );
        assert_eq!(map(dir, "ours.qcow2"), map(dir, "theirs.qcow2"), "{self:?}");
        run(dir, "qemu-img", &["compare", "ours.qcow2", "theirs.qcow2"]);
        let image = Image::open(&dir.join("ours.qcow2"), &OpenOptions::default()).unwrap();
        let report = image.check().unwrap().unwrap();
        assert!(report.is_clean(), "{self:?}: {report:?}");
        assert!(image.description().warnings.is_empty(), "{self:?}");
        drop(image);
        // QEMU writes to the image, which stays consistent.
        if self.size_bytes >= 4096 {
            run(dir, "qemu-io", &["-c", "write -P 7 1k 2k", "ours.qcow2"]);
            run(dir, "qemu-img", &["check", "-q", "ours.qcow2"]);
        }
    }
}

/// Returns the output of `qemu-img info`, without the name and the properties of the host's file.
fn info(dir: &Path, image: &str) -> Value {
    let text = run(dir, "qemu-img", &["info", "--output=json", image]);
    let text = text.replace("ours.", "X.").replace("theirs.", "X.");
    let mut value: Value = serde_json::from_str(&text).unwrap();
    let object = value.as_object_mut().unwrap();
    object.remove("actual-size");
    object.remove("children");
    value
}

/// Returns which runs of the disk are stored. Holes of the host depend on the location in the file,
/// so they are not compared.
fn map(dir: &Path, image: &str) -> Vec<(u64, u64, bool)> {
    let text = run(dir, "qemu-img", &["map", "--output=json", image]);
    let runs: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut merged: Vec<(u64, u64, bool)> = Vec::new();
    for run in &runs {
        let number = |name: &str| run[name].as_u64().unwrap();
        let present = run["present"].as_bool().unwrap();
        let (start, length) = (number("start"), number("length"));
        match merged.last_mut() {
            Some(last) if last.2 == present && last.0 + last.1 == start => last.1 += length,
            _ => merged.push((start, length, present)),
        }
    }
    merged
}

fn cases() -> Vec<Case> {
    use Preallocation::{Falloc, Full, Metadata, Off};
    let plain = NewQcow2::default();
    let mut cases = Vec::new();
    let mut add = |size_bytes, image: NewQcow2, preallocation| {
        cases.push(Case {
            size_bytes,
            image,
            preallocation,
        });
    };
    // All combinations would take too long, because QEMU runs ten times for each.
    let all = number("DISKFS_QEMU_ROUNDS", 1) > 1;
    for (nth, cluster_size_bytes) in [512, 4096, 65536, 2 << 20].into_iter().enumerate() {
        for refcount_bits in [1_u32, 2, 4, 8, 16, 32, 64] {
            let is_even = (nth + refcount_bits.ilog2() as usize).is_multiple_of(2);
            let image = NewQcow2 {
                cluster_size_bytes,
                refcount_bits,
                ..plain.clone()
            };
            if all || is_even {
                add(2_000_000, image.clone(), Off);
            }
            if all || !is_even {
                add(2_000_000, image, Metadata);
            }
        }
    }
    for size in [0, 1, 512, 65_536, (1 << 30) + 512] {
        add(size, plain.clone(), Off);
        add(size, plain.clone(), Metadata);
    }
    for preallocation in [Falloc, Full] {
        add(3 << 20, plain.clone(), preallocation);
    }
    for preallocation in [Off, Metadata, Falloc, Full] {
        for cluster_size_bytes in [16384, 65536] {
            let image = NewQcow2 {
                cluster_size_bytes,
                l2_entries: L2Entries::Extended,
                ..plain.clone()
            };
            add(3_000_000, image, preallocation);
        }
        let old = NewQcow2 {
            compat: Compat::V0_10,
            ..plain.clone()
        };
        add(3_000_000, old, preallocation);
        for layout in [DataFileLayout::Private, DataFileLayout::Raw] {
            let image = NewQcow2 {
                data_file: Some(NewDataFile {
                    name: "ours.data".into(),
                    layout,
                }),
                ..plain.clone()
            };
            add(3_000_000, image, preallocation);
        }
    }
    let variants = [
        NewQcow2 {
            refcounts: RefcountUpdates::Lazy,
            ..plain.clone()
        },
        NewQcow2 {
            compression: Compression::Zstd,
            ..plain.clone()
        },
    ];
    for image in variants {
        add(5 << 20, image, Off);
    }
    for (l2_entries, cluster_size_bytes, preallocation) in [
        (L2Entries::Standard, 512, Off),
        (L2Entries::Standard, 65536, Off),
        (L2Entries::Extended, 65536, Off),
        (L2Entries::Extended, 65536, Metadata),
    ] {
        let image = NewQcow2 {
            l2_entries,
            cluster_size_bytes,
            backing: Some(NewBacking {
                name: "base.raw".into(),
                format: Format::Raw,
                check: BackingCheck::Open(diskfs_image::Gate::default()),
            }),
            ..plain.clone()
        };
        add(1 << 20, image.clone(), preallocation);
        add(3 << 20, image, preallocation);
    }
    cases
}

#[test]
fn qemu_takes_them_for_its_own() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("base.raw"), vec![0x5a; 2 << 20]).unwrap();
    for case in cases() {
        case.run(dir.path());
    }
}

#[test]
fn raw_images_are_as_qemus() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for size in [0_u64, 1, 512, 1_000_000] {
        for preallocation in [
            Preallocation::Off,
            Preallocation::Falloc,
            Preallocation::Full,
        ] {
            let path = dir.path().join(format!("{size}-{preallocation:?}"));
            let options = CreateOptions {
                preallocation,
                ..CreateOptions::new(NewImage::Raw, Some(size))
            };
            create(&path, &options).unwrap();
            run(
                dir.path(),
                "qemu-img",
                &["create", "-q", "-f", "raw", "theirs", &size.to_string()],
            );
            let theirs = std::fs::read(dir.path().join("theirs")).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), theirs);
        }
    }
}
