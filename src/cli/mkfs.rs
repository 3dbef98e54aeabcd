//! The command `diskfs mkfs`.

mod ext;
mod manifest;
mod owner_map;
mod source;
mod usage;

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value};
use uuid::Uuid;

use diskfs::build::{Extra, NewImageFile, Size};
use diskfs::image::create::{Existing, NewImage, NewQcow2};
#[cfg(feature = "microvm")]
use diskfs::vm::tools::{self, NewByTool, Work};
use diskfs::{
    Content, Disk, Error, ErrorKind, ExfatOptions, ExtKind, FatKind, FatOptions, NewFilesystem,
    Result, SwapOptions, Volume,
};

use super::bytes;
use super::operand::Operand;
use super::options::SourceArgs;
use super::random;
use super::session::{Output, Session, stdout};
use super::show::json;
use super::show::name::message;
use super::show::size::units;
use super::target::{self, WriteArgs};
use ext::ExtArgs;
pub(super) use ext::source_date;
use source::{Opened, Written};

/// Create a filesystem, empty or with files, or a swap area
#[derive(Debug, Args)]
#[command(
    after_help = "A volume with known contents is not overwritten, unless --force is given. On a disk with
partitions, select the volume with --volume (or --partition).

Examples:
  diskfs mkfs ext4 -L root --volume p2 disk.qcow2
  diskfs mkfs ext4 --size fit+10% --from-tar rootfs.tar.zst rootfs.img
  diskfs mkfs fat --label ESP --volume p1 disk.qcow2
  diskfs mkfs swap --volume vg0/swap disk.qcow2
  diskfs create seed.img 1M && diskfs mkfs fat --label CIDATA seed.img
  diskfs mkfs xfs --label data --volume p2 disk.qcow2 -- -m reflink=0"
)]
pub(super) struct Mkfs {
    #[command(subcommand)]
    kind: FilesystemKind,
}

#[derive(Debug, Subcommand)]
enum FilesystemKind {
    /// Create an ext4 filesystem
    Ext4(Box<ExtArgs>),
    /// Create an ext3 filesystem
    Ext3(Box<ExtArgs>),
    /// Create an ext2 filesystem
    Ext2(Box<ExtArgs>),
    /// Create a FAT12, FAT16 or FAT32 filesystem
    #[command(visible_alias = "vfat")]
    Fat(FatArgs),
    /// Create an exFAT filesystem
    Exfat(ExfatArgs),
    /// Create a Linux swap area
    Swap(SwapArgs),
    /// Create an XFS filesystem, with mkfs.xfs in a microVM
    #[cfg(feature = "microvm")]
    Xfs(ToolArgs),
    /// Create a btrfs filesystem, with mkfs.btrfs in a microVM
    #[cfg(feature = "microvm")]
    Btrfs(ToolArgs),
    /// Create an F2FS filesystem, with mkfs.f2fs in a microVM
    #[cfg(feature = "microvm")]
    F2fs(ToolArgs),
    /// Create an NTFS filesystem, with mkntfs in a microVM
    #[cfg(feature = "microvm")]
    Ntfs(ToolArgs),
}

#[cfg(feature = "microvm")]
#[derive(Debug, Args)]
struct ToolArgs {
    /// The label of the filesystem
    #[arg(short = 'L', long)]
    label: Option<String>,

    /// The UUID [default: a random one]
    #[arg(short = 'U', long)]
    uuid: Option<Uuid>,

    #[command(flatten)]
    common: Common,

    /// Options that are passed to the program (`mkfs.xfs`, `mkfs.btrfs`, `mke2fs`, `mkfs.f2fs`,
    /// `mkntfs`)
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// The options that all types share.
#[derive(Debug, Args)]
struct Common {
    /// The image with the volume
    #[arg(value_name = "IMG")]
    image: Operand,

    /// Create the image first, with this size; its format is qcow2 for a name in .qcow2, else raw.
    /// With fit, the size is the smallest one for the tree, plus N percent or SIZE
    #[arg(long, value_name = "SIZE|fit[+N%|+SIZE]", value_parser = image_size,
          conflicts_with_all = ["overlay", "volume", "partition", "offset", "format", "snapshot", "add"])]
    size: Option<ImageSize>,

    /// Overwrite the existing contents of the volume, or with --size the existing image. The tree
    /// is checked before anything is overwritten; if filling the filesystem fails later, the volume
    /// is left empty, but an image that --size would replace stays
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Debug, Args)]
struct FatArgs {
    /// The width of FAT entries in bits [default: depends on the size]
    #[arg(short = 'F', long, value_name = "BITS")]
    fat_bits: Option<FatBits>,

    /// The label, at most 11 characters; it is converted to upper case
    #[arg(short = 'n', long, default_value = "", hide_default_value = true)]
    label: String,

    /// The serial number, such as 1234-ABCD [default: a random one]
    #[arg(short = 'i', long, value_name = "ID", value_parser = volume_id)]
    volume_id: Option<u32>,

    /// The cluster size, 512 to 64k [default: depends on the size]
    #[arg(long, value_name = "SIZE", value_parser = small_size)]
    cluster_size: Option<u32>,

    /// The sector size; 4k for disks with sectors of that size
    #[arg(short = 'S', long, value_name = "SIZE", default_value = "512", value_parser = small_size)]
    sector_size: u32,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FatBits {
    #[value(name = "12")]
    Twelve,
    #[value(name = "16")]
    Sixteen,
    #[value(name = "32")]
    ThirtyTwo,
}

#[derive(Debug, Args)]
struct ExfatArgs {
    /// The label, at most 11 characters
    #[arg(short = 'L', long, default_value = "", hide_default_value = true)]
    label: String,

    /// The serial number, such as 1234-ABCD [default: a random one]
    #[arg(short = 'i', long, value_name = "ID", value_parser = volume_id)]
    volume_id: Option<u32>,

    /// The cluster size, 512 to 32M [default: depends on the size]
    #[arg(short = 'c', long, value_name = "SIZE", value_parser = small_size)]
    cluster_size: Option<u32>,

    /// The sector size; 4k for disks with sectors of that size
    #[arg(short = 'S', long, value_name = "SIZE", default_value = "512", value_parser = small_size)]
    sector_size: u32,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct SwapArgs {
    /// The label, at most 15 bytes
    #[arg(short = 'L', long, default_value = "", hide_default_value = true)]
    label: String,

    /// The UUID [default: a random one]
    #[arg(short = 'U', long)]
    uuid: Option<Uuid>,

    /// The page size of the machine that will use the swap area, 4k to 64k
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = small_size)]
    page_size: u32,

    #[command(flatten)]
    common: Common,
}

impl FilesystemKind {
    fn common(&self) -> &Common {
        match self {
            Self::Ext4(args) | Self::Ext3(args) | Self::Ext2(args) => &args.common,
            Self::Fat(args) => &args.common,
            Self::Exfat(args) => &args.common,
            Self::Swap(args) => &args.common,
            #[cfg(feature = "microvm")]
            Self::Xfs(args) | Self::Btrfs(args) | Self::F2fs(args) | Self::Ntfs(args) => {
                &args.common
            }
        }
    }

    fn maker(&self) -> Result<Maker> {
        Ok(match self {
            Self::Ext4(args) => args.maker(ExtKind::Ext4)?,
            Self::Ext3(args) => args.maker(ExtKind::Ext3)?,
            Self::Ext2(args) => args.maker(ExtKind::Ext2)?,
            Self::Fat(args) => Maker::Native(args.filesystem()?),
            Self::Exfat(args) => Maker::Native(args.filesystem()?),
            Self::Swap(args) => Maker::Native(args.area()?),
            #[cfg(feature = "microvm")]
            Self::Xfs(args) => args.maker("xfs"),
            #[cfg(feature = "microvm")]
            Self::Btrfs(args) => args.maker("btrfs"),
            #[cfg(feature = "microvm")]
            Self::F2fs(args) => args.maker("f2fs"),
            #[cfg(feature = "microvm")]
            Self::Ntfs(args) => args.maker("ntfs"),
        })
    }
}

impl FilesystemKind {
    /// Opens the tree that the filesystem is filled with, if the options name one.
    fn tree(&self, session: &Session) -> Result<Option<Opened>> {
        match self {
            Self::Ext4(args) | Self::Ext3(args) | Self::Ext2(args) => {
                let image = args.common.image.image_alone("to create a filesystem in")?;
                args.tree.open(image.as_ref(), session)
            }
            _ => Ok(None),
        }
    }
}

impl ExtArgs {
    fn maker(&self, kind: ExtKind) -> Result<Maker> {
        #[cfg(feature = "microvm")]
        if self.method.asks_for_vm() || !self.options.is_empty() {
            let name = match kind {
                ExtKind::Ext2 => "ext2",
                ExtKind::Ext3 => "ext3",
                ExtKind::Ext4 => "ext4",
            };
            return Ok(Maker::Tool(name, self.for_mke2fs()?));
        }
        let options = self.format_options(kind)?;
        Ok(Maker::Native(NewFilesystem::Ext(Box::new(options))))
    }
}

/// The creator of a filesystem.
enum Maker {
    Native(NewFilesystem),
    /// The program for this type, in a microVM.
    #[cfg(feature = "microvm")]
    Tool(&'static str, NewByTool),
}

impl FatArgs {
    fn filesystem(&self) -> Result<NewFilesystem> {
        Ok(NewFilesystem::Fat(FatOptions {
            kind: self.fat_bits.map(FatBits::kind),
            label: self.label.clone(),
            volume_id: serial(self.volume_id)?,
            cluster_bytes: self.cluster_size,
            sector_bytes: self.sector_size,
            time: source_date()?,
            ..FatOptions::default()
        }))
    }
}

impl ExfatArgs {
    fn filesystem(&self) -> Result<NewFilesystem> {
        Ok(NewFilesystem::Exfat(ExfatOptions {
            label: self.label.clone(),
            volume_id: serial(self.volume_id)?,
            cluster_bytes: self.cluster_size,
            sector_bytes: self.sector_size,
            ..ExfatOptions::default()
        }))
    }
}

impl SwapArgs {
    fn area(&self) -> Result<NewFilesystem> {
        Ok(NewFilesystem::Swap(SwapOptions {
            label: self.label.clone(),
            uuid: match self.uuid {
                Some(uuid) => uuid.into_bytes(),
                None => random::uuid()?.into_bytes(),
            },
            page_bytes: self.page_size,
        }))
    }
}

#[cfg(feature = "microvm")]
impl ToolArgs {
    fn maker(&self, kind: &'static str) -> Maker {
        let new = NewByTool {
            label: self.label.clone(),
            uuid: self.uuid.map(|uuid| uuid.to_string()),
            options: self.options.clone(),
        };
        Maker::Tool(kind, new)
    }
}

impl FatBits {
    fn kind(self) -> FatKind {
        match self {
            Self::Twelve => FatKind::Fat12,
            Self::Sixteen => FatKind::Fat16,
            Self::ThirtyTwo => FatKind::Fat32,
        }
    }
}

pub(super) fn run(args: &Mkfs, session: &mut Session) -> Result<()> {
    let mut maker = args.kind.maker()?;
    let common = args.kind.common();
    let time = source_date()?;
    let tree = args.kind.tree(session)?;
    let new_overlay = common.write.new_overlay();
    let new_image = match common.size {
        Some(size) => Some(common.create_image(size.bytes(&mut maker, tree.as_ref())?)?),
        None => None,
    };
    let mode = session.progress();
    let check = |volume: &Volume| match &tree {
        Some(tree) if common.force => tree.check_fits(volume, &maker),
        _ => Ok(()),
    };
    let fill = |volume: &Volume| match &tree {
        Some(tree) => tree.fill(volume, time, mode).map(Some),
        None => Ok(None),
    };
    let made = common.make_in(session, new_image.as_ref(), &maker, check, fill);
    let made = made.inspect_err(|_| target::remove_new_overlay(new_overlay))?;
    if let Some(file) = new_image {
        file.finish().map_err(hint)?;
    }
    match session.output() {
        Output::Json => common.write_json(session, &made),
        Output::Text => common.write_text(&made),
    }
}

/// The size of a new image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImageSize {
    Bytes(u64),
    /// The smallest size for the tree, and some more.
    Fit(Extra),
}

impl ImageSize {
    /// Returns the size in bytes. For a fitting size, the options get enough inodes.
    fn bytes(self, maker: &mut Maker, tree: Option<&Opened>) -> Result<u64> {
        let extra = match self {
            Self::Bytes(bytes) => return Ok(bytes),
            Self::Fit(extra) => extra,
        };
        let (Maker::Native(NewFilesystem::Ext(options)), Some(tree)) = (maker, tree) else {
            let reason = "--size fit requires ext2, ext3 or ext4 and a tree";
            let error = Error::new(ErrorKind::Invalid, reason);
            return Err(error.with_hint("add --from-dir, --from-tar or --from-oci"));
        };
        let usage = tree.usage()?;
        if options.inodes.is_none() && options.bytes_per_inode.is_none() {
            options.inodes = Some(usage.inodes());
        }
        let fitting = diskfs::fitting_size(options, &usage)?;
        Ok(extra.added_to(fitting))
    }
}

/// Parses a size: `2G`, `fit`, `fit+10%` or `fit+64M`.
fn image_size(text: &str) -> std::result::Result<ImageSize, String> {
    match Size::parse(text)? {
        Size::Bytes(bytes) => Ok(ImageSize::Bytes(bytes)),
        Size::Fit(extra) => Ok(ImageSize::Fit(extra)),
        Size::Rest => Err("invalid size `rest`: a new image has no remaining space".to_owned()),
    }
}

/// A new filesystem.
struct Made {
    volume: String,
    size_bytes: u64,
    content: Content,
    /// The number of bytes that would change, with --dry-run.
    changed_bytes: Option<u64>,
    written: Option<Written>,
}

impl Common {
    /// Creates the image, which gets its name when it is complete.
    fn create_image(&self, size_bytes: u64) -> Result<NewImageFile> {
        let path = PathBuf::from(self.image.image_alone("to create")?);
        if self.write.dry_run {
            let reason = "--dry-run cannot be combined with --size, which creates the image";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let is_qcow2 = path.extension() == Some(OsStr::new("qcow2"));
        let image = if is_qcow2 {
            NewImage::Qcow2(Box::<NewQcow2>::default())
        } else {
            NewImage::Raw
        };
        NewImageFile::create(&path, image, size_bytes, self.existing()).map_err(hint)
    }

    fn open(&self, new_image: Option<&NewImageFile>) -> Result<Disk> {
        if let Some(file) = new_image {
            return self.source.open_new(file);
        }
        let image = self.image.image_alone("to create a filesystem in")?;
        self.write.open(&self.source, &image)
    }

    /// Creates the filesystem, and fills it. If that fails, no filesystem is left. `check` is
    /// called before anything is overwritten.
    fn make_in(
        &self,
        session: &mut Session,
        new_image: Option<&NewImageFile>,
        maker: &Maker,
        check: impl FnOnce(&Volume) -> Result<()>,
        fill: impl FnOnce(&Volume) -> Result<Option<Written>>,
    ) -> Result<Made> {
        let disk = self.open(new_image)?;
        let made = self.volume(&disk).and_then(|volume| {
            volume.check_replaceable(self.existing()).map_err(hint)?;
            check(&volume)?;
            let content = self.make(&volume, maker).map_err(hint)?;
            let fresh = volume.refreshed()?;
            let written = fill(&fresh).map_err(|error| {
                remove_filesystem(&volume);
                if self.force && new_image.is_none() && !self.keeps_image() {
                    left_empty(error, volume.name())
                } else {
                    error
                }
            })?;
            Ok(Made {
                volume: volume.name().to_owned(),
                size_bytes: volume.size_bytes(),
                content,
                changed_bytes: None,
                written,
            })
        });
        session.print_warnings(&disk);
        let changed_bytes = disk.changed_in_memory();
        let closed = disk.close();
        let made = made?;
        closed?;
        Ok(Made {
            changed_bytes,
            ..made
        })
    }

    fn make(&self, volume: &Volume, maker: &Maker) -> Result<Content> {
        match maker {
            Maker::Native(new) => volume.format(new, self.existing()),
            #[cfg(feature = "microvm")]
            Maker::Tool(kind, new) => {
                volume.check_replaceable(self.existing())?;
                let work = Work::Make(new.clone());
                let device = volume.writable_device()?;
                let options = self.source.vm.options()?;
                tools::work(&options, kind, device, &work, |_, _| Ok(()))?.check()?;
                volume.probe_again()
            }
        }
    }

    fn existing(&self) -> Existing {
        if self.force {
            Existing::Replace
        } else {
            Existing::Keep
        }
    }

    /// Returns true if a failure leaves the image as it was.
    fn keeps_image(&self) -> bool {
        self.write.dry_run || self.write.overlay.is_some()
    }

    /// Returns the selected volume, or the disk itself if it has no partitions.
    fn volume(&self, disk: &Disk) -> Result<Volume> {
        if let Some(volume) = self.source.volume.volume_alone(disk)? {
            return Ok(volume);
        }
        if disk.partition_table()?.is_none() && disk.other_disks().is_empty() {
            return disk.volume("disk");
        }
        let names: Vec<&str> = disk.volumes()?.iter().map(Volume::name).collect();
        let error = Error::new(
            ErrorKind::Ambiguous,
            "no volume is selected, and the disk has partitions",
        );
        let hint = format!(
            "give --volume with one of {}, or --volume disk for the whole disk",
            names.join(", ")
        );
        Err(error.with_hint(hint).in_file(disk.path()))
    }

    fn write_text(&self, made: &Made) -> Result<()> {
        let mut out = stdout()?;
        let content = &made.content;
        let mut line = format!(
            "{}: {}, {}",
            made.volume,
            content.kind,
            units(made.size_bytes)
        );
        for (word, value) in [("label", content.label()), ("UUID", content.uuid.clone())] {
            line.extend(value.map(|value| format!(", {word} {}", message(&value))));
        }
        let contents = made.written.map(|Written { files, bytes }| {
            let size = units(bytes);
            format!(", {files} files with {size}")
        });
        writeln!(out, "{line}{}", contents.unwrap_or_default())?;
        if let Some(bytes) = made.changed_bytes.filter(|_| self.write.dry_run) {
            writeln!(out, "{bytes} bytes of the disk would change")?;
        }
        Ok(out.flush()?)
    }

    fn write_json(&self, session: &Session, made: &Made) -> Result<()> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("volume", made.volume.clone().into());
        put("size_bytes", made.size_bytes.into());
        put("type", made.content.kind.into());
        put("label", made.content.label().into());
        put("uuid", made.content.uuid.clone().into());
        if let Some(Written { files, bytes }) = made.written {
            put("files", files.into());
            put("content_bytes", bytes.into());
        }
        put("dry_run", self.write.dry_run.into());
        if let Some(bytes) = made.changed_bytes {
            put("changed_bytes", bytes.into());
        }
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        Ok(out.flush()?)
    }
}

/// Removes a filesystem that could not be filled, as far as the disk still allows it.
fn remove_filesystem(volume: &Volume) {
    if let Ok(device) = volume.writable_device() {
        // The backup superblocks must go, too, and the host gets its space back.
        let _ = device.discard(0, device.size_bytes());
        let _ = diskfs::block::wipe_ends(&*device, 0).and_then(|()| device.flush());
    }
}

/// Adds to an error of filling a filesystem what is left of the volume.
fn left_empty(error: Error, volume: &str) -> Error {
    let left = format!("the previous contents of volume {volume} are lost, it is left empty");
    match error.next_step() {
        Some(step) => {
            let hint = format!("{step}; {left}");
            error.with_hint(hint)
        }
        None => error.with_hint(left),
    }
}

/// Adds the next step to an error about existing contents.
fn hint(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Exists => {
            error.with_hint("`diskfs info` shows the contents; --force overwrites them")
        }
        _ => error,
    }
}

/// Returns the given serial number, or a random one.
fn serial(given: Option<u32>) -> Result<u32> {
    given.map_or_else(|| Ok(u32::from_le_bytes(random::bytes()?)), Ok)
}

/// Parses a serial number: `1234-ABCD` or `1234abcd`.
fn volume_id(text: &str) -> std::result::Result<u32, String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let wrong = || format!("invalid serial number `{text}`; write 1234-ABCD");
    if digits.len() != 8 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    u32::from_str_radix(&digits, 16).map_err(|_| wrong())
}

/// Parses a number of bytes that fits in 32 bits.
fn small_size(text: &str) -> std::result::Result<u32, String> {
    let bytes = bytes::parse(text)?;
    u32::try_from(bytes).map_err(|_| format!("the size is too large: {bytes} bytes, at most 4 GiB"))
}
