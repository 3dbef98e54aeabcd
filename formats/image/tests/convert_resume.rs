//! Copies that are interrupted and continued, judged by `qemu-img`.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, ErrorKind, Result};
use diskfs_fixtures::{require, run};
use diskfs_image::convert::{ConvertOptions, Packing, convert_resumable};
use diskfs_image::create::{Existing, L2Entries, NewImage, NewQcow2, Preallocation};
use diskfs_image::{Compression, Format, Image, OpenOptions};

const GIB: u64 = 1 << 30;

/// A sparse disk of three steps, with its directory.
struct Source(tempfile::TempDir);

impl Source {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("disk.raw")).unwrap();
        file.set_len(3 * GIB).unwrap();
        for at in [0, GIB - 4096, GIB + GIB / 2, 3 * GIB - 512] {
            file.write_all_at(&[7; 512], at).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn device(&self) -> Arc<dyn BlockRead> {
        let raw = OpenOptions {
            format: Some(Format::Raw),
            ..OpenOptions::default()
        };
        let image = Image::open(&self.path("disk.raw"), &raw).unwrap();
        image.device()
    }

    /// Copies until this many bytes are done; returns how many were done before.
    fn copy(&self, options: &ConvertOptions, state: &str, stop: u64) -> Result<u64> {
        let (mut before, mut done) = (None, 0);
        let mut progress = |len| {
            before.get_or_insert(len);
            done += len;
            if done > stop {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let (device, path) = (self.device(), self.path("copy"));
        convert_resumable(&device, &path, state, options, &mut progress)?;
        assert_eq!(done, 3 * GIB);
        Ok(before.unwrap())
    }

    fn names(&self) -> Vec<String> {
        let entries = self.0.path().read_dir().unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn judge(&self, format: &str) {
        if require("qemu-img").is_none() {
            return;
        }
        let (disk, copy) = (self.path("disk.raw"), self.path("copy"));
        let words = ["compare", "-f", "raw", "-F", format].map(Path::new);
        run("qemu-img", words.into_iter().chain([&*disk, &*copy])).unwrap();
        if format == "qcow2" {
            let words = ["check", "-f", format].map(Path::new);
            run("qemu-img", words.into_iter().chain([&*copy])).unwrap();
        }
    }
}

fn all_options() -> [ConvertOptions; 5] {
    let raw = ConvertOptions {
        image: NewImage::Raw,
        ..ConvertOptions::default()
    };
    // One L2 table maps 512 GiB, so that each step adds to the same one.
    let large_clusters = NewQcow2 {
        cluster_size_bytes: 2 << 20,
        compression: Compression::Zstd,
        ..NewQcow2::default()
    };
    let subclusters = NewQcow2 {
        l2_entries: L2Entries::Extended,
        refcount_bits: 1,
        ..NewQcow2::default()
    };
    let compressed = |image| ConvertOptions {
        image: NewImage::Qcow2(Box::new(image)),
        ..ConvertOptions::compressed()
    };
    [
        raw,
        ConvertOptions::default(),
        ConvertOptions::compressed(),
        compressed(large_clusters),
        compressed(subclusters),
    ]
}

#[test]
fn an_interrupted_copy_is_continued() {
    for options in all_options() {
        let source = Source::new();
        let stopped = source.copy(&options, "state", 2 * GIB).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Cancelled);
        assert_eq!(
            stopped.next_step(),
            Some("the same call continues the copy")
        );
        assert_eq!(source.names(), ["copy.partial", "copy.resume", "disk.raw"]);
        assert_eq!(source.copy(&options, "state", 3 * GIB).unwrap(), 2 * GIB);
        assert_eq!(source.names(), ["copy", "disk.raw"]);
        source.judge(options.image.format().qemu_name());
        // A finished copy is a file like any other.
        let again = source.copy(&options, "state", 3 * GIB).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Exists);
        let replace = ConvertOptions {
            existing: Existing::Replace,
            ..options
        };
        assert_eq!(source.copy(&replace, "state", 3 * GIB).unwrap(), 0);
        assert_eq!(source.names(), ["copy", "disk.raw"]);
    }
}

#[test]
fn nothing_else_is_continued() {
    for options in all_options() {
        let source = Source::new();
        let stop = || source.copy(&options, "state", GIB).unwrap_err();
        stop();
        let other = source.copy(&options, "other", 3 * GIB).unwrap_err();
        assert_eq!(other.kind(), ErrorKind::Invalid);
        assert!(other.next_step().unwrap().starts_with("remove "), "{other}");
        let partial = OpenOptions {
            format: Some(Format::Raw),
            ..OpenOptions::default()
        };
        let image = Image::open_writable(&source.path("copy.partial"), &partial).unwrap();
        assert_eq!(stop().kind(), ErrorKind::Locked);
        drop(image);
        fs::write(source.path("copy.resume"), "1073741824").unwrap();
        assert_eq!(stop().kind(), ErrorKind::Invalid);
        fs::remove_file(source.path("copy.resume")).unwrap();
        assert_eq!(stop().kind(), ErrorKind::Exists);
        fs::remove_file(source.path("copy.partial")).unwrap();
        assert_eq!(source.copy(&options, "state", 3 * GIB).unwrap(), 0);
    }
}

/// A copy that was interrupted is the same file as one that was not.
#[test]
fn a_continued_compressed_image_is_the_same() {
    for options in &all_options()[2..] {
        let source = Source::new();
        source.copy(options, "state", 3 * GIB).unwrap();
        let whole = fs::read(source.path("copy")).unwrap();
        fs::remove_file(source.path("copy")).unwrap();
        source.copy(options, "state", GIB).unwrap_err();
        let record = source.path("copy.resume");
        let record_1 = fs::read(&record).unwrap();
        source.copy(options, "state", 2 * GIB).unwrap_err();
        // The power fails after the image was written, and before its record.
        fs::write(&record, &record_1).unwrap();
        assert_eq!(source.copy(options, "state", 3 * GIB).unwrap(), GIB);
        assert!(fs::read(source.path("copy")).unwrap() == whole);
        source.judge("qcow2");
    }
}

#[test]
fn a_damaged_compressed_image_is_not_continued() {
    let options = ConvertOptions::compressed();
    let source = Source::new();
    source.copy(&options, "state", 2 * GIB).unwrap_err();
    let image = source.path("copy.partial");
    let bytes = fs::read(&image).unwrap();
    let mut beyond = bytes.clone();
    beyond[65536..65544].copy_from_slice(&(1_u64 << 40).to_be_bytes());
    for damaged in [&bytes[..bytes.len() / 2], &beyond] {
        fs::write(&image, damaged).unwrap();
        let error = source.copy(&options, "state", 3 * GIB).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.next_step().unwrap().starts_with("remove "), "{error}");
    }
    fs::write(&image, bytes).unwrap();
    assert_eq!(source.copy(&options, "state", 3 * GIB).unwrap(), 2 * GIB);
    source.judge("qcow2");
}

#[test]
fn what_has_no_place_before_its_end_is_refused() {
    let source = Source::new();
    let raw = ConvertOptions {
        image: NewImage::Raw,
        ..ConvertOptions::compressed()
    };
    let preallocated = ConvertOptions {
        preallocation: Preallocation::Metadata,
        ..ConvertOptions::compressed()
    };
    let level = ConvertOptions {
        packing: Some(Packing { level: Some(10) }),
        ..ConvertOptions::default()
    };
    for options in [raw, preallocated, level] {
        let error = source.copy(&options, "state", GIB);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(source.names(), ["disk.raw"]);
    }
}
