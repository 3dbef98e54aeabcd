//! Images of the formats that are only read, made and written at random by QEMU.

use std::path::Path;

use diskfs_block::{BlockRead, ErrorKind};
use diskfs_image::{Format, Image, MapEntry, OpenOptions, WritableImage};
use serde_json::Value;

use crate::tools::{Random, converted, have_qemu, number, run};

/// A kind of image that qemu-img makes.
struct Kind {
    format: Format,
    /// The options of `qemu-img create`.
    options: &'static str,
    /// The unit in which sizes are rounded, so that QEMU makes the size that it is told.
    unit: u64,
    /// True if `qemu-img map` shows where blocks are. It shows VHDX as one run of data.
    has_map: bool,
}

const fn kind(format: Format, options: &'static str) -> Kind {
    Kind {
        format,
        options,
        unit: 512,
        has_map: !matches!(format, Format::Vhdx),
    }
}

const KINDS: &[Kind] = &[
    kind(Format::Vdi, ""),
    kind(Format::Vdi, "static=on"),
    kind(Format::Vhd, "force_size=on"),
    kind(Format::Vhd, ""),
    kind(Format::Vhd, "subformat=fixed,force_size=on"),
    kind(Format::Vhd, "subformat=fixed"),
    kind(Format::Vhdx, "block_size=1M"),
    kind(Format::Vhdx, "block_size=4M,log_size=2M"),
    kind(Format::Vhdx, "subformat=fixed"),
    kind(Format::Vhdx, "block_state_zero=off"),
    kind(Format::Vmdk, ""),
    kind(Format::Vmdk, "zeroed_grain=on"),
    kind(Format::Vmdk, "subformat=monolithicFlat"),
    kind(Format::Vmdk, "subformat=twoGbMaxExtentSparse"),
    kind(Format::Vmdk, "subformat=twoGbMaxExtentFlat"),
    kind(Format::Qed, ""),
    kind(Format::Qed, "cluster_size=4K,table_size=2"),
    kind(Format::Parallels, ""),
    kind(Format::Parallels, "cluster_size=64K"),
    kind(Format::Qcow, ""),
];

fn options(format: Format) -> OpenOptions {
    OpenOptions {
        format: Some(format),
        ..OpenOptions::default()
    }
}

/// Writes random patterns and zeroes with qemu-io.
fn write(dir: &Path, format: Format, image: &str, size: u64, r: &mut Random) {
    let mut args = vec!["-f".to_owned(), format.qemu_name().to_owned()];
    for _ in 0..12 {
        let at = r.below(size / 512) * 512;
        let longest = r.one_of(&[512, 16 << 10, 700 << 10]);
        let len = ((r.below(longest) / 512 + 1) * 512).min(size - at);
        let pattern = r.below(255) + 1;
        let command = if r.one_in(5) {
            format!("write -z {at} {len}")
        } else {
            format!("write -P {pattern} {at} {len}")
        };
        args.extend(["-c".to_owned(), command]);
    }
    args.push(image.to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    run(dir, "qemu-io", &args);
}

/// Compares all bytes, and reads of odd ranges.
pub(crate) fn compare_bytes(device: &dyn BlockRead, expected: &[u8], seed: u64, case: &str) {
    assert_eq!(device.size_bytes(), expected.len() as u64, "size, {case}");
    let mut all = vec![0x5a; expected.len()];
    device.read_at(0, &mut all).unwrap();
    assert!(all == expected, "bytes differ, {case}");
    let mut r = Random::new(seed);
    for _ in 0..40 {
        let at = r.below(expected.len() as u64);
        let longest = r.one_of(&[16, 5000, 70_000, 3 << 20]);
        let len = (r.below(longest) + 1).min(expected.len() as u64 - at);
        let range = usize::try_from(at).unwrap()..usize::try_from(at + len).unwrap();
        if r.one_in(4) {
            device.will_need(at, len);
        }
        let mut buf = vec![0x5a; range.len()];
        device.read_at(at, &mut buf).unwrap();
        assert!(
            buf == expected[range],
            "bytes differ at {at} + {len}, {case}"
        );
    }
}

/// A run of a map: start, end, depth, present, zero, data, offset. What is not present has no
/// other properties: QEMU tells some formats' as zeroes, and others' not.
type MapRun = (u64, u64, u64, bool, bool, bool, Option<u64>);

fn merged(runs: Vec<MapRun>) -> Vec<MapRun> {
    let mut merged: Vec<MapRun> = Vec::new();
    for mut run in runs {
        if !run.3 {
            (run.2, run.4, run.5, run.6) = (0, true, false, None);
        }
        match merged.last_mut() {
            Some(last)
                if (last.2, last.3, last.4, last.5) == (run.2, run.3, run.4, run.5)
                    && last.6.map(|at| at + last.1 - last.0) == run.6 =>
            {
                last.1 = run.1;
            }
            _ => merged.push(run),
        }
    }
    merged
}

fn our_run(entry: &MapEntry) -> MapRun {
    (
        entry.start,
        entry.start + entry.len_bytes,
        entry.depth.into(),
        entry.present,
        entry.zero,
        entry.data,
        entry.host_offset,
    )
}

fn their_run(entry: &Value) -> MapRun {
    let number = |name: &str| entry[name].as_u64().unwrap();
    let flag = |name: &str| entry[name].as_bool().unwrap();
    (
        number("start"),
        number("start") + number("length"),
        number("depth"),
        flag("present"),
        flag("zero"),
        flag("data"),
        entry["offset"].as_u64(),
    )
}

fn compare_map(dir: &Path, format: Format, image: &str, case: &str) {
    std::fs::File::open(dir.join(image))
        .unwrap()
        .sync_all()
        .unwrap();
    let args = ["map", "--output=json", "-f", format.qemu_name(), image];
    let theirs: Vec<Value> = serde_json::from_str(&run(dir, "qemu-img", &args)).unwrap();
    let opened = Image::open(&dir.join(image), &options(format)).unwrap();
    let ours = opened.map().map(|entry| our_run(&entry.unwrap())).collect();
    let theirs = theirs.iter().map(their_run).collect();
    assert_eq!(merged(ours), merged(theirs), "map, {case}");
}

/// Checks that the runs of zeroes in the map are zeroes.
fn check_extents(device: &dyn BlockRead, bytes: &[u8]) {
    let mut at = 0;
    while at < device.size_bytes() {
        let extent = device.extent_at(at).unwrap();
        let end = at + extent.len_bytes;
        assert!(extent.len_bytes > 0 && end <= device.size_bytes());
        if extent.kind.reads_as_zeroes() {
            let range = usize::try_from(at).unwrap()..usize::try_from(end).unwrap();
            assert!(bytes[range].iter().all(|&b| b == 0), "zeroes at {at}");
        }
        at = end;
    }
}

fn create(dir: &Path, kind: &Kind, image: &str, size: u64) {
    let size = size.to_string();
    let mut args = vec!["create", "-q", "-f", kind.format.qemu_name()];
    if !kind.options.is_empty() {
        args.extend(["-o", kind.options]);
    }
    args.extend([image, &size]);
    run(dir, "qemu-img", &args);
}

#[test]
fn every_format_reads_as_qemu_reads_it() {
    if !have_qemu() {
        return;
    }
    let rounds = number("DISKFS_QEMU_ROUNDS", 1);
    let seed = number("DISKFS_QEMU_SEED", 1);
    for (n, kind) in KINDS.iter().enumerate() {
        for round in 0..rounds {
            let seed = seed + round * 1000 + n as u64;
            let dir = tempfile::tempdir().unwrap();
            let mut r = Random::new(seed);
            let size = (r.below(8 << 20) / kind.unit + 4096) * kind.unit;
            create(dir.path(), kind, "disk", size);
            let theirs = converted(dir.path(), "disk", &["-f", kind.format.qemu_name()]);
            let size = theirs.expect("qemu-img reads it").len() as u64;
            write(dir.path(), kind.format, "disk", size, &mut r);
            let theirs = converted(dir.path(), "disk", &["-f", kind.format.qemu_name()]);
            let theirs = theirs.expect("qemu-img reads it");
            let image = Image::open(&dir.path().join("disk"), &options(kind.format)).unwrap();
            assert_eq!(image.description().format, Some(kind.format));
            let case = format!("{} {} seed {seed}", kind.format, kind.options);
            compare_bytes(image.device().as_ref(), &theirs, seed, &case);
            check_extents(image.device().as_ref(), &theirs);
            if kind.has_map {
                compare_map(dir.path(), kind.format, "disk", &case);
            }
        }
    }
}

/// Formats are probed by their first bytes; only a fixed VHD has none.
#[test]
fn formats_are_probed_where_qemu_probes_them() {
    if !have_qemu() {
        return;
    }
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path(), kind, "disk.vhd", 4 << 20);
        let image = Image::open(&dir.path().join("disk.vhd"), &OpenOptions::default()).unwrap();
        let description = image.description();
        if kind.options.starts_with("subformat=fixed") && kind.format == Format::Vhd {
            assert_eq!(description.format, Some(Format::Raw));
            assert!(description.warnings[0].contains("format=vhd"));
        } else {
            assert_eq!(description.format, Some(kind.format));
            assert!(description.probed && description.mapped.is_some());
        }
    }
}

#[test]
fn compressed_clusters_of_version_1() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    run(
        dir.path(),
        "qemu-img",
        &["create", "-q", "-f", "qcow", "disk", "3M"],
    );
    let mut args = vec!["-f".to_owned(), "qcow".to_owned()];
    for n in (0..700).step_by(3) {
        args.push("-c".to_owned());
        args.push(format!("write -c -P {} {} 4k", n % 255 + 1, n * 4096));
    }
    args.push("disk".to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    run(dir.path(), "qemu-io", &args);
    let bytes = converted(dir.path(), "disk", &[]).unwrap();
    let image = Image::open(&dir.path().join("disk"), &OpenOptions::default()).unwrap();
    assert_eq!(image.description().format, Some(Format::Qcow));
    assert!(image.map().any(|entry| entry.unwrap().compressed));
    compare_bytes(image.device().as_ref(), &bytes, 3, "qcow");
}

/// qcow and QED have backing files; of their formats only "raw" is stored, and only by QED.
#[test]
fn backing_files_of_qcow_and_qed() {
    if !have_qemu() {
        return;
    }
    for format in [Format::Qcow, Format::Qed] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("base.img"), vec![7; 3 << 20]).unwrap();
        let args = [
            "create",
            "-q",
            "-f",
            format.qemu_name(),
            "-b",
            "base.img",
            "-F",
            "raw",
        ];
        run(
            dir.path(),
            "qemu-img",
            &[&args[..], &["disk", "5M"]].concat(),
        );
        write(dir.path(), format, "disk", 5 << 20, &mut Random::new(5));
        let theirs = converted(dir.path(), "disk", &[]).unwrap();
        let image = Image::open(&dir.path().join("disk"), &OpenOptions::default()).unwrap();
        compare_bytes(image.device().as_ref(), &theirs, 4, format.name());
        compare_map(dir.path(), format, "disk", "backing file");
        let warnings = &image.description().warnings;
        assert_eq!(
            warnings.len(),
            usize::from(format == Format::Qcow),
            "{warnings:?}"
        );
        let backing = image.backing().unwrap();
        assert_eq!(backing.description().format, Some(Format::Raw));
    }
}

/// An overlay can be made of every format, with the name that QEMU gives it.
#[test]
fn overlays_of_other_formats() {
    if !have_qemu() {
        return;
    }
    let named = KINDS.iter().filter(|kind| kind.options.is_empty());
    for kind in named.chain([&kind(Format::Vhdx, "block_size=1M")]) {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path(), kind, "base", 4 << 20);
        let size = converted(dir.path(), "base", &[]).unwrap().len() as u64;
        write(dir.path(), kind.format, "base", size, &mut Random::new(9));
        let name = kind.format.qemu_name();
        let args = [
            "create",
            "-q",
            "-f",
            "qcow2",
            "-b",
            "base",
            "-F",
            name,
            "disk.qcow2",
        ];
        run(dir.path(), "qemu-img", &args);
        write(
            dir.path(),
            Format::Qcow2,
            "disk.qcow2",
            size,
            &mut Random::new(10),
        );
        let theirs = converted(dir.path(), "disk.qcow2", &[]).unwrap();
        let image = Image::open(&dir.path().join("disk.qcow2"), &OpenOptions::default()).unwrap();
        compare_bytes(image.device().as_ref(), &theirs, 5, name);
    }
}

#[test]
fn no_other_format_is_written() {
    if !have_qemu() {
        return;
    }
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path(), kind, "disk", 4 << 20);
        let path = dir.path().join("disk");
        let before = std::fs::read(&path).unwrap();
        let e = WritableImage::open(&path, &options(kind.format)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::ReadOnly);
        let text = e.to_string();
        let format = kind.format;
        assert!(
            text.contains(&format!("cannot write to a {format} image")),
            "{text}"
        );
        assert!(
            text.contains("--overlay FILE") && text.contains("diskfs convert"),
            "{text}"
        );
        assert!(std::fs::read(&path).unwrap() == before);
    }
}
