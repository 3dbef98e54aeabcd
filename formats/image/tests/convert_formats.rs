//! Copies into images of the formats that are written as a whole, judged by `qemu-img` and by our
//! own reader.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use diskfs_block::{BlockRead, ErrorKind, Extent, ExtentKind};
use diskfs_fixtures::{Random, require, run};
use diskfs_image::convert::{
    ConvertOptions, Packing, convert, convert_to_stream, convert_verified,
};
use diskfs_image::create::{
    Allocation, BackingCheck, DataFileLayout, L2Entries, NewBacking, NewDataFile, NewImage,
    NewQcow2, NewVdi, NewVhd, NewVhdx, NewVmdk, Preallocation, VhdSize, VmdkSubformat,
};
use diskfs_image::{CreateOptions, Format, Image, OpenOptions, create};
use serde_json::Value;

const UNIT: u64 = 64 << 10;

/// A raw disk of holes, stored zeroes and data, with its contents.
struct Source {
    directory: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Source {
    fn new(size: u64, random: &mut Random) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("disk.raw")).unwrap();
        file.set_len(size).unwrap();
        let mut bytes = vec![0; usize::try_from(size).unwrap()];
        for (at, unit) in (0..).step_by(1 << 16).zip(bytes.chunks_mut(1 << 16)) {
            let len = unit.len() as u64;
            match random.below(8) {
                // Runs of holes, which are longer than blocks.
                0..3 if at % (4 * UNIT) != 0 => continue,
                0 => unit.fill(7),
                1 => {
                    let start = usize::try_from(random.below(len)).unwrap();
                    unit[start] = 1;
                }
                2 => unit.copy_from_slice(&random.bytes(unit.len())),
                3 => {} // Zeroes that are stored.
                _ => continue,
            }
            file.write_all_at(unit, at).unwrap();
        }
        Self { directory, bytes }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn image(&self) -> Image {
        let raw = OpenOptions {
            format: Some(Format::Raw),
            ..OpenOptions::default()
        };
        Image::open(&self.path("disk.raw"), &raw).unwrap()
    }

    fn convert(&self, name: &str, options: &ConvertOptions) -> diskfs_block::Result<()> {
        let mut copied = 0;
        let mut progress = |len| {
            copied += len;
            ControlFlow::Continue(())
        };
        let image = self.image();
        convert_verified(&*image.device(), &self.path(name), options, &mut progress)?;
        assert_eq!(copied, self.bytes.len() as u64);
        Ok(())
    }

    /// Asserts that an image has the same contents, and zeroes after them.
    fn check(&self, name: &str, format: Format) -> Vec<u8> {
        let options = OpenOptions {
            format: Some(format),
            ..OpenOptions::default()
        };
        let image = Image::open(&self.path(name), &options).unwrap();
        let device = image.device();
        let mut read = vec![1; usize::try_from(device.size_bytes()).unwrap()];
        device.read_at(0, &mut read).unwrap();
        self.compare(&read);
        read
    }

    fn compare(&self, read: &[u8]) {
        let (start, rest) = read.split_at(self.bytes.len());
        assert!(start == self.bytes);
        assert!(rest.iter().all(|byte| *byte == 0));
    }

    /// Asserts that `qemu-img` reads the same bytes as we do, and finds no errors. Returns what it
    /// prints about the image.
    fn judge(&self, name: &str, format: Format, ours: &[u8]) -> Value {
        if require("qemu-img").is_none() {
            return Value::Null;
        }
        let (path, raw) = (self.path(name), self.path("judge.raw"));
        let theirs = format.qemu_name();
        let words = ["convert", "-f", theirs, "-O", "raw"].map(Path::new);
        run("qemu-img", words.into_iter().chain([&*path, &*raw])).unwrap();
        assert!(fs::read(&raw).unwrap() == ours, "{name}");
        fs::remove_file(raw).unwrap();
        if format != Format::Vhd {
            let words = ["check", "-f", theirs].map(Path::new);
            run("qemu-img", words.into_iter().chain([&*path])).unwrap();
        }
        let words = ["info", "--output=json", "-f", theirs].map(Path::new);
        let printed = run("qemu-img", words.into_iter().chain([&*path])).unwrap();
        serde_json::from_str(&printed).unwrap()
    }

    /// Converts with one and with several threads, compares the files, and has them read.
    fn convert_and_judge(&self, options: &ConvertOptions) -> Value {
        let format = options.image.format();
        let name = format!("disk.{format}");
        let convert = |threads| {
            let options = ConvertOptions {
                threads: NonZeroUsize::new(threads),
                identity: Some("3c1e5a0e-9f5c-4a2b-8d3e-2f6a7b8c9d0e".parse().unwrap()),
                ..options.clone()
            };
            self.convert(&name, &options).unwrap();
            fs::read(self.path(&name)).unwrap()
        };
        let file = convert(1);
        fs::remove_file(self.path(&name)).unwrap();
        assert!(file == convert(3), "{options:?}");
        let ours = self.check(&name, format);
        let info = self.judge(&name, format, &ours);
        fs::remove_file(self.path(&name)).unwrap();
        info
    }
}

fn options(image: NewImage) -> ConvertOptions {
    ConvertOptions {
        image,
        ..ConvertOptions::default()
    }
}

fn vmdk(subformat: VmdkSubformat) -> ConvertOptions {
    options(NewImage::Vmdk(NewVmdk {
        subformat,
        ..NewVmdk::default()
    }))
}

fn vhd(allocation: Allocation, size: VhdSize) -> ConvertOptions {
    options(NewImage::Vhd(NewVhd { allocation, size }))
}

fn vdi(allocation: Allocation) -> ConvertOptions {
    options(NewImage::Vdi(NewVdi { allocation }))
}

fn vhdx(allocation: Allocation, block_size_bytes: Option<u64>) -> ConvertOptions {
    options(NewImage::Vhdx(NewVhdx {
        allocation,
        block_size_bytes,
        ..NewVhdx::default()
    }))
}

/// Sizes around a sector, a grain or block, and tables.
const SIZES: [u64; 6] = [
    512,
    UNIT,
    UNIT + 512,
    (3 << 20) - 512,
    (8 << 20) + 512,
    (40 << 20) + 3 * 512,
];

#[test]
fn vmdk_images_are_what_qemu_reads() {
    let mut random = Random::new(21);
    for size in SIZES {
        let source = Source::new(size, &mut random);
        for (subformat, name) in [
            (VmdkSubformat::MonolithicSparse, "monolithicSparse"),
            (VmdkSubformat::StreamOptimized, "streamOptimized"),
        ] {
            let info = source.convert_and_judge(&vmdk(subformat));
            if info.is_object() {
                assert_eq!(info["format-specific"]["data"]["create-type"], name);
                assert_eq!(info["virtual-size"], size);
            }
        }
    }
    let source = Source::new((3 << 20) - 512, &mut random);
    source.convert_and_judge(&ConvertOptions {
        sparse_bytes: None,
        ..vmdk(VmdkSubformat::MonolithicSparse)
    });
}

#[test]
fn vmdk_options_are_in_the_descriptor() {
    let source = Source::new(4 << 20, &mut Random::new(22));
    let new = NewVmdk {
        adapter_type: "lsilogic".to_owned(),
        hardware_version: 10,
        ..NewVmdk::default()
    };
    source
        .convert("a \"b\".vmdk", &options(NewImage::Vmdk(new.clone())))
        .unwrap();
    let file = fs::read(source.path("a \"b\".vmdk")).unwrap();
    let text = String::from_utf8_lossy(&file[512..2048]);
    assert!(text.contains("ddb.adapterType = \"lsilogic\""), "{text}");
    assert!(text.contains("ddb.virtualHWVersion = \"10\""), "{text}");
    assert!(text.contains("SPARSE \"disk.vmdk\""), "{text}");
    let wrong = NewVmdk {
        adapter_type: "nvme".to_owned(),
        ..new
    };
    let error = source.convert("x.vmdk", &options(NewImage::Vmdk(wrong)));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(!source.path("x.vmdk").exists());
}

#[test]
fn a_vmdk_stream_has_a_level_of_compression() {
    let source = Source::new(8 << 20, &mut Random::new(23));
    let stream = |level| ConvertOptions {
        packing: Some(Packing { level }),
        ..vmdk(VmdkSubformat::StreamOptimized)
    };
    let sizes = [Some(1), Some(9)].map(|level| {
        source.convert_and_judge(&stream(level));
        source.convert("level.vmdk", &stream(level)).unwrap();
        let size = fs::metadata(source.path("level.vmdk")).unwrap().len();
        fs::remove_file(source.path("level.vmdk")).unwrap();
        size
    });
    assert!(sizes[1] < sizes[0], "{sizes:?}");
    let error = source.convert("x.vmdk", &stream(Some(10))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn vhd_images_are_what_qemu_reads() {
    let mut random = Random::new(25);
    for size in [512, (4 << 20) - 512, (8 << 20) + 512] {
        let source = Source::new(size, &mut random);
        for allocation in [Allocation::Dynamic, Allocation::Fixed] {
            for rule in [VhdSize::Geometry, VhdSize::Exact] {
                let options = vhd(allocation, rule);
                let info = source.convert_and_judge(&options);
                let expected = options.image.virtual_size_bytes(size).unwrap();
                assert_eq!(rule == VhdSize::Exact, expected == size, "{size}");
                if info.is_object() {
                    assert_eq!(info["virtual-size"], expected);
                }
            }
            source.convert_and_judge(&ConvertOptions {
                sparse_bytes: None,
                ..vhd(allocation, VhdSize::Exact)
            });
        }
    }
}

/// Azure takes a fixed disk of whole MiB, whose footer states that size.
#[test]
fn a_fixed_vhd_of_whole_mib_keeps_its_size() {
    let source = Source::new(5 << 20, &mut Random::new(26));
    let options = vhd(Allocation::Fixed, VhdSize::Exact);
    source.convert("disk.vhd", &options).unwrap();
    let file = fs::read(source.path("disk.vhd")).unwrap();
    let (disk, footer) = file.split_at(5 << 20);
    assert!(disk == source.bytes);
    assert_eq!((footer.len(), &footer[..8]), (512, &b"conectix"[..]));
    assert_eq!(footer[48..56], (5_u64 << 20).to_be_bytes());
}

#[test]
fn vdi_images_are_what_qemu_reads() {
    let mut random = Random::new(27);
    for size in [512, (1 << 20) + 512, (9 << 20) - 512] {
        let source = Source::new(size, &mut random);
        for allocation in [Allocation::Dynamic, Allocation::Fixed] {
            let info = source.convert_and_judge(&vdi(allocation));
            if info.is_object() {
                assert_eq!(info["virtual-size"], size);
            }
        }
        source.convert_and_judge(&ConvertOptions {
            sparse_bytes: None,
            ..vdi(Allocation::Dynamic)
        });
    }
}

#[test]
fn vhdx_images_are_what_qemu_reads() {
    let mut random = Random::new(28);
    for size in [512, (1 << 20) + 512, (17 << 20) - 512] {
        let source = Source::new(size, &mut random);
        for allocation in [Allocation::Dynamic, Allocation::Fixed] {
            for block in [None, Some(1 << 20)] {
                let info = source.convert_and_judge(&vhdx(allocation, block));
                if info.is_object() {
                    assert_eq!(info["virtual-size"], size);
                    assert_eq!(info["cluster-size"], block.unwrap_or(8 << 20));
                }
            }
        }
    }
    let source = Source::new((5 << 20) + 512, &mut random);
    source.convert_and_judge(&ConvertOptions {
        sparse_bytes: None,
        ..vhdx(Allocation::Dynamic, Some(2 << 20))
    });
}

/// With blocks of 1 MiB, a sector bitmap's entry follows 4096 entries of the table.
#[test]
fn a_vhdx_with_several_chunks_is_read() {
    let size: u64 = (4 << 30) + (2 << 20) + 512;
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk.raw");
    let file = File::create(&disk).unwrap();
    file.set_len(size).unwrap();
    let places: [u64; 5] = [0, 4095, 4096, 4097, 4098];
    for (byte, at) in (1..).zip(places) {
        file.write_all_at(&[byte; 512], at << 20).unwrap();
    }
    let image = Image::open(&disk, &OpenOptions::default()).unwrap();
    let new = directory.path().join("disk.vhdx");
    let options = options_of(NewVhdx {
        log_size_bytes: 3 << 20,
        block_size_bytes: Some(1 << 20),
        ..NewVhdx::default()
    });
    let mut go_on = |_| ControlFlow::Continue(());
    convert_verified(&*image.device(), &new, &options, &mut go_on).unwrap();
    if require("qemu-io").is_none() {
        return;
    }
    // `qemu-img compare` takes long for holes.
    for (byte, at) in (1..).zip(places) {
        let read = format!("read -P {byte} {at}M 512");
        let path = new.display().to_string();
        let printed = run("qemu-io", ["-r", "-f", "vhdx", "-c", &read, &path]).unwrap();
        assert!(!printed.contains("failed"), "{printed}");
    }
}

fn options_of(new: NewVhdx) -> ConvertOptions {
    options(NewImage::Vhdx(new))
}

#[test]
fn wrong_sizes_of_a_vhdx_are_refused() {
    let source = Source::new(1 << 20, &mut Random::new(29));
    for new in [
        NewVhdx {
            block_size_bytes: Some(3 << 20),
            ..NewVhdx::default()
        },
        NewVhdx {
            block_size_bytes: Some(512 << 20),
            ..NewVhdx::default()
        },
        NewVhdx {
            log_size_bytes: 1000,
            ..NewVhdx::default()
        },
        NewVhdx {
            log_size_bytes: 0,
            ..NewVhdx::default()
        },
    ] {
        let error = source.convert("x.vhdx", &options_of(new)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{new:?}");
    }
}

/// Returns the default options of all formats.
fn all_formats() -> Vec<ConvertOptions> {
    vec![
        vmdk(VmdkSubformat::MonolithicSparse),
        vmdk(VmdkSubformat::StreamOptimized),
        vhd(Allocation::Dynamic, VhdSize::Geometry),
        vhd(Allocation::Fixed, VhdSize::Exact),
        vdi(Allocation::Dynamic),
        vdi(Allocation::Fixed),
        vhdx(Allocation::Dynamic, None),
        vhdx(Allocation::Fixed, None),
    ]
}

#[test]
fn an_empty_disk_and_one_of_holes_are_small_images() {
    for size in [0, 200 << 20] {
        let source = Source {
            directory: tempfile::tempdir().unwrap(),
            bytes: vec![0; usize::try_from(size).unwrap()],
        };
        let file = File::create(source.path("disk.raw")).unwrap();
        file.set_len(size).unwrap();
        for options in all_formats() {
            let format = options.image.format();
            assert!(format.is_creatable());
            let name = format!("empty.{format}");
            source.convert(&name, &options).unwrap();
            source.check(&name, format);
            let allocated = fs::metadata(source.path(&name)).unwrap().blocks() * 512;
            assert!(allocated <= 4 << 20, "{options:?}: {allocated}");
            fs::remove_file(source.path(&name)).unwrap();
        }
    }
}

#[test]
fn nothing_is_left_of_a_copy_that_fails() {
    let source = Source::new(8 << 20, &mut Random::new(24));
    let image = source.image();
    for options in all_formats() {
        let path = source.path("x");
        let mut stop = |_| ControlFlow::Break(());
        let error = convert(&*image.device(), &path, &options, &mut stop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        let preallocated = ConvertOptions {
            preallocation: Preallocation::Full,
            ..options.clone()
        };
        let error = source.convert("x", &preallocated).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let empty = CreateOptions::new(options.image, Some(1 << 20));
        let error = create(&path, &empty).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    assert_eq!(fs::read_dir(source.directory.path()).unwrap().count(), 1);
}

/// A stream has the bytes of the file, except for the zeroes in a plain qcow2 image.
#[test]
fn a_stream_is_the_file() {
    let source = Source::new((9 << 20) + 512, &mut Random::new(30));
    let mut all = all_formats();
    all.extend([options(NewImage::Raw), ConvertOptions::compressed()]);
    for options in all {
        let options = ConvertOptions {
            identity: Some("3c1e5a0e-9f5c-4a2b-8d3e-2f6a7b8c9d0e".parse().unwrap()),
            ..options
        };
        source.convert("disk.vmdk", &options).unwrap();
        let file = fs::read(source.path("disk.vmdk")).unwrap();
        let image = source.image();
        let spool = tempfile::tempdir().unwrap();
        let mut stream = Vec::new();
        let mut copied = 0;
        let mut progress = |len| {
            copied += len;
            ControlFlow::Continue(())
        };
        let (device, spool) = (image.device(), spool.path());
        let len = convert_to_stream(&*device, &mut stream, spool, &options, &mut progress);
        assert_eq!(len.unwrap(), file.len() as u64);
        assert!(stream == file, "{options:?}");
        assert_eq!(copied, source.bytes.len() as u64);
        assert_eq!(fs::read_dir(spool).unwrap().count(), 0);
        fs::remove_file(source.path("disk.vmdk")).unwrap();
    }
}

#[test]
fn a_plain_qcow2_image_needs_no_file_for_a_stream() {
    let nowhere = Path::new("/nonexistent");
    let mut seed = 32;
    for (cluster_size_bytes, refcount_bits) in [(512, 1), (4096, 64), (64 << 10, 16), (2 << 20, 8)]
    {
        for l2_entries in [L2Entries::Standard, L2Entries::Extended] {
            if l2_entries == L2Entries::Extended && cluster_size_bytes < 16 << 10 {
                continue;
            }
            seed += 1;
            let source = Source::new((9 << 20) + 512, &mut Random::new(seed));
            let options = options(NewImage::Qcow2(Box::new(NewQcow2 {
                cluster_size_bytes,
                refcount_bits,
                l2_entries,
                ..NewQcow2::default()
            })));
            assert!(options.is_stream());
            let mut copied = 0;
            let mut progress = |len| {
                copied += len;
                ControlFlow::Continue(())
            };
            let mut stream = Vec::new();
            let device = source.image().device();
            convert_to_stream(&*device, &mut stream, nowhere, &options, &mut progress).unwrap();
            assert_eq!(copied, source.bytes.len() as u64);
            fs::write(source.path("stream"), &stream).unwrap();
            let read = source.check("stream", Format::Qcow2);
            source.judge("stream", Format::Qcow2, &read);
        }
    }
}

/// A disk that has more data each time its map is read from the beginning.
#[derive(Debug)]
struct Growing(AtomicU64);

impl BlockRead for Growing {
    fn size_bytes(&self) -> u64 {
        8 << 20
    }

    fn read_at(&self, _: u64, buf: &mut [u8]) -> diskfs_block::Result<()> {
        buf.fill(1);
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> diskfs_block::Result<Extent> {
        if offset == 0 {
            self.0.fetch_add(1 << 20, Ordering::Relaxed);
        }
        let data_bytes = self.0.load(Ordering::Relaxed);
        let (kind, end) = if offset < data_bytes {
            (ExtentKind::Data, data_bytes)
        } else {
            (ExtentKind::Zero, self.size_bytes())
        };
        Ok(Extent {
            len_bytes: end - offset,
            kind,
        })
    }
}

#[test]
fn a_source_that_changes_is_no_stream() {
    let mut stream = Vec::new();
    let mut go_on = |_| ControlFlow::Continue(());
    let (device, options) = (Growing(AtomicU64::new(0)), ConvertOptions::default());
    let written = convert_to_stream(&device, &mut stream, Path::new("/"), &options, &mut go_on);
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn what_needs_a_file_is_not_written_to_a_stream() {
    let source = Source::new(1 << 20, &mut Random::new(31));
    let image = source.image();
    let data_file = NewQcow2 {
        data_file: Some(NewDataFile {
            name: "x".into(),
            layout: DataFileLayout::Raw,
        }),
        ..NewQcow2::default()
    };
    let backing = NewQcow2 {
        backing: Some(NewBacking {
            name: "x".into(),
            format: Format::Raw,
            check: BackingCheck::Skip,
        }),
        ..NewQcow2::default()
    };
    for options in [
        options(NewImage::Qcow2(Box::new(data_file))),
        options(NewImage::Qcow2(Box::new(backing))),
        ConvertOptions {
            preallocation: Preallocation::Full,
            ..ConvertOptions::default()
        },
        ConvertOptions {
            image: NewImage::Raw,
            ..ConvertOptions::compressed()
        },
    ] {
        let mut stream = Vec::new();
        let mut go_on = |_| ControlFlow::Continue(());
        let spool = source.directory.path();
        let written = convert_to_stream(&*image.device(), &mut stream, spool, &options, &mut go_on);
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Invalid);
        assert!(stream.is_empty());
    }
}
