//! The command `diskfs mkfs`.

use std::io::Write;

use clap::{Args, Subcommand, ValueEnum};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::{Map, Value};
use uuid::Uuid;

use diskfs::image::create::Existing;
#[cfg(feature = "microvm")]
use diskfs::vm::tools::{self, NewByTool, Work};
use diskfs::{
    Content, Disk, Error, ErrorKind, ExfatOptions, FatKind, FatOptions, NewFilesystem, Result,
    SwapOptions, Volume,
};

use super::bytes;
use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json;
use super::show::name::message;
use super::show::size::units;
use super::target::{self, WriteArgs};

/// Create an empty filesystem, or a swap area, on a volume
#[derive(Debug, Args)]
#[command(
    after_help = "A volume with known contents is not overwritten, unless --force is given. On a disk with
partitions, select the volume with --volume (or --partition).

Examples:
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
    /// Create an ext4 filesystem, with mke2fs in a microVM
    #[cfg(feature = "microvm")]
    Ext4(ToolArgs),
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

    /// Overwrite the existing contents of the volume
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
            Self::Fat(args) => &args.common,
            Self::Exfat(args) => &args.common,
            Self::Swap(args) => &args.common,
            #[cfg(feature = "microvm")]
            Self::Xfs(args)
            | Self::Btrfs(args)
            | Self::Ext4(args)
            | Self::F2fs(args)
            | Self::Ntfs(args) => &args.common,
        }
    }

    fn maker(&self) -> Result<Maker> {
        Ok(match self {
            Self::Fat(args) => Maker::Native(args.filesystem()?),
            Self::Exfat(args) => Maker::Native(args.filesystem()?),
            Self::Swap(args) => Maker::Native(args.area()?),
            #[cfg(feature = "microvm")]
            Self::Xfs(args) => args.maker("xfs"),
            #[cfg(feature = "microvm")]
            Self::Btrfs(args) => args.maker("btrfs"),
            #[cfg(feature = "microvm")]
            Self::Ext4(args) => args.maker("ext4"),
            #[cfg(feature = "microvm")]
            Self::F2fs(args) => args.maker("f2fs"),
            #[cfg(feature = "microvm")]
            Self::Ntfs(args) => args.maker("ntfs"),
        })
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
                None => uuid::Builder::from_random_bytes(random()?)
                    .into_uuid()
                    .into_bytes(),
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
    let maker = args.kind.maker()?;
    let common = args.kind.common();
    let new_overlay = common.write.new_overlay();
    let disk = common.open()?;
    let made = common.volume(&disk).and_then(|volume| {
        let content = common.make(&volume, &maker).map_err(hint)?;
        Ok((volume, content))
    });
    session.print_warnings(&disk);
    let changed_bytes = disk.changed_in_memory();
    let closed = disk.close();
    let (volume, content) = made.inspect_err(|_| target::remove_new_overlay(new_overlay))?;
    closed?;
    match session.output() {
        Output::Json => common.write_json(session, &volume, &content, changed_bytes),
        Output::Text => common.write_text(&volume, &content, changed_bytes),
    }
}

impl Common {
    fn open(&self) -> Result<Disk> {
        let image = self.image.image_alone("to create a filesystem in")?;
        self.write.open(&self.source, &image)
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

    fn write_text(&self, volume: &Volume, content: &Content, changed: Option<u64>) -> Result<()> {
        let mut out = stdout()?;
        let (name, kind) = (volume.name(), content.kind);
        let mut line = format!("{name}: {kind}, {}", units(volume.size_bytes()));
        for (word, value) in [("label", content.label()), ("UUID", content.uuid.clone())] {
            line.extend(value.map(|value| format!(", {word} {}", message(&value))));
        }
        writeln!(out, "{line}")?;
        if let Some(bytes) = changed.filter(|_| self.write.dry_run) {
            writeln!(out, "{bytes} bytes of the disk would change")?;
        }
        Ok(out.flush()?)
    }

    fn write_json(
        &self,
        session: &Session,
        volume: &Volume,
        content: &Content,
        changed: Option<u64>,
    ) -> Result<()> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("volume", volume.name().into());
        put("size_bytes", volume.size_bytes().into());
        put("type", content.kind.into());
        put("label", content.label().into());
        put("uuid", content.uuid.clone().into());
        put("dry_run", self.write.dry_run.into());
        if let Some(bytes) = changed {
            put("changed_bytes", bytes.into());
        }
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        Ok(out.flush()?)
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

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    // getrandom(2) returns this few bytes completely or not at all.
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    Ok(bytes)
}

/// Returns the given serial number, or a random one.
fn serial(given: Option<u32>) -> Result<u32> {
    given.map_or_else(|| Ok(u32::from_le_bytes(random()?)), Ok)
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
