//! Images that we write, with the bytes that QEMU and we read of them.

mod tools;

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockWrite, ErrorKind, File, ImageMap};
use diskfs_fixtures::{Random, have};
use diskfs_vmdk::{
    CreateType, GRAIN_BYTES, GrainCompressor, SparseWriter, StreamReader, StreamWriter,
    WriteOptions, compress_grain,
};
use tools::{Disk, contents, memory, run};

const GRAIN: usize = 64 << 10;

/// One sector, an odd number, a whole grain, several grain tables with a part of a grain.
const SIZES: [u64; 4] = [512, 512 * 77, 64 << 10, (34 << 20) + 512 * 3];

fn options(capacity_bytes: u64) -> WriteOptions {
    WriteOptions {
        capacity_bytes,
        file_name: "disk.vmdk".to_owned(),
        content_id: 0x1234_abcd,
        adapter_type: "lsilogic".to_owned(),
        hardware_version: 4,
    }
}

fn is_zero(grain: &[u8]) -> bool {
    grain.iter().all(|byte| *byte == 0)
}

fn stream(bytes: &[u8]) -> Vec<u8> {
    let mut writer = StreamWriter::new(Vec::new(), options(bytes.len() as u64)).unwrap();
    let mut compressor = GrainCompressor::default();
    for (number, grain) in (0..).zip(bytes.chunks(GRAIN)) {
        if !is_zero(grain) {
            let compressed = compressor.compress(grain).unwrap();
            writer.write_grain(number, &compressed).unwrap();
        }
    }
    writer.finish().unwrap()
}

/// Writes a sparse image in pieces that come in any order.
fn sparse(path: &Path, bytes: &[u8], random: &mut Random) {
    std::fs::write(path, []).unwrap();
    let file: Arc<dyn BlockWrite> = Arc::new(File::open_read_write(path).unwrap());
    let writer = SparseWriter::new(file, options(bytes.len() as u64)).unwrap();
    let mut pieces: Vec<_> = (0..)
        .step_by(GRAIN * 5)
        .zip(bytes.chunks(GRAIN * 5))
        .collect();
    while !pieces.is_empty() {
        let piece = usize::try_from(random.below(pieces.len() as u64)).unwrap();
        let (offset, piece) = pieces.swap_remove(piece);
        writer.write_at(offset, piece).unwrap();
    }
    writer.finish().unwrap();
}

/// Has QEMU check an image, and compare its bytes.
fn check_with_qemu(dir: &Path, bytes: &[u8]) {
    std::fs::write(dir.join("source.raw"), bytes).unwrap();
    run(dir, "qemu-img", &["check", "-q", "-f", "vmdk", "disk.vmdk"]);
    let formats = ["compare", "-f", "raw", "-F", "vmdk"];
    run(
        dir,
        "qemu-img",
        &[&formats[..], &["source.raw", "disk.vmdk"]].concat(),
    );
    let args = [
        "convert",
        "-q",
        "-f",
        "vmdk",
        "-O",
        "raw",
        "disk.vmdk",
        "back.raw",
    ];
    run(dir, "qemu-img", &args);
    assert!(std::fs::read(dir.join("back.raw")).unwrap() == bytes);
}

#[test]
fn streams_are_read_back() {
    let mut random = Random::new(11);
    for size in SIZES {
        let bytes = contents(size, &mut random);
        let written = stream(&bytes);
        assert!(written == stream(&bytes), "the same bytes again");
        let disk = Disk::new(memory(&*written), Vec::new()).unwrap();
        assert_eq!(
            disk.map.descriptor().create_type,
            CreateType::StreamOptimized
        );
        assert_eq!(disk.map.descriptor().cid, 0x1234_abcd);
        assert_eq!(disk.map.descriptor().adapter_type(), Some("lsilogic"));
        assert!(disk.map.is_compressed());
        assert!(disk.bytes().unwrap() == bytes);
        if have(&["qemu-img"]) {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("disk.vmdk"), &written).unwrap();
            check_with_qemu(dir.path(), &bytes);
        }
    }
}

fn read_in_order(stream: &[u8]) -> diskfs_block::Result<Vec<u8>> {
    let mut reader = StreamReader::new(stream)?;
    assert_eq!(reader.grain_bytes(), GRAIN_BYTES);
    let mut bytes = vec![0; usize::try_from(reader.size_bytes()).unwrap()];
    while let Some(grain) = reader.next_grain()? {
        let data = reader.decompress(&grain)?;
        let at = usize::try_from(grain.offset).unwrap();
        bytes[at..at + data.len()].copy_from_slice(&data);
    }
    assert_eq!(reader.next_grain()?, None);
    Ok(bytes)
}

#[test]
fn streams_are_read_in_order() {
    let bytes = contents((40 << 20) + 512, &mut Random::new(12));
    let mut written = stream(&bytes);
    // What follows the end of the stream is not read.
    written.extend(b"something else");
    assert!(read_in_order(&written).unwrap() == bytes);
    for len in [0, 100, 600, 20_000, written.len() / 2, written.len() - 600] {
        let e = read_in_order(&written[..len]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{len}");
    }
    let mut reader = StreamReader::new(&written[..70_000]).unwrap();
    while let Ok(Some(_)) = reader.next_grain() {}
    assert_eq!(
        reader.next_grain().unwrap(),
        None,
        "nothing follows an error"
    );
    if have(&["qemu-img"]) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("source.raw"), &bytes).unwrap();
        let option = "subformat=streamOptimized";
        let args = ["convert", "-q", "-f", "raw", "-O", "vmdk", "-o", option];
        let args = [&args[..], &["source.raw", "disk.vmdk"]].concat();
        run(dir.path(), "qemu-img", &args);
        let made = std::fs::read(dir.path().join("disk.vmdk")).unwrap();
        assert!(read_in_order(&made).unwrap() == bytes);
    }
}

#[test]
fn a_truncated_stream_is_corrupt() {
    let written = stream(&contents(1 << 20, &mut Random::new(13)));
    for len in [
        0,
        512,
        20_000,
        70_000,
        written.len() - 512,
        written.len() - 1,
    ] {
        let e = Disk::new(memory(&written[..len]), Vec::new())
            .err()
            .expect("an error");
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{len}: {e}");
    }
    let e = Disk::new(memory(&written[..70_000]), Vec::new())
        .err()
        .unwrap();
    assert!(e.to_string().contains("the file is truncated"), "{e}");
}

#[test]
fn sparse_images_are_read_back() {
    let mut random = Random::new(14);
    for size in SIZES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.vmdk");
        let bytes = contents(size, &mut random);
        sparse(&path, &bytes, &mut random);
        let disk = Disk::open(dir.path(), "disk.vmdk");
        assert_eq!(
            disk.map.descriptor().create_type,
            CreateType::MonolithicSparse
        );
        assert_eq!(disk.map.grain_bytes(), Some(GRAIN_BYTES));
        assert!(disk.bytes().unwrap() == bytes);
        let grains = bytes.chunks(GRAIN).filter(|grain| !is_zero(grain)).count();
        let file_bytes = std::fs::metadata(&path).unwrap().len();
        let tables = size.div_ceil(32 << 20) * 4096 + (128 << 10);
        assert!(
            file_bytes <= (grains * GRAIN) as u64 + tables,
            "zeroes are left out"
        );
        if have(&["qemu-img"]) {
            check_with_qemu(dir.path(), &bytes);
        }
    }
}

#[test]
fn qemu_writes_to_our_images() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new(16);
    let bytes = contents((34 << 20) + 512, &mut random);
    sparse(&dir.path().join("disk.vmdk"), &bytes, &mut random);
    tools::fill(dir.path(), "disk.vmdk", bytes.len() as u64, &mut random);
    run(
        dir.path(),
        "qemu-img",
        &["check", "-q", "-f", "vmdk", "disk.vmdk"],
    );
    tools::compare(dir.path(), "disk.vmdk");
    assert!(Disk::open(dir.path(), "disk.vmdk").bytes().unwrap() != bytes);
}

#[test]
fn grains_can_be_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.vmdk");
    std::fs::write(&path, []).unwrap();
    let file: Arc<dyn BlockWrite> = Arc::new(File::open_read_write(&path).unwrap());
    let writer = SparseWriter::new(file, options(300 << 10)).unwrap();
    writer.write_at(64 << 10, &vec![7; 3 * GRAIN]).unwrap();
    writer.write_at(128 << 10, &vec![0; GRAIN]).unwrap();
    writer.write_at(256 << 10, &vec![9; 44 << 10]).unwrap();
    for (offset, len) in [(1, GRAIN), (0, 100), (0, GRAIN + 1)] {
        let e = writer.write_at(offset, &vec![1; len]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid);
    }
    assert!(writer.write_at(256 << 10, &vec![1; GRAIN]).is_err());
    // No image is there yet.
    assert!(diskfs_vmdk::Descriptor::read(&*tools::file(&path)).is_err());
    writer.finish().unwrap();
    let bytes = Disk::open(dir.path(), "disk.vmdk").bytes().unwrap();
    let mut expected = vec![0; 300 << 10];
    expected[GRAIN..2 * GRAIN].fill(7);
    expected[3 * GRAIN..4 * GRAIN].fill(7);
    expected[4 * GRAIN..].fill(9);
    assert!(bytes == expected);
}

#[test]
fn several_threads_write_one_image() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.vmdk");
    std::fs::write(&path, []).unwrap();
    let bytes = contents(20 << 20, &mut Random::new(15));
    let file: Arc<dyn BlockWrite> = Arc::new(File::open_read_write(&path).unwrap());
    let writer = SparseWriter::new(file, options(bytes.len() as u64)).unwrap();
    std::thread::scope(|scope| {
        for (number, part) in (0..).zip(bytes.chunks(5 << 20)) {
            let writer = &writer;
            scope.spawn(move || {
                for (piece, data) in (0..).zip(part.chunks(GRAIN)) {
                    let offset = number * (5 << 20) + piece * GRAIN_BYTES;
                    writer.write_at(offset, data).unwrap();
                }
            });
        }
    });
    writer.finish().unwrap();
    assert!(Disk::open(dir.path(), "disk.vmdk").bytes().unwrap() == bytes);
}

#[test]
fn writers_refuse_what_no_reader_accepts() {
    let kind = |options| StreamWriter::new(Vec::new(), options).unwrap_err().kind();
    assert_eq!(kind(options(511)), ErrorKind::Invalid);
    assert_eq!(kind(options(65 << 40)), ErrorKind::Invalid);
    for name in ["", "a\"b", "a\nb"] {
        let options = WriteOptions {
            file_name: name.to_owned(),
            ..options(512)
        };
        assert_eq!(kind(options), ErrorKind::Invalid, "{name:?}");
    }
    let mut writer = StreamWriter::new(Vec::new(), options(200 << 10)).unwrap();
    let grain = compress_grain(&[1; 100]).unwrap();
    assert!(writer.write_grain(4, &grain).is_err());
    assert!(writer.write_grain(0, &[]).is_err());
    assert!(writer.write_grain(0, &vec![0; 200_000]).is_err());
    writer.write_grain(2, &grain).unwrap();
    assert!(writer.write_grain(2, &grain).is_err());
    assert!(writer.write_grain(1, &grain).is_err());
    assert!(compress_grain(&vec![0; GRAIN + 1]).is_err());
    let disk = Disk::new(memory(writer.finish().unwrap()), Vec::new()).unwrap();
    assert_eq!(disk.map.size_bytes(), 200 << 10);
    assert_eq!(
        disk.bytes().unwrap()[128 << 10..][..101],
        [[1; 100].as_slice(), &[0]].concat()
    );
}
