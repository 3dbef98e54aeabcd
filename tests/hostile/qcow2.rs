//! qcow2 images with impossible claims.

use std::fs;

use diskfs_fixtures::image;

use super::program::{CORRUPT, UNSUPPORTED, diskfs};

/// A header of version 3, with the specification's names of fields, and the structures that follow
/// from it.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_field_names,
    reason = "the fields are named as in the specification"
)]
pub(crate) struct Header<'a> {
    pub(crate) version: u32,
    pub(crate) cluster_bits: u32,
    pub(crate) size: u64,
    pub(crate) l1_size: u32,
    pub(crate) l1_table_offset: u64,
    pub(crate) refcount_table_offset: u64,
    pub(crate) refcount_table_clusters: u32,
    pub(crate) nb_snapshots: u32,
    pub(crate) snapshots_offset: u64,
    pub(crate) incompatible_features: u64,
    pub(crate) refcount_order: u32,
    pub(crate) header_length: u32,
    /// The backing file's name and format.
    pub(crate) backing: Option<(&'a str, &'a str)>,
    /// The external data file's name.
    pub(crate) data_file: Option<&'a str>,
    /// The first entry of the L1 table.
    pub(crate) l1_entry: u64,
}

const CLUSTER_BYTES: usize = 65_536;

impl Default for Header<'_> {
    /// Returns a sound image of 1 MiB, all of it unallocated.
    fn default() -> Self {
        Self {
            version: 3,
            cluster_bits: 16,
            size: 1 << 20,
            l1_size: 1,
            l1_table_offset: 3 << 16,
            refcount_table_offset: 1 << 16,
            refcount_table_clusters: 1,
            nb_snapshots: 0,
            snapshots_offset: 0,
            incompatible_features: 0,
            refcount_order: 4,
            header_length: 104,
            backing: None,
            data_file: None,
            l1_entry: 0,
        }
    }
}

impl Header<'_> {
    /// Returns the image's bytes: header, refcount table, refcount block, L1 table.
    pub(crate) fn image(&self) -> Vec<u8> {
        let mut bytes = self.fields();
        let mut extension = |kind: u32, text: &str| {
            bytes.extend(kind.to_be_bytes());
            bytes.extend(u32::try_from(text.len()).expect("short").to_be_bytes());
            bytes.extend(text.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        };
        if let Some((_, format)) = self.backing {
            extension(0xe279_2aca, format);
        }
        if let Some(name) = self.data_file {
            extension(0x4441_5441, name);
        }
        extension(0, "");
        if let Some((name, _)) = self.backing {
            let offset = u64::try_from(bytes.len()).expect("short");
            bytes[8..16].copy_from_slice(&offset.to_be_bytes());
            let len = u32::try_from(name.len()).expect("short");
            bytes[16..20].copy_from_slice(&len.to_be_bytes());
            bytes.extend(name.as_bytes());
        }
        bytes.resize(4 * CLUSTER_BYTES, 0);
        let block = (2_u64 * 65_536).to_be_bytes();
        bytes[CLUSTER_BYTES..CLUSTER_BYTES + 8].copy_from_slice(&block);
        for n in 0..4 {
            bytes[2 * CLUSTER_BYTES + 2 * n + 1] = 1;
        }
        let l1 = 3 * CLUSTER_BYTES;
        bytes[l1..l1 + 8].copy_from_slice(&self.l1_entry.to_be_bytes());
        bytes
    }

    fn fields(&self) -> Vec<u8> {
        let data_file = u64::from(self.data_file.is_some()) << 2;
        [
            &b"QFI\xfb"[..],
            &self.version.to_be_bytes(),
            &[0; 12],
            &self.cluster_bits.to_be_bytes(),
            &self.size.to_be_bytes(),
            &0_u32.to_be_bytes(),
            &self.l1_size.to_be_bytes(),
            &self.l1_table_offset.to_be_bytes(),
            &self.refcount_table_offset.to_be_bytes(),
            &self.refcount_table_clusters.to_be_bytes(),
            &self.nb_snapshots.to_be_bytes(),
            &self.snapshots_offset.to_be_bytes(),
            &(self.incompatible_features | data_file).to_be_bytes(),
            &[0; 16],
            &self.refcount_order.to_be_bytes(),
            &self.header_length.to_be_bytes(),
        ]
        .concat()
    }
}

/// Opens an image with this header and reads its whole guest disk.
fn read(header: &Header<'_>) -> super::program::Outcome {
    let directory = tempfile::tempdir().expect("create the directory");
    let path = directory.path().join("image.qcow2");
    fs::write(&path, header.image()).expect("write the file");
    let path = path.display().to_string();
    let outcome = diskfs(["info", &path]);
    if outcome.code == 0 {
        diskfs(["hash", &path])
    } else {
        outcome
    }
}

#[test]
fn the_header_that_all_of_these_change_is_sound() {
    let directory = tempfile::tempdir().expect("create the directory");
    let path = directory.path().join("image.qcow2");
    fs::write(&path, Header::default().image()).expect("write the file");
    diskfs(["info", &path.display().to_string()]).expect(0, &[]);
}

/// A change of a sound header.
type Change = fn(&mut Header<'_>);

fn changed(change: Change) -> Header<'static> {
    let mut header = Header::default();
    change(&mut header);
    header
}

#[test]
fn sizes_that_cannot_be_are_corrupt() {
    let changes: [Change; 15] = [
        |h| h.size = 1 << 63,
        |h| h.size = u64::MAX,
        |h| h.l1_size = u32::MAX,
        |h| h.l1_size = 0,
        |h| h.l1_table_offset = 1 << 63,
        |h| h.l1_table_offset = 3 << 16 | 512,
        |h| h.l1_table_offset = 1 << 40,
        |h| (h.nb_snapshots, h.snapshots_offset) = (u32::MAX, 1 << 16),
        |h| (h.nb_snapshots, h.snapshots_offset) = (1, 1 << 62),
        |h| h.cluster_bits = 8,
        |h| h.cluster_bits = 22,
        |h| h.cluster_bits = u32::MAX,
        |h| h.refcount_order = 7,
        |h| h.header_length = 71,
        |h| h.header_length = u32::MAX,
    ];
    for change in changes {
        let header = changed(change);
        let outcome = read(&header);
        let refused = [CORRUPT, UNSUPPORTED].contains(&outcome.code);
        assert!(refused, "{header:#?}: {outcome:#?}");
        outcome.expect_message();
    }
}

/// Reading needs no refcounts, so that an image with lost refcounts can still be saved.
#[test]
fn what_reading_does_not_need_does_no_harm() {
    let changes: [Change; 2] = [
        |h| h.refcount_table_offset = u64::MAX - 65_535,
        |h| h.refcount_table_clusters = u32::MAX,
    ];
    for change in changes {
        read(&changed(change)).expect_message();
    }
}

#[test]
fn other_versions_and_features_are_unsupported() {
    let changes: [Change; 4] = [
        |h| h.version = 1,
        |h| h.version = 4,
        |h| h.incompatible_features = 1 << 63,
        |h| h.incompatible_features = 1 << 5,
    ];
    for change in changes {
        let header = changed(change);
        let outcome = read(&header);
        assert_eq!(outcome.code, UNSUPPORTED, "{header:#?}: {outcome:#?}");
    }
}

/// An L2 table that is located after the end of the file, or not aligned to a cluster, or is the
/// header itself.
#[test]
fn tables_lie_within_the_file() {
    for (l1_entry, what) in [
        (1 << 63 | 1 << 40, "past the end"),
        (1 << 63 | 0xff_ffff_ffff_fe00, "off a cluster's edge"),
        (1 << 63 | 3 << 16 | 0x200, "off a cluster's edge"),
    ] {
        let outcome = read(&Header {
            l1_entry,
            ..Header::default()
        });
        assert_eq!(outcome.code, CORRUPT, "{what}: {outcome:#?}");
        assert!(
            outcome.stderr.contains("0x"),
            "{what} has no place: {}",
            outcome.stderr
        );
    }
}

/// The guest's data itself is damaged: decompression fails, with a location.
#[test]
fn compressed_clusters_that_do_not_decompress_are_corrupt() {
    for name in ["qcow2-zlib.qcow2", "qcow2-zstd.qcow2"] {
        let image = image(name);
        let mut bytes = fs::read(image.path()).expect("readable");
        // The data clusters: everything after header, tables and the first compressed sector.
        let start = bytes.len() - 20_000;
        for byte in &mut bytes[start..] {
            *byte ^= 0x5a;
        }
        fs::write(image.path(), bytes).expect("write the file");
        let outcome = diskfs(["hash", &image.path().display().to_string()]);
        outcome.expect(CORRUPT, &["0x"]);
    }
}
