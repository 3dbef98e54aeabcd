//! The images from which mutations start.

use std::collections::HashSet;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use diskfs_block::BlockRead;

use crate::{
    Sparse, Target, archive, deploy, etc, guest, image_maps, journal, labels, luks, lvm, md, nbd,
    oci, ova, registry, remote, rpm, selinux, service, systemd_journal, validate, varstore, vmdk,
    xfs_log,
};

/// An image with its target, and the ranges that the target reads.
#[derive(Debug, Clone)]
pub struct Seed {
    /// The name of the fixture, with the changes made to it.
    pub name: String,
    /// The target for the image.
    pub target: Target,
    /// The contents of the image.
    pub image: Sparse,
    /// The ranges with structures: those that the target reads of the unchanged image, without
    /// contents. Offset and length in bytes.
    pub touched: Vec<(u64, u64)>,
    /// The first of these ranges in the order of reading: headers and superblocks, which decide the
    /// most.
    pub first: Vec<(u64, u64)>,
    /// The offset of a journal's superblock, if the journal has checksums. Mutations of the journal
    /// then get valid checksums.
    pub journal: Option<u64>,
}

impl Seed {
    /// Returns a seed whose places of structures are not known yet.
    pub fn new(target: Target, name: String, image: Sparse) -> Self {
        Self {
            name,
            target,
            image,
            touched: Vec::new(),
            first: Vec::new(),
            journal: None,
        }
    }

    /// Finds the places that mutations change.
    pub fn find_places(&mut self) {
        self.touched = structures(self);
        self.first = self.touched.iter().take(MAX_FIRST).copied().collect();
        self.touched.sort_unstable();
        self.journal = journal::superblock_with_checksums(&self.image);
    }
}

/// The maximum size of an image. Larger ones are skipped or cut to their structures, because they
/// have mostly contents.
const MAX_KEPT_BYTES: u64 = 8 << 20;

/// The maximum number of sectors that count as read first.
const MAX_FIRST: usize = 12;

/// Loads the seeds from the compressed images in `directory`, in the order of their names, and adds
/// a few that no tool makes. Loads only those of `target`, if one is given.
pub fn load(directory: &Path, target: Option<Target>) -> Result<Vec<Seed>> {
    let is_wanted = |of: Target| target.is_none_or(|target| target == of);
    let entries = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut paths: Vec<_> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    let mut seeds = tiny();
    for path in paths {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = file.strip_suffix(".zst") else {
            continue;
        };
        let image = decompress(&path).with_context(|| path.display().to_string())?;
        if name.starts_with("kind-") {
            if is_wanted(Target::ProbeContent) {
                seeds.push(cut(Target::ProbeContent, name, &image));
            }
        } else if image.kept_bytes() <= MAX_KEPT_BYTES {
            seeds.extend(of_fixture(name, &image));
        } else if is_wanted(Target::Lvm) && has_lvm(&image) {
            seeds.push(cut(Target::Lvm, name, &image));
        }
    }
    seeds.retain(|seed| is_wanted(seed.target));
    Ok(seeds)
}

pub(crate) fn decompress(path: &Path) -> Result<Sparse> {
    read(zstd::Decoder::new(std::fs::File::open(path)?)?)
}

pub(crate) fn of_file(path: &Path) -> Result<Sparse> {
    read(std::fs::File::open(path)?)
}

fn read(mut from: impl Read) -> Result<Sparse> {
    let mut sparse = Sparse::zeroes(0);
    let mut block = Vec::new();
    for number in 0.. {
        block.clear();
        from.by_ref().take(4096).read_to_end(&mut block)?;
        sparse.set_len(number * 4096 + block.len() as u64);
        sparse.put(number, &block);
        if block.len() < 4096 {
            break;
        }
    }
    Ok(sparse)
}

/// Returns a seed with only the ranges that the target reads; the rest is zeroes.
fn cut(target: Target, name: &str, image: &Sparse) -> Seed {
    let mut kept = Sparse::zeroes(image.size_bytes());
    for (offset, len) in structures(&Seed::new(target, name.to_owned(), image.clone())) {
        let bytes: Vec<u8> = (offset..offset + len).map(|at| image.byte(at)).collect();
        kept.write(offset, &bytes);
    }
    Seed::new(target, name.to_owned(), kept)
}

/// Returns the seeds of a fixture. The contents of the image decide, not its name.
fn of_fixture(name: &str, image: &Sparse) -> Vec<Seed> {
    let has = |at: u64, magic: &[u8]| (at..).zip(magic).all(|(at, b)| image.byte(at) == *b);
    let targets: &[Target] = match () {
        () if has(0, b"QFI\xfb") && has_bitmaps(image) => &[
            Target::Qcow2,
            Target::Qcow2Write,
            Target::Qcow2Bitmaps,
            Target::Validate,
            Target::Probe,
        ],
        () if has(0, b"QFI\xfb") => &[
            Target::Qcow2,
            Target::Qcow2Write,
            Target::Validate,
            Target::Probe,
        ],
        () if has(1080, b"\x53\xef") => &[Target::Ext4Walk, Target::Ext4Write],
        () if has(32_769, b"CD001") => &[
            Target::Iso9660,
            Target::Validate,
            Target::Mbr,
            Target::Probe,
        ],
        () if has(0, b"XFSB") => &[Target::Xfs, Target::Probe],
        () if has(0, b"hsqs") => &[Target::Squashfs],
        () if has(1024, &0xe0f5_e1e2_u32.to_le_bytes()) => &[Target::Erofs],
        () if has(BTRFS_MAGIC_AT, b"_BHRfS_M") => &[Target::Btrfs, Target::Probe],
        () if is_fat(image) => &[Target::Fat, Target::Probe],
        () if has(3, b"EXFAT   ") => &[Target::Exfat, Target::Probe],
        () if has_lvm(image) => &[Target::Lvm, Target::Probe],
        () if has_md(image) => &[Target::Md, Target::Probe],
        () => &[Target::Gpt, Target::Validate, Target::Mbr, Target::Probe],
    };
    let of_all = |name: &str, image: &Sparse| {
        let of = |&target| Seed::new(target, name.to_owned(), image.clone());
        targets.iter().map(of).collect::<Vec<_>>()
    };
    let mut seeds = of_all(name, image);
    if targets.contains(&Target::Ext4Walk) {
        let bare = without_checksums(image);
        seeds.extend(of_all(&format!("{name} without checksums"), &bare));
    }
    if targets.contains(&Target::Xfs)
        && let Some(dirty) = xfs_log::with_intents(image)
    {
        let name = format!("{name} with intents");
        seeds.push(Seed::new(Target::Xfs, name, dirty));
    }
    if targets.contains(&Target::Lvm) {
        let name = format!("{name} without areas");
        seeds.push(Seed::new(Target::Lvm, name, lvm::without_areas(image)));
    }
    seeds
}

/// The offset of the magic number of a btrfs superblock.
const BTRFS_MAGIC_AT: u64 = (64 << 10) + 64;

/// Returns true if a qcow2 image says that its bitmaps are valid: the autoclear bit 0.
fn has_bitmaps(image: &Sparse) -> bool {
    image.byte(7) == 3 && image.byte(95) & 1 == 1
}

/// Returns true if the boot sector has the name of a FAT type.
fn is_fat(image: &Sparse) -> bool {
    let is_name = |at: u64| (at..).zip(b"FAT").all(|(at, b)| image.byte(at) == *b);
    is_name(54) || is_name(82)
}

/// Returns true if there is an LVM label on the disk, or on a partition that starts at a whole MiB.
fn has_lvm(image: &Sparse) -> bool {
    let places = (0..image.size_bytes()).step_by(1 << 20).take(64);
    let is_label = |at: u64| {
        (at + 512..)
            .zip(b"LABELONE")
            .all(|(at, b)| image.byte(at) == *b)
    };
    places.into_iter().any(is_label)
}

/// Returns true if there is an md superblock of version 1.1 or 1.2 on a partition that starts at a
/// whole MiB.
fn has_md(image: &Sparse) -> bool {
    let mut places = (0..image.size_bytes()).step_by(1 << 20).take(64);
    let is_magic = |at: u64| {
        (at..)
            .zip(0xa92b_4efc_u32.to_le_bytes())
            .all(|(at, b)| image.byte(at) == b)
    };
    places.any(|at| is_magic(at) || is_magic(at + 4096))
}

/// Returns the filesystem without the checksum features in its superblock. Otherwise a mutation
/// would get no further than the first checksum.
fn without_checksums(image: &Sparse) -> Sparse {
    const INCOMPAT: u64 = 1024 + 0x60;
    const RO_COMPAT: u64 = 1024 + 0x64;
    let mut bare = image.clone();
    // The bit of metadata_csum_seed, 13.
    bare.write(INCOMPAT + 1, &[image.byte(INCOMPAT + 1) & !0x20]);
    // The bits of gdt_csum, 4, and metadata_csum, 10.
    bare.write(RO_COMPAT, &[image.byte(RO_COMPAT) & !0x10]);
    bare.write(RO_COMPAT + 1, &[image.byte(RO_COMPAT + 1) & !0x04]);
    bare
}

/// Returns minimal seeds, for all targets.
fn tiny() -> Vec<Seed> {
    let mut mbr = Sparse::zeroes(1 << 20);
    mbr.write(446 + 4, &[0x05, 0, 0, 0, 1, 0, 0, 0, 0xff, 7, 0, 0]);
    mbr.write(510, &[0x55, 0xaa]);
    mbr.write(512 + 446 + 4, &[0x83, 0, 0, 0, 1, 0, 0, 0, 9]);
    mbr.write(512 + 446 + 20, &[0x05, 0, 0, 0, 20, 0, 0, 0, 9]);
    mbr.write(1022, &[0x55, 0xaa]);
    let mut qcow2 = Sparse::zeroes(8192);
    qcow2.write(0, b"QFI\xfb\0\0\0\x02");
    qcow2.write(
        20,
        &[0, 0, 0, 9, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4],
    );
    qcow2.write(46, &[2, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 1]);
    let of = |target, name: &str, image: &Sparse| Seed::new(target, name.to_owned(), image.clone());
    let empty = Sparse::zeroes(4096);
    let mut seeds = vec![
        of(Target::Mbr, "tiny mbr", &mbr),
        of(Target::Qcow2, "tiny qcow2", &qcow2),
        of(Target::Qcow2Write, "tiny qcow2", &qcow2),
        of(Target::Validate, "tiny qcow2", &qcow2),
    ];
    seeds.extend(remote::seeds().map(|(name, image)| of(Target::Remote, name, &image)));
    let journals = systemd_journal::seeds();
    seeds.extend(journals.map(|(name, image)| of(Target::SystemdJournal, name, &image)));
    for (name, image) in luks::seeds() {
        seeds.push(of(Target::Luks, name, &image));
        seeds.push(of(Target::ProbeContent, name, &image));
    }
    let guests = guest::seeds();
    seeds.extend(
        guests
            .iter()
            .map(|(name, tree)| of(Target::Guest, name, tree)),
    );
    let plans = deploy::seeds();
    seeds.extend(
        plans
            .iter()
            .map(|(name, input)| of(Target::Deploy, name, input)),
    );
    seeds.extend(registry::seeds().map(|(name, image)| of(Target::Registry, name, &image)));
    seeds.extend(varstore::seeds().map(|(name, image)| of(Target::Varstore, name, &image)));
    seeds.extend(vmdk::seeds().map(|(name, image)| of(Target::Vmdk, name, &image)));
    let databases = rpm::seeds();
    seeds.extend(
        databases
            .iter()
            .map(|(name, image)| of(Target::Rpm, name, image)),
    );
    seeds.extend(selinux::seeds().map(|(name, image)| of(Target::Selinux, name, &image)));
    seeds.extend(image_maps::seeds().map(|(name, image)| of(Target::ImageMaps, name, &image)));
    seeds.extend(validate::seeds().map(|(name, image)| of(Target::Validate, name, &image)));
    seeds.push(of(Target::Etc, "texts", &etc::seed()));
    seeds.push(of(Target::Archive, "layers", &archive::seed()));
    seeds.push(of(Target::Oci, "layout", &oci::seed()));
    seeds.extend(ova::seeds().map(|(name, image)| of(Target::Ova, name, &image)));
    seeds.extend(service::seeds().map(|(name, input)| of(Target::Service, name, &input)));
    seeds.extend(nbd::clients().map(|(name, input)| of(Target::NbdServer, name, &input)));
    seeds.extend(nbd::servers().map(|(name, input)| of(Target::NbdClient, name, &input)));
    seeds.extend(md::seeds().map(|(name, image)| of(Target::Md, name, &image)));
    seeds.extend(labels::seeds().map(|(name, image)| of(Target::Mbr, name, &image)));
    seeds.extend(Target::ALL.map(|target| of(target, "zeroes", &empty)));
    seeds
}

/// A device that records which ranges are read.
#[derive(Debug)]
struct Recording {
    inner: Sparse,
    reads: Mutex<Vec<(u64, u64)>>,
}

impl BlockRead for Recording {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> diskfs_block::Result<()> {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.push((offset, buf.len() as u64));
        drop(reads);
        self.inner.read_at(offset, buf)
    }
}

const SECTOR: u64 = 512;

/// Returns the sectors with structures in the order in which the target first reads them. Those of
/// zeroes are left out: otherwise one long read of an inode table would count as much as a superblock.
fn structures(seed: &Seed) -> Vec<(u64, u64)> {
    let device = Arc::new(Recording {
        inner: seed.image.clone(),
        reads: Mutex::default(),
    });
    // A seed that panics is a finding of its own case. Here it just reads less.
    let watched: Arc<dyn BlockRead> = Arc::<Recording>::clone(&device);
    let _ = catch_unwind(AssertUnwindSafe(|| seed.target.survey(&watched)));
    let reads = device.reads.lock().unwrap_or_else(PoisonError::into_inner);
    let mut known = HashSet::new();
    reads
        .iter()
        .flat_map(|&(offset, len)| (offset / SECTOR)..(offset + len).div_ceil(SECTOR))
        .filter(|sector| known.insert(*sector))
        .map(|sector| (sector * SECTOR, SECTOR))
        .filter(|&(offset, _)| seed.image.has_data(offset))
        .collect()
}
