//! Images of the formats that are only read.

use std::io::Read;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ImageLayout, Overlay, Result};
use diskfs_compressed::Streams;
use diskfs_image::{Format, Gate, Image, OpenOptions};
use diskfs_vdi::{DiskIds, ImageType, VdiLayout, VdiOptions};
use diskfs_vhd::{SizeRule, VhdLayout, VhdOptions};
use diskfs_vhdx::{VhdxLayout, VhdxOptions};
use uuid::Uuid;

use crate::{Sparse, image};

/// The maximum size of the changes to a mutated image in memory: all structures with checksums.
const SEALED_BYTES: u64 = 4 << 20;
/// The offsets of structures of a VHDX with a checksum at byte 4, and their lengths.
const VHDX_STRUCTURES: [(u64, usize); 5] = [
    (64 << 10, 4096),
    (128 << 10, 4096),
    (192 << 10, 64 << 10),
    (256 << 10, 64 << 10),
    // The first entry of the seed's log.
    (LOG_AT, 8192),
];
/// The most bytes to decompress of a compressed file.
const UNPACKED_BYTES: u64 = 1 << 20;
/// The offset of the log of a VHDX in the seed.
const LOG_AT: u64 = 1 << 20;

/// Opens an image with corrected checksums, which mutations never hit, in each format, reads its
/// contents, and checks its tables.
pub(crate) fn all(device: &Arc<dyn BlockRead>) {
    visit(device, |image| {
        image::read(image);
        let _ = image.check();
    });
}

/// Opens an image in each format and reads its map.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    visit(device, |image| {
        let _ = image.map().take(300).count();
    });
}

/// Returns the image with corrected checksums.
pub(crate) fn sealed(device: &Arc<dyn BlockRead>) -> Arc<dyn BlockRead> {
    let sealed = Arc::new(Overlay::in_memory(Arc::clone(device), SEALED_BYTES));
    // Structures that are outside of the device cannot be sealed.
    let _ = seal(&*sealed);
    sealed
}

fn visit(device: &Arc<dyn BlockRead>, look: impl Fn(&Image)) {
    let sealed = sealed(device);
    let _ = DiskIds::read(&*sealed);
    unpack(&*sealed);
    for format in Format::ALL {
        if format.is_writable() {
            continue;
        }
        let options = OpenOptions {
            format: Some(format),
            gate: Gate::closed(),
            ..OpenOptions::default()
        };
        if let Ok(image) = Image::from_device(Arc::clone(&sealed), &options) {
            look(&image);
        }
    }
}

/// Decompresses the start of a file that is compressed in any format.
fn unpack(device: &dyn BlockRead) {
    let len_bytes = device.size_bytes().min(UNPACKED_BYTES);
    let mut packed = vec![0; usize::try_from(len_bytes).unwrap_or(0)];
    if device.read_at(0, &mut packed).is_err() {
        return;
    }
    for streams in [Streams::First, Streams::All] {
        if let Ok(Some(stream)) = diskfs_compressed::stream(&packed[..], streams) {
            let _ = std::io::copy(&mut stream.take(UNPACKED_BYTES), &mut std::io::sink());
        }
    }
}

fn seal(device: &dyn BlockWrite) -> Result<()> {
    let mut start = [0; 8];
    device.read_at(0, &mut start)?;
    if &start == b"vhdxfile" {
        for (at, len) in VHDX_STRUCTURES {
            let mut bytes = vec![0; len];
            device.read_at(at, &mut bytes)?;
            bytes[4..8].fill(0);
            device.write_at(at + 4, &crc32c::crc32c(&bytes).to_le_bytes())?;
        }
    }
    if &start == b"conectix" {
        seal_vhd(device, 0, 512, 64)?;
        seal_vhd(device, 512, 1024, 36)?;
    }
    if start.starts_with(b"\xfd7zXZ") {
        seal_xz(device)?;
    }
    let end = device.size_bytes().saturating_sub(512);
    device.read_at(end, &mut start)?;
    if &start == b"conectix" {
        seal_vhd(device, end, 512, 64)?;
    }
    Ok(())
}

/// Corrects the checksums of the index and of the footer of a stream of xz.
fn seal_xz(device: &dyn BlockWrite) -> Result<()> {
    let footer_at = device.size_bytes().saturating_sub(12);
    let mut footer = [0; 12];
    device.read_at(footer_at, &mut footer)?;
    device.write_at(footer_at, &crc32fast::hash(&footer[4..10]).to_le_bytes())?;
    let words = u64::from(footer[4]) + u64::from(footer[5]) * 256;
    let mut index = vec![0; usize::try_from(words * 4).unwrap_or(0)];
    let index_at = footer_at.saturating_sub(words * 4 + 4);
    device.read_at(index_at, &mut index)?;
    device.write_at(index_at + words * 4, &crc32fast::hash(&index).to_le_bytes())
}

/// Corrects the checksum of a structure of a VHD.
fn seal_vhd(device: &dyn BlockWrite, at: u64, len: usize, field: usize) -> Result<()> {
    let mut bytes = vec![0; len];
    device.read_at(at, &mut bytes)?;
    bytes[field..field + 4].fill(0);
    let sum: u32 = bytes.iter().map(|byte| u32::from(*byte)).sum();
    device.write_at(at + field as u64, &(!sum).to_be_bytes())
}

/// A structure: its place and its bytes.
type Part<'a> = (u64, &'a [u8]);

/// Returns a small image of each format.
pub(crate) fn seeds() -> impl Iterator<Item = (&'static str, Sparse)> {
    let vdi: &[Part<'_>] = &[
        (0x40, b"\x7f\x10\xda\xbe\x01\0\x01\0\x90\x01\0\0\x01"),
        (0x154, b"\0\x02\0\0\0\x04\0\0"),
        (
            0x168,
            b"\0\x02\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\x04",
        ),
        (512, b"\0\0\0\0\xff\xff\xff\xff\xfe\xff\xff\xff\x01\0\0\0"),
    ];
    let mut vdi_child = vdi.to_vec();
    vdi_child.push((0x4c, b"\x04"));
    vdi_child.push((0x1a8, b"uuid of a parent"));
    let footer: &[Part<'_>] = &[
        (
            0,
            b"conectix\0\0\0\x02\0\x01\0\0\0\0\0\0\0\0\x02\0\0\0\0\0win ",
        ),
        (54, b"\x40"),
        (60, b"\0\0\0\x03"),
    ];
    let header: &[Part<'_>] = &[
        (512, b"cxsparse"),
        (512 + 22, b"\x06\0\0\x01\0\0\0\0\0\x04\0\0\x10"),
        (
            1536,
            b"\0\0\0\x04\xff\xff\xff\xff\0\0\0\x0d\xff\xff\xff\xff",
        ),
    ];
    let vhd = [footer, header].concat();
    let mut child = vhd.clone();
    child.push((63, b"\x04"));
    child.push((
        512 + 576,
        b"W2ru\0\0\0\x01\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\x10\0",
    ));
    child.push((4096, b"x\0y\0"));
    let qed: &[Part<'_>] = &[
        (0, b"QED\0\0\x10\0\0\x01\0\0\0\x01"),
        (40, b"\0\x10\0\0\0\0\0\0\0\x40\0\0"),
        (4096, b"\0\x20\0\0"),
        (8192, b"\0\x30\0\0\0\0\0\0\x01"),
    ];
    let parallels: &[Part<'_>] = &[
        (0, b"WithouFreSpacExt\x02"),
        (28, b"\x08\0\0\0\x04\0\0\0\x20"),
        (64, b"\x01\0\0\0\0\0\0\0\x02"),
    ];
    let qcow: &[Part<'_>] = &[
        (0, b"QFI\xfb\0\0\0\x01"),
        (28, b"\0\0\x40\0\x09\x06"),
        (46, b"\x02"),
        (518, b"\x04"),
        (1030, b"\x06\0\0\0\0\0\0\0\0\0\xff\xc0\0\0\0\0\x08"),
        (2048, b"\x01\0\x02\xff\xfd"),
    ];
    let seeds = [
        ("vdi", 20 << 10, vdi.to_vec()),
        ("vdi with a parent", 20 << 10, vdi_child),
        ("vhd", 20 << 10, vhd),
        ("vhd with a parent", 20 << 10, child),
        ("qed", 16 << 10, qed.to_vec()),
        ("parallels", 16 << 10, parallels.to_vec()),
        ("qcow", 8 << 10, qcow.to_vec()),
    ];
    let made = seeds.into_iter().map(|(name, size_bytes, parts)| {
        let mut image = Sparse::zeroes(size_bytes);
        for (at, bytes) in parts {
            image.write(at, bytes);
        }
        (name, image)
    });
    made.collect::<Vec<_>>()
        .into_iter()
        .chain([
            ("vhdx", vhdx()),
            ("vhdx with a parent", vhdx_with_parent()),
            ("dmg", dmg()),
        ])
        .chain(written())
        .chain(compressed())
}

/// Returns disks of two blocks, as our own writers make them.
fn written() -> Vec<(&'static str, Sparse)> {
    const DISK_BYTES: u64 = 20 << 20;
    let ids = [1, 2, 3].map(Uuid::from_u128);
    let vhd = |size_rule, is_fixed| {
        VhdLayout::new(&VhdOptions {
            size_bytes: DISK_BYTES,
            size_rule,
            is_fixed,
            id: ids[0],
            created: 0,
        })
    };
    let vdi = |image_type| {
        VdiLayout::new(VdiOptions {
            size_bytes: DISK_BYTES,
            image_type,
            id: ids[0],
            contents_id: ids[1],
        })
    };
    let vhdx = |is_fixed| {
        VhdxLayout::new(&VhdxOptions {
            size_bytes: DISK_BYTES,
            is_fixed,
            block_bytes: None,
            log_bytes: 1 << 20,
            ids,
        })
    };
    [
        ("vhd, dynamic", boxed(vhd(SizeRule::Geometry, false))),
        ("vhd, fixed", boxed(vhd(SizeRule::Exact, true))),
        ("vdi, dynamic", boxed(vdi(ImageType::Dynamic))),
        ("vdi, static", boxed(vdi(ImageType::Static))),
        ("vhdx, dynamic", boxed(vhdx(false))),
        ("vhdx, fixed", boxed(vhdx(true))),
    ]
    .into_iter()
    .map(|(name, mut layout)| {
        (
            name,
            write(&mut *layout).expect("a sparse image is writable"),
        )
    })
    .collect()
}

fn boxed(layout: Result<impl ImageLayout + 'static>) -> Box<dyn ImageLayout> {
    Box::new(layout.expect("the options are valid"))
}

/// Writes an image with some data in its first and in its last block.
fn write(layout: &mut dyn ImageLayout) -> Result<Sparse> {
    let mut image = Sparse::zeroes(64 << 20);
    for offset in [0, layout.size_bytes() - 512] {
        let at = layout.place(offset, &mut |at, bytes| {
            image.write(at, bytes);
            Ok(())
        })?;
        image.write(at, b"data");
    }
    let end = layout.finish(&mut |at, bytes| {
        image.write(at, bytes);
        Ok(())
    })?;
    image.set_len(end);
    Ok(image)
}

/// The GUIDs of the table, the metadata, and the metadata items, as stored.
const GUIDS: [&[u8; 16]; 5] = [
    b"\x66\x77\xc2\x2d\x23\xf6\x00\x42\x9d\x64\x11\x5e\x9b\xfd\x4a\x08",
    b"\x06\xa2\x7c\x8b\x90\x47\x9a\x4b\xb8\xfe\x57\x5f\x05\x0f\x88\x6e",
    b"\x37\x67\xa1\xca\x36\xfa\x43\x4d\xb3\xb6\x33\xf0\xaa\x44\xe7\x6b",
    b"\x24\x42\xa5\x2f\x1b\xcd\x76\x48\xb2\x11\x5d\xbe\xd8\x3b\xf4\xb8",
    b"\x1d\xbf\x41\x81\x6f\xa9\x09\x47\xba\x47\xf2\x33\xa8\xfa\xab\x5f",
];

/// Returns a disk of two blocks with a log of one entry, which has the table.
fn vhdx() -> Sparse {
    let mut image = Sparse::zeroes(6 << 20);
    image.write(0, b"vhdxfile");
    for at in [64 << 10, 128 << 10] {
        image.write(at, b"head");
        image.write(at + 48, &[7; 16]);
        image.write(at + 66, b"\x01\0\0\0\x10\0\0\0\x10");
    }
    for at in [192 << 10, 256 << 10] {
        image.write(at, b"regi\0\0\0\0\x02");
        for (n, guid) in (0_u64..).zip(&GUIDS[..2]) {
            let entry = at + 16 + n * 32;
            image.write(entry, *guid);
            image.write(entry + 18, &[0x20 + u8::try_from(n).unwrap_or(0) * 0x10]);
            image.write(entry + 26, &[0x10, 0, 1]);
        }
    }
    image.write(3 << 20, b"metadata\0\0\x03");
    let items: [&[u8]; 3] = [b"\0\0\x10\0\0\0\0\0", b"\0\0\x20\0\0\0\0\0", b"\0\x02\0\0"];
    for (n, (guid, item)) in (0_u64..).zip(GUIDS[2..].iter().zip(items)) {
        let entry = (3 << 20) + 32 + n * 32;
        image.write(entry, *guid);
        image.write(entry + 16, &[u8::try_from(n).unwrap_or(0) * 32, 0, 1]);
        image.write(entry + 20, &[u8::try_from(item.len()).unwrap_or(0)]);
        image.write((3 << 20) + (64 << 10) + n * 32, item);
    }
    image.write(
        LOG_AT,
        b"loge\0\0\0\0\0\x20\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01",
    );
    image.write(LOG_AT + 32, &[7; 16]);
    image.write(
        LOG_AT + 64,
        b"desc\0\0\0\0\x06\0\x40\0\0\0\0\0\0\0\x20\0\0\0\0\0\x01",
    );
    image.write(LOG_AT + 4096, b"data\0\0\0\0\x06\0\x50");
    image.write(LOG_AT + 8188, b"\x01");
    image
}

/// Returns a disk whose blocks can be those of a parent.
fn vhdx_with_parent() -> Sparse {
    const LOCATOR: &[u8; 16] = b"\x2d\x5f\xd3\xa8\x0b\xb3\x4d\x45\xab\xf7\xd3\xd8\x48\x34\xab\x0c";
    const KIND: &[u8; 16] = b"\xb7\xef\x4a\xb0\x9e\xd1\x81\x4a\xb7\x89\x25\xb8\xe9\x44\x59\x13";
    let mut image = vhdx();
    let (table, items) = (3 << 20, (3 << 20) + (64 << 10));
    // Four items; the parameters say that there is a parent.
    image.write(table + 10, b"\x04");
    image.write(items + 4, b"\x02");
    image.write(table + 32 + 3 * 32, LOCATOR);
    image.write(table + 32 + 3 * 32 + 16, b"\0\x10\x01\0\0\x02");
    let mut locator = [&KIND[..], b"\0\0\x02\0"].concat();
    let pairs = [
        "parent_linkage",
        "{01020304-0506-0708-090a-0b0c0d0e0f10}",
        "relative_path",
        "base",
    ];
    let texts = pairs.map(|text| {
        text.encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<_>>()
    });
    let mut at = 20 + 2 * 12;
    for pair in texts.chunks(2) {
        let lengths = pair
            .iter()
            .map(|text| u16::try_from(text.len()).unwrap_or(0));
        for text in pair {
            locator.extend(u32::try_from(at).unwrap_or(0).to_le_bytes());
            at += text.len();
        }
        locator.extend(lengths.flat_map(u16::to_le_bytes));
    }
    locator.extend(texts.concat());
    image.write(items + 0x1000, &locator);
    image
}

/// Returns a disk of a raw chunk and a compressed one.
fn dmg() -> Sparse {
    let mut table = b"mish".to_vec();
    table.resize(204, 0);
    table[203] = 3;
    for (kind, sector, offset, len) in [
        (1, 0, 0, 1024),
        (0, 2, 0, 0),
        (0x8000_0005_u32, 4, 1024, 20),
    ] {
        table.extend(kind.to_be_bytes());
        table.extend([0; 4]);
        for value in [sector, 2_u64, offset, len] {
            table.extend(value.to_be_bytes());
        }
    }
    let list = format!(
        "<plist><key>blkx</key><array><key>Data</key><data>{}</data></array></plist>",
        base64(&table)
    );
    let mut image = Sparse::zeroes(4096);
    // An empty stream of zlib.
    image.write(1024, b"\x78\x9c\x03\0\0\0\0\x01");
    image.write(1536, list.as_bytes());
    image.write(3584, b"koly\0\0\0\x04");
    image.write(3584 + 216, &1536_u64.to_be_bytes());
    image.write(3584 + 224, &(list.len() as u64).to_be_bytes());
    image
}

/// A file of three blocks, as `xz -0 --check=crc32 --block-size=3000` makes it.
const XZ: &[u8] = b"\xfd7zXZ\0\0\x01\x69\x22\xde\x36\
    \x02\0\x21\x01\x0c\0\0\0\x8f\x98\x41\x9c\xe0\x0b\xb7\0\x15\x5d\0\x18\xef\xfb\xbf\xfe\
    \xa3\xb1\x5e\xe5\xf8\x3f\xb2\xaa\x26\x55\xf8\x68\x1e\xfe\xd0\0\0\0\0\0\xbb\x49\x43\x94\
    \x02\0\x21\x01\x0c\0\0\0\x8f\x98\x41\x9c\xe0\x0b\xb7\0\x15\x5d\0\x19\x6f\xfb\xbf\xfe\
    \xa3\xb1\x5e\xe5\xf8\x3f\xb2\xaa\x26\x55\xf8\x68\x1e\xfe\xd0\0\0\0\0\0\x12\x0b\x93\x8d\
    \x02\0\x21\x01\x0c\0\0\0\x8f\x98\x41\x9c\xe0\x0b\xb7\0\x15\x5d\0\x19\xef\xfb\xbf\xfe\
    \xa3\xb1\x5e\xe5\xf8\x3f\xb2\xaa\x26\x55\xf8\x68\x1e\xfe\xd0\0\0\0\0\0\x75\x35\x23\x85\
    \0\x03\x2d\xb8\x17\x2d\xb8\x17\x2d\xb8\x17\0\xb2\xac\xf3\xcb\
    \x9b\xe3\x51\x40\x03\0\0\0\0\x01YZ";

/// Returns three frames with a seek table, which has checksums.
fn with_seek_table(frame: &[u8]) -> Vec<u8> {
    const CHECKSUM: u32 = 0xbcb6_283e;
    let mut file = frame.repeat(3);
    file.extend(0x184d_2a5e_u32.to_le_bytes());
    file.extend(45_u32.to_le_bytes());
    let len = u32::try_from(frame.len()).unwrap_or_default();
    for _ in 0..3 {
        file.extend([len, 3000, CHECKSUM].map(u32::to_le_bytes).concat());
    }
    file.extend(b"\x03\0\0\0\x80\xb1\xea\x92\x8f");
    file
}

/// Returns compressed disks of several units.
fn compressed() -> impl Iterator<Item = (&'static str, Sparse)> {
    let plain = [1; 3000];
    let frame = zstd::bulk::compress(&plain, 1).unwrap_or_default();
    let mut bgzf = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0".to_vec();
    // The length of the member less one, and a block that is stored as it is.
    bgzf.extend((3030_u16).to_le_bytes());
    bgzf.extend([1]);
    bgzf.extend(3000_u16.to_le_bytes());
    bgzf.extend((!3000_u16).to_le_bytes());
    bgzf.extend(plain);
    bgzf.extend(crc32fast::hash(&plain).to_le_bytes());
    bgzf.extend(3000_u32.to_le_bytes());
    let files = [
        ("xz", XZ.to_vec()),
        ("zstd", frame.repeat(3)),
        ("zstd with a seek table", with_seek_table(&frame)),
        ("bgzf", bgzf.repeat(2)),
        // Frames of LZ4 that hold five bytes as they are: the old format, and the new one.
        (
            "lz4, legacy",
            b"\x02\x21\x4c\x18\x06\0\0\0\x50plain".to_vec(),
        ),
        (
            "lz4",
            b"\x04\x22\x4d\x18\x60\x40\x82\x05\0\0\x80plain\0\0\0\0".to_vec(),
        ),
    ];
    files.into_iter().map(|(name, bytes)| {
        let mut image = Sparse::zeroes(bytes.len() as u64);
        image.write(0, &bytes);
        (name, image)
    })
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // The length is a multiple of three.
    let groups = bytes.chunks(3).flat_map(|group| {
        let number = group
            .iter()
            .fold(0_usize, |n, byte| n << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[number >> shift & 63]))
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each seed is a valid image, so that mutations start at one.
    #[test]
    fn seeds_are_images() {
        for (name, seed) in seeds() {
            let device: Arc<dyn BlockRead> = Arc::new(seed);
            let runs = std::cell::Cell::new(0);
            visit(&device, |image| runs.set(runs.get() + image.map().count()));
            // A parent is refused, because the gate is closed.
            assert_eq!(runs.get() > 0, !name.ends_with("parent"), "{name}");
            if name.starts_with("lz4") {
                let mut packed = vec![0; usize::try_from(device.size_bytes()).unwrap()];
                device.read_at(0, &mut packed).unwrap();
                let stream = diskfs_compressed::stream(&packed[..], Streams::First);
                let mut plain = String::new();
                stream.unwrap().unwrap().read_to_string(&mut plain).unwrap();
                assert_eq!(plain, "plain", "{name}");
            }
        }
    }
}
