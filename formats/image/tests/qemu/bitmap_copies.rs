//! Bitmaps that a conversion copies, compared with those of `qemu-img convert --bitmaps`.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{ErrorKind, Result};
use diskfs_image::bitmaps::{self, BitmapSet, Inconsistent};
use diskfs_image::convert::{ConvertOptions, Packing, convert, convert_into, convert_verified};
use diskfs_image::create::{Compat, Existing, NewImage, NewQcow2, Preallocation};
use diskfs_image::{Image, OpenOptions, WritableImage};

use crate::bitmap_edits::{ours, theirs};
use crate::bitmaps::digests;
use crate::model::{is_clean, open};
use crate::tools::{Random, have_qemu, run};

/// Makes an image with bitmaps of several granularities and states.
fn make_source(dir: &Path, options: &str, size: u64, r: &mut Random) {
    let size_text = size.to_string();
    let create = ["create", "-q", "-f", "qcow2", "-o", options];
    run(
        dir,
        "qemu-img",
        &[&create[..], &["from.qcow2", &size_text]].concat(),
    );
    let add = ["bitmap", "--add", "from.qcow2"];
    for extra in [
        &["all", "-g", "512"][..],
        &["fine", "-g", "512"],
        &["still", "--disable"],
        &["default"],
        &["coarse", "-g", "2M"],
    ] {
        run(dir, "qemu-img", &[&add[..], extra].concat());
    }
    let whole = format!("write -z 0 {size}");
    run(dir, "qemu-io", &["-c", &whole, "from.qcow2"]);
    for name in ["fine", "default", "coarse"] {
        run(dir, "qemu-img", &["bitmap", "--clear", "from.qcow2", name]);
    }
    run(
        dir,
        "qemu-img",
        &["bitmap", "--disable", "from.qcow2", "all"],
    );
    let writes: Vec<String> = (0..20)
        .map(|_| {
            let at = r.below(size / 512) * 512;
            let len = ((1 + r.below(300)) * 512).min(size - at);
            format!("write -P 9 {at} {len}")
        })
        .collect();
    let words = writes.iter().flat_map(|write| ["-c", write]);
    let words: Vec<&str> = words.chain(["from.qcow2"]).collect();
    run(dir, "qemu-io", &words);
}

fn copy(dir: &Path, name: &str, options: ConvertOptions) -> Result<()> {
    let from = Image::open(&dir.join("from.qcow2"), &OpenOptions::default())?;
    let options = ConvertOptions {
        bitmaps: Some(BitmapSet::of(&from, Inconsistent::Refused)?),
        existing: Existing::Replace,
        ..options
    };
    let mut go_on = |_| ControlFlow::Continue(());
    convert_verified(&*from.device(), &dir.join(name), &options, &mut go_on)
}

fn qcow2(cluster_size_bytes: u64) -> NewImage {
    NewImage::Qcow2(Box::new(NewQcow2 {
        cluster_size_bytes,
        ..NewQcow2::default()
    }))
}

#[test]
fn a_copy_has_the_same_bitmaps_as_that_of_qemu_img() {
    if !have_qemu() {
        return;
    }
    let names = ["all", "fine", "still", "default", "coarse"];
    let mut r = Random::new(11);
    for (options, size) in [
        ("cluster_size=64k", 32 << 20),
        ("cluster_size=512", (32 << 20) + 512),
        ("cluster_size=4k", (9 << 20) - 1536),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        make_source(dir, options, size, &mut r);
        let words = ["convert", "--bitmaps", "-O", "qcow2"];
        run(
            dir,
            "qemu-img",
            &[&words[..], &["from.qcow2", "theirs.qcow2"]].concat(),
        );
        let expected = theirs(dir, "theirs.qcow2");
        let bits = digests(dir, "from.qcow2", &names);
        for copied in [
            ConvertOptions::default(),
            ConvertOptions {
                packing: Some(Packing { level: None }),
                ..ConvertOptions::default()
            },
            ConvertOptions {
                preallocation: Preallocation::Metadata,
                ..ConvertOptions::default()
            },
            ConvertOptions {
                image: qcow2(512),
                ..ConvertOptions::default()
            },
            ConvertOptions {
                image: qcow2(2 << 20),
                ..ConvertOptions::default()
            },
        ] {
            copy(dir, "ours.qcow2", copied).unwrap();
            assert_eq!(theirs(dir, "ours.qcow2"), expected, "{options}");
            assert_eq!(ours(dir, "ours.qcow2"), expected, "{options}");
            assert_eq!(digests(dir, "ours.qcow2", &names), bits, "{options}");
            is_clean(dir, "ours.qcow2");
        }
    }
}

#[test]
fn bitmaps_are_copied_into_an_existing_image_completely_or_not_at_all() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make_source(dir, "cluster_size=64k", 8 << 20, &mut Random::new(3));
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "qcow2", "to.qcow2", "8M"],
    );
    run(dir, "qemu-img", &["bitmap", "--add", "to.qcow2", "own"]);
    let to = dir.join("to.qcow2");
    let names = ["all", "fine", "still", "default", "coarse"];
    let bits = digests(dir, "from.qcow2", &names);
    let options = OpenOptions::default();
    let from = Image::open(&dir.join("from.qcow2"), &options).unwrap();
    let set = BitmapSet::of(&from, Inconsistent::Refused).unwrap();
    let image = WritableImage::open(&to, &options).unwrap();
    bitmaps::check_copy(&image, &set).unwrap();
    let mut go_on = |_| ControlFlow::Continue(());
    let convert_options = ConvertOptions::default();
    let device = image.device();
    convert_into(
        &*from.device(),
        &*device,
        false,
        &convert_options,
        &mut go_on,
    )
    .unwrap();
    drop(device);
    image.close().unwrap();
    bitmaps::copy(&to, &set, &options).unwrap();
    assert_eq!(digests(dir, "to.qcow2", &names), bits);
    assert_eq!(theirs(dir, "to.qcow2").len(), 6);
    is_clean(dir, "to.qcow2");
    // One of the names is taken.
    run(dir, "qemu-img", &["bitmap", "--remove", "to.qcow2", "all"]);
    run(
        dir,
        "qemu-img",
        &["bitmap", "--remove", "to.qcow2", "still"],
    );
    let before = fs::read(&to).unwrap();
    let image = WritableImage::open(&to, &options).unwrap();
    let refused = bitmaps::check_copy(&image, &set).unwrap_err();
    drop(image);
    assert_eq!(refused.kind(), ErrorKind::Exists);
    let refused = bitmaps::copy(&to, &set, &options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exists);
    assert!(fs::read(&to).unwrap() == before);
}

#[test]
fn what_cannot_be_copied_leaves_no_file() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make_source(dir, "cluster_size=64k", 8 << 20, &mut Random::new(3));
    let old = NewImage::Qcow2(Box::new(NewQcow2 {
        compat: Compat::V0_10,
        ..NewQcow2::default()
    }));
    for image in [NewImage::Raw, old] {
        let options = ConvertOptions {
            image,
            ..ConvertOptions::default()
        };
        let error = copy(dir, "to", options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(!dir.join("to").exists());
    }
    // A killed writer leaves its bitmaps inconsistent.
    let image = open(dir, "from.qcow2");
    image.device().write_at(0, &[1; 512]).unwrap();
    fs::copy(dir.join("from.qcow2"), dir.join("killed.qcow2")).unwrap();
    image.close().unwrap();
    fs::rename(dir.join("killed.qcow2"), dir.join("from.qcow2")).unwrap();
    let error = copy(dir, "to", ConvertOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("bitmap `"), "{error}");
    assert!(!dir.join("to").exists());
    let from = Image::open(&dir.join("from.qcow2"), &OpenOptions::default()).unwrap();
    let set = BitmapSet::of(&from, Inconsistent::Skipped).unwrap();
    assert_eq!(set.skipped().len(), 3);
    assert!(set.names().eq(["all", "still"]), "{set:?}");
    let options = ConvertOptions {
        bitmaps: Some(set),
        ..ConvertOptions::default()
    };
    let mut go_on = |_| ControlFlow::Continue(());
    convert(&*from.device(), &dir.join("to"), &options, &mut go_on).unwrap();
    assert_eq!(ours(dir, "to").len(), 2);
    is_clean(dir, "to");
}
