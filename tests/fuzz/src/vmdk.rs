//! VMDK images.

use std::io::Read;
use std::sync::Arc;

use diskfs_block::{BlockRead, ImageMap, RunStorage, Slice};
use diskfs_vmdk::{Descriptor, StreamReader, StreamWriter, Vmdk, WriteOptions, compress_grain};

use crate::Sparse;

/// The maximum number of runs of a disk to visit: a hostile map can have one for each grain.
const MAX_RUNS: usize = 300;

/// The maximum number of grains to decompress: each has up to 8 MiB.
const MAX_GRAINS: usize = 20;

/// The maximum number of files that a descriptor gets.
const MAX_FILES: usize = 4;

/// The distance between the files of an input: the first one is the image.
const FILE_BYTES: u64 = 256 << 10;

/// Opens an input as an image: a whole file, or a descriptor with the files that it names, which
/// follow at whole multiples of [`FILE_BYTES`].
pub(crate) fn all(device: &Arc<dyn BlockRead>) {
    visit(device, true);
    in_order(&**device);
}

/// Reads an image without contents.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    visit(device, false);
}

fn visit(device: &Arc<dyn BlockRead>, contents: bool) {
    let text = part(device, 0);
    let whole = Vmdk::open(Arc::clone(device), &[]);
    if let Ok(disk) = whole {
        return read(&disk, contents);
    }
    let Ok(descriptor) = Descriptor::read(&*text) else {
        return;
    };
    let count = descriptor.extent_files().map_or(0, |it| it.len());
    if count > MAX_FILES {
        return;
    }
    let files: Vec<_> = (1..).take(count).map(|it| part(device, it)).collect();
    if let Ok(disk) = Vmdk::open(text, &files) {
        read(&disk, contents);
    }
}

/// Returns a file of the input; an empty one past its end.
fn part(device: &Arc<dyn BlockRead>, number: u64) -> Arc<dyn BlockRead> {
    let size_bytes = device.size_bytes();
    let start = (number * FILE_BYTES).min(size_bytes);
    let len_bytes = (size_bytes - start).min(FILE_BYTES);
    let slice = Slice::new(Arc::clone(device), start, len_bytes);
    Arc::new(slice.expect("it lies within the device"))
}

fn read(disk: &Vmdk, contents: bool) {
    let _ = disk.check(&mut |_, _| {});
    let size_bytes = disk.size_bytes();
    let _ = (disk.grain_bytes(), disk.is_compressed());
    let mut at = 0;
    let mut grains = 0;
    for _ in 0..MAX_RUNS {
        if at >= size_bytes {
            break;
        }
        let Ok(run) = disk.run_at(at, size_bytes - at) else {
            break;
        };
        assert!(run.len_bytes > 0 && run.len_bytes <= size_bytes - at);
        if let RunStorage::Compressed { unit, .. } = run.storage
            && contents
            && grains < MAX_GRAINS
        {
            grains += 1;
            let _ = disk.decompress(unit);
        }
        at += run.len_bytes;
    }
    for at in [size_bytes / 2, size_bytes.saturating_sub(1)] {
        let _ = disk.run_at(at, 1);
    }
}

/// Reads a stream in order.
fn in_order(device: &dyn BlockRead) {
    let Ok(mut reader) = StreamReader::new(Reader { device, at: 0 }) else {
        return;
    };
    for _ in 0..MAX_GRAINS {
        let Ok(Some(grain)) = reader.next_grain() else {
            break;
        };
        let _ = reader.decompress(&grain);
    }
}

/// The bytes of a device in order.
struct Reader<'a> {
    device: &'a dyn BlockRead,
    at: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = self.device.size_bytes() - self.at;
        let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.device.read_at(self.at, &mut buf[..len]);
        read.map_err(std::io::Error::other)?;
        self.at += len as u64;
        Ok(len)
    }
}

/// Returns an image of each kind of table.
pub(crate) fn seeds() -> [(&'static str, Sparse); 4] {
    let cowd = files("vmfsSparse", "RW 8192 VMFSSPARSE \"x\"", &cowd());
    let se_sparse = files("seSparse", "RW 32768 SESPARSE \"x\"", &se_sparse());
    [
        ("vmdk sparse", sparse()),
        ("vmdk stream", stream()),
        ("vmdk cowd", cowd),
        ("vmdk seSparse", se_sparse),
    ]
}

fn descriptor(create_type: &str, extent: &str) -> String {
    format!(
        "# Disk DescriptorFile\nversion=1\nCID=12345678\nparentCID=ffffffff\n\
         createType=\"{create_type}\"\n{extent}\nRW 9 ZERO\nddb.adapterType = \"ide\"\n"
    )
}

/// Returns a descriptor with one file.
fn files(create_type: &str, extent: &str, file: &Sparse) -> Sparse {
    let mut input = Sparse::zeroes(FILE_BYTES + file.size_bytes());
    input.write(0, descriptor(create_type, extent).as_bytes());
    for block in file.block_offsets() {
        let bytes: Vec<u8> = (block..block + 4096).map(|at| file.byte(at)).collect();
        input.write(FILE_BYTES + block, &bytes);
    }
    input
}

fn put32(file: &mut Sparse, at: u64, value: u32) {
    file.write(at, &value.to_le_bytes());
}

fn put64(file: &mut Sparse, at: u64, value: u64) {
    file.write(at, &value.to_le_bytes());
}

/// Builds a sparse image with a redundant directory, a grain, and a grain of zeroes.
fn sparse() -> Sparse {
    let mut file = Sparse::zeroes(64 << 10);
    file.write(0, b"KDMV\x02\0\0\0\x07");
    for (at, sectors) in [
        (12, 8000),
        (20, 8),
        (28, 1),
        (36, 8),
        (48, 9),
        (56, 30),
        (64, 40),
    ] {
        put64(&mut file, at, sectors);
    }
    put32(&mut file, 44, 512);
    file.write(73, b"\n \r\n");
    let text = descriptor("monolithicSparse", "").replace("RW 9 ZERO", "RW 8000 SPARSE \"x\"");
    file.write(512, text.as_bytes());
    for directory in [9, 30] {
        put32(
            &mut file,
            directory * 512,
            u32::try_from(directory + 1).unwrap_or(0),
        );
        for (number, entry) in (0..).zip([48, 1, 56, 64]) {
            put32(&mut file, (directory + 1) * 512 + number * 4, entry);
        }
    }
    file.write(48 * 512, &[7; 12 << 10]);
    file
}

fn stream() -> Sparse {
    let options = WriteOptions {
        capacity_bytes: 40 << 20,
        file_name: "disk.vmdk".to_owned(),
        content_id: 1,
        adapter_type: "ide".to_owned(),
        hardware_version: 4,
    };
    let mut writer = StreamWriter::new(Vec::new(), options).expect("valid options");
    for number in [0, 1, 5, 600] {
        let grain = compress_grain(&[7; 3000]).expect("a short grain");
        writer
            .write_grain(number, &grain)
            .expect("a grain in order");
    }
    let bytes = writer.finish().expect("a complete stream");
    let mut file = Sparse::zeroes(bytes.len() as u64);
    file.write(0, &bytes);
    file
}

/// Builds an extent with two tables and a few grains.
fn cowd() -> Sparse {
    let mut file = Sparse::zeroes(64 << 10);
    file.write(0, b"COWD");
    for (number, field) in (1..).zip([1, 3, 8192, 1, 4, 2]) {
        put32(&mut file, number * 4, field);
    }
    for (table, sector) in (0..).zip([5, 37]) {
        put32(&mut file, 4 * 512 + table * 4, sector);
        for (number, entry) in (0..).zip([100, 101, 0, 110]) {
            put32(&mut file, u64::from(sector) * 512 + number * 4, entry);
        }
    }
    file.write(100 * 512, &[7; 6000]);
    file
}

/// Builds an extent with one table and a few grains.
fn se_sparse() -> Sparse {
    let mut file = Sparse::zeroes(128 << 10);
    for (field, value) in [
        (0, 0xcafe_babe),
        (1, 0x2_0000_0001),
        (2, 32768),
        (3, 8),
        (4, 64),
        (10, 1),
        (11, 1),
        (16, 2),
        (17, 1),
        (18, 8),
        (19, 64),
        (24, 80),
        (25, 40),
    ] {
        put64(&mut file, field * 8, value);
    }
    put64(&mut file, 512, 0xcafe_cafe);
    put64(&mut file, 1024, 0x1000_0000_0000_0000);
    for (number, entry) in (0..).zip([0x3000, 0x3001, 0x2000, 0x1000, 0, 0x3002]) {
        put64(&mut file, 8 * 512 + number * 8, entry << 48);
    }
    file.write(80 * 512, &[7; 6000]);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the target would never get past the headers.
    #[test]
    fn the_seeds_are_opened() {
        for (name, seed) in seeds() {
            let device: Arc<dyn BlockRead> = Arc::new(seed);
            let text = part(&device, 0);
            let disk = match Vmdk::open(Arc::clone(&device), &[]) {
                Ok(disk) => Ok(disk),
                Err(_) => Vmdk::open(text, &[part(&device, 1)]),
            };
            let disk = disk.unwrap_or_else(|e| panic!("{name}: {e}"));
            let run = disk.run_at(0, 4096).unwrap();
            let is_data = matches!(
                run.storage,
                RunStorage::Stored { .. } | RunStorage::Compressed { .. }
            );
            assert!(is_data, "{name}");
        }
    }
}
