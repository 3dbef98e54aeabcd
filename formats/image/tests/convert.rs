//! Copies into new images, judged by `qemu-img` and by our own reader.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{ErrorKind, Memory};
use diskfs_fixtures::{pattern, require, run};
use diskfs_image::convert::{ConvertOptions, Packing, convert, convert_into};
use diskfs_image::create::{
    BackingCheck, Compat, DataFileLayout, Existing, L2Entries, NewBacking, NewDataFile, NewImage,
    NewQcow2, Preallocation,
};
use diskfs_image::{Compression, Format, Gate, Image, OpenOptions, WritableImage, create};

const MIB: usize = 1 << 20;

/// Fills a part of a disk with bytes that cannot be compressed.
fn fill_randomly(bytes: &mut [u8], mut state: u64) {
    for byte in bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *byte = (state >> 56).to_le_bytes()[0];
    }
}

/// Returns a disk with text, random bytes and holes, whose size is not a multiple of the clusters'.
fn disk() -> Vec<u8> {
    let mut bytes = vec![0; 40 * MIB + 512];
    bytes[..5 * MIB].copy_from_slice(&pattern("text", 5 * MIB));
    fill_randomly(&mut bytes[7 * MIB + 4096..9 * MIB], 1);
    // Pieces of a cluster, and a cluster of random bytes between compressible ones.
    for at in (20 * MIB..24 * MIB).step_by(128 << 10) {
        bytes[at + 512..at + 1024].fill(7);
    }
    fill_randomly(&mut bytes[21 * MIB..21 * MIB + (64 << 10)], 3);
    bytes[40 * MIB..].fill(9);
    bytes
}

fn copy(bytes: &[u8], path: &Path, options: &ConvertOptions) {
    let device = Memory::new(bytes.to_vec());
    let mut copied = 0;
    let mut progress = |len| {
        copied += len;
        ControlFlow::Continue(())
    };
    convert(&device, path, options, &mut progress).unwrap();
    assert_eq!(copied, bytes.len() as u64);
}

fn contents(path: &Path, format: Format) -> Vec<u8> {
    let options = OpenOptions {
        format: Some(format),
        gate: Gate::default(),
        ..OpenOptions::default()
    };
    let image = Image::open(path, &options).unwrap();
    let device = image.device();
    let mut read = vec![1; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(0, &mut read).unwrap();
    if format == Format::Qcow2 {
        let report = image.check().unwrap().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
    read
}

/// Asserts that `qemu-img` sees the same disk, and no errors.
fn judge(path: &Path, bytes: &[u8]) {
    if require("qemu-img").is_none() {
        return;
    }
    let raw = path.with_extension("judge");
    std::fs::write(&raw, bytes).unwrap();
    let format = match path.extension() {
        Some(name) if name == "qcow2" => "qcow2",
        _ => "raw",
    };
    if format == "qcow2" {
        run("qemu-img", [Path::new("check"), path]).unwrap();
    }
    let words = ["compare", "-f", format, "-F", "raw"].map(Path::new);
    run("qemu-img", words.into_iter().chain([path, raw.as_path()])).unwrap();
    std::fs::remove_file(raw).unwrap();
}

fn qcow2(change: impl FnOnce(&mut NewQcow2)) -> NewImage {
    let mut image = NewQcow2::default();
    change(&mut image);
    NewImage::Qcow2(Box::new(image))
}

fn clusters_of(size: u64) -> NewImage {
    qcow2(|image| image.cluster_size_bytes = size)
}

/// Returns options of all kinds for new images, each with a name.
fn all_options() -> Vec<(&'static str, ConvertOptions)> {
    let plain = |image| ConvertOptions {
        image,
        ..ConvertOptions::default()
    };
    let packed = |image, level| ConvertOptions {
        image,
        packing: Some(Packing { level }),
        ..ConvertOptions::default()
    };
    let zstd = || qcow2(|image| image.compression = Compression::Zstd);
    let extended = || qcow2(|image| image.l2_entries = L2Entries::Extended);
    let refcounts = |bits| qcow2(|image| image.refcount_bits = bits);
    let old = || qcow2(|image| image.compat = Compat::V0_10);
    let preallocated = |preallocation| ConvertOptions {
        preallocation,
        ..ConvertOptions::default()
    };
    vec![
        ("plain", plain(qcow2(|_| ()))),
        ("clusters-512", plain(clusters_of(512))),
        ("clusters-4k", plain(clusters_of(4096))),
        ("clusters-2m", plain(clusters_of(2 << 20))),
        ("extended", plain(extended())),
        ("refcounts-1", plain(refcounts(1))),
        ("refcounts-64", plain(refcounts(64))),
        ("old", plain(old())),
        ("zlib", packed(qcow2(|_| ()), None)),
        ("zlib-1", packed(qcow2(|_| ()), Some(1))),
        ("zlib-9-old", packed(old(), Some(9))),
        ("zlib-refcounts-1", packed(refcounts(1), None)),
        ("zlib-refcounts-8", packed(refcounts(8), None)),
        ("zlib-clusters-512", packed(clusters_of(512), None)),
        ("zlib-clusters-2m", packed(clusters_of(2 << 20), None)),
        ("zlib-extended", packed(extended(), None)),
        ("zstd", packed(zstd(), None)),
        ("zstd-19", packed(zstd(), Some(19))),
        ("metadata", preallocated(Preallocation::Metadata)),
        ("falloc", preallocated(Preallocation::Falloc)),
        ("full", preallocated(Preallocation::Full)),
    ]
}

#[test]
fn a_copy_has_the_same_contents() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk();
    for (name, options) in all_options() {
        let path = directory.path().join(format!("{name}.qcow2"));
        copy(&bytes, &path, &options);
        assert!(contents(&path, Format::Qcow2) == bytes, "{name}");
        judge(&path, &bytes);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn the_file_does_not_depend_on_the_threads() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk();
    for options in [ConvertOptions::default(), ConvertOptions::compressed()] {
        let mut files = [1, 2, 7].map(|threads| {
            let path = directory.path().join(format!("{threads}.qcow2"));
            let threads = NonZeroUsize::new(threads);
            let options = options.clone();
            copy(&bytes, &path, &ConvertOptions { threads, ..options });
            let file = std::fs::read(&path).unwrap();
            std::fs::remove_file(path).unwrap();
            file
        });
        assert!(files[0] == files[1] && files[1] == files[2]);
        // Holes, and clusters of zeroes, are not stored.
        let [file, ..] = &mut files;
        assert!(file.len() < 13 * MIB);
    }
}

#[test]
fn an_empty_disk_and_one_of_holes_are_copied() {
    let directory = tempfile::tempdir().unwrap();
    for bytes in [vec![], vec![0; 512], vec![0; 9 * MIB]] {
        for options in [ConvertOptions::default(), ConvertOptions::compressed()] {
            let path = directory.path().join("empty.qcow2");
            copy(&bytes, &path, &options);
            assert!(contents(&path, Format::Qcow2) == bytes);
            judge(&path, &bytes);
            assert!(std::fs::metadata(&path).unwrap().len() <= 4 << 16);
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn raw_copies_keep_holes_unless_everything_is_stored() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk();
    let raw = |sparse_bytes| ConvertOptions {
        image: NewImage::Raw,
        sparse_bytes,
        ..ConvertOptions::default()
    };
    let allocated = [None, Some(4096), Some(1 << 20)].map(|sparse_bytes| {
        let path = directory.path().join("disk.raw");
        copy(&bytes, &path, &raw(sparse_bytes));
        assert!(std::fs::read(&path).unwrap() == bytes);
        judge(&path, &bytes);
        let blocks = std::fs::metadata(&path).unwrap().blocks();
        std::fs::remove_file(path).unwrap();
        blocks * 512
    });
    assert!(allocated[0] >= 40 << 20, "{allocated:?}");
    assert!(allocated[1] < 8 << 20, "{allocated:?}");
    assert!(allocated[2] > allocated[1] && allocated[2] < 14 << 20);
    for wrong in [0, 256, 3000, 2 << 20] {
        let device = Memory::new(vec![1; MIB]);
        let path = directory.path().join("disk.raw");
        let mut go_on = |_| ControlFlow::Continue(());
        let error = convert(&device, &path, &raw(Some(wrong)), &mut go_on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(!path.exists());
    }
}

#[test]
fn a_data_file_gets_the_data() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk();
    let path = directory.path().join("disk.qcow2");
    let image = qcow2(|image| {
        image.data_file = Some(NewDataFile {
            // QEMU resolves a relative name in its working directory.
            name: directory.path().join("disk.data"),
            layout: DataFileLayout::Raw,
        });
    });
    let options = ConvertOptions {
        image,
        ..ConvertOptions::default()
    };
    copy(&bytes, &path, &options);
    assert!(contents(&path, Format::Qcow2) == bytes);
    assert!(std::fs::read(directory.path().join("disk.data")).unwrap() == bytes);
    judge(&path, &bytes);
}

/// A copy with a backing file has only what the source's top image stores, zeroes included.
#[test]
fn a_backing_file_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("base.raw");
    let overlay = directory.path().join("overlay.qcow2");
    let mut bytes = disk();
    std::fs::write(&base, &bytes).unwrap();
    let backing = NewBacking {
        name: base.clone(),
        format: Format::Raw,
        check: BackingCheck::Open(Gate::default()),
    };
    let with_backing = |compat| {
        qcow2(|image| {
            image.backing = Some(backing.clone());
            image.compat = compat;
        })
    };
    let new = create::CreateOptions::new(with_backing(Compat::V1_1), None);
    create::create(&overlay, &new).unwrap();
    let image = WritableImage::open(&overlay, &OpenOptions::default()).unwrap();
    let device = image.device();
    device
        .write_at(MIB as u64 + 700, &vec![5; 100_000])
        .unwrap();
    device.write_zeroes(2 * MIB as u64, MIB as u64).unwrap();
    device.write_at(30 * MIB as u64, &vec![0; 1 << 16]).unwrap();
    image.close().unwrap();
    drop(device);
    bytes[MIB + 700..MIB + 100_700].fill(5);
    bytes[2 * MIB..3 * MIB].fill(0);

    let source = Image::open(&overlay, &OpenOptions::default()).unwrap();
    for compat in [Compat::V1_1, Compat::V0_10] {
        for packing in [None, Some(Packing { level: None })] {
            let path = directory.path().join("copy.qcow2");
            let options = ConvertOptions {
                image: with_backing(compat),
                packing,
                ..ConvertOptions::default()
            };
            let mut go_on = |_| ControlFlow::Continue(());
            convert(&*source.device(), &path, &options, &mut go_on).unwrap();
            assert!(contents(&path, Format::Qcow2) == bytes);
            judge(&path, &bytes);
            assert!(std::fs::metadata(&path).unwrap().len() < 2 << 20);
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn an_existing_device_is_overwritten_where_it_has_other_data() {
    let bytes = disk();
    let from = Memory::new(bytes.clone());
    for sparse_bytes in [None, Some(4096)] {
        let to = Memory::new(vec![0xaa; bytes.len() + 4096]);
        let options = ConvertOptions {
            sparse_bytes,
            ..ConvertOptions::default()
        };
        let mut go_on = |_| ControlFlow::Continue(());
        convert_into(&from, &to, false, &options, &mut go_on).unwrap();
        let mut read = vec![0; bytes.len()];
        diskfs_block::BlockRead::read_at(&to, 0, &mut read).unwrap();
        assert!(read == bytes);
        let small = Memory::new(vec![0; bytes.len() - 1]);
        let error = convert_into(&from, &small, false, &options, &mut go_on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn an_existing_file_is_kept_unless_it_is_to_be_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.qcow2");
    std::fs::write(&path, "old").unwrap();
    let device = Memory::new(vec![1; MIB]);
    let mut go_on = |_| ControlFlow::Continue(());
    let error = convert(&device, &path, &ConvertOptions::default(), &mut go_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    let options = ConvertOptions {
        existing: Existing::Replace,
        ..ConvertOptions::default()
    };
    convert(&device, &path, &options, &mut go_on).unwrap();
    assert!(contents(&path, Format::Qcow2) == vec![1; MIB]);
}

#[test]
fn nothing_is_left_of_a_copy_that_fails() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.qcow2");
    let device = Memory::new(vec![1; 8 * MIB]);
    let mut stop = |_| ControlFlow::Break(());
    for options in [ConvertOptions::default(), ConvertOptions::compressed()] {
        let error = convert(&device, &path, &options, &mut stop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
    let mut go_on = |_| ControlFlow::Continue(());
    for level in [0, 10] {
        let options = ConvertOptions {
            packing: Some(Packing { level: Some(level) }),
            ..ConvertOptions::default()
        };
        let error = convert(&device, &path, &options, &mut go_on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
