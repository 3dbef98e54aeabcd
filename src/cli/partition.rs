//! The command `diskfs partition`.

mod document;
mod edit;
mod text;

use std::io::Write as _;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value};

use diskfs::volume::SectorSize;
use diskfs::volume::edit::{Flag, FreeSpace, MbrRole, NewSize, PartitionType};
use diskfs::{Disk, Result};

use super::bytes;
use super::operand::Operand;
use super::options::{ImageArgs, SourceArgs};
use super::session::{Output, Session, stdout};
use super::show::json;
use super::target::WriteArgs;

/// List and change the partitions of a disk: GPT and MBR
#[derive(Debug, Args)]
#[command(
    after_help = "The contents of partitions are never changed. A change that would damage a partition is refused
before anything is written, and an interruption leaves the old table or the new one. The image must
not be in use.

Examples:
  diskfs partition list disk.qcow2
  diskfs create data.raw 10G && diskfs partition create-table data.raw gpt
  diskfs partition add data.raw --type esp --size 512M --name ESP
  diskfs partition add data.raw --type root-x86-64
  qemu-img resize disk.qcow2 +20G && diskfs partition grow disk.qcow2 1
  diskfs partition set-flags disk.qcow2 2 read-only no-auto=off"
)]
pub(super) struct PartitionArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the partitions of a disk
    List {
        /// The image of the disk
        #[arg(value_name = "IMG")]
        image: Operand,
        /// List the free space, too
        #[arg(long)]
        free: bool,
        #[command(flatten)]
        disk: Source,
    },
    /// Create an empty partition table
    CreateTable(CreateTable),
    /// Add a partition: in the first free space that is large enough, without --size in the
    /// largest
    Add(Box<Add>),
    /// Delete a partition; its contents stay on the disk, unreachable
    Delete {
        /// The image of the disk
        #[arg(value_name = "IMG")]
        image: Operand,
        /// The number of the partition
        #[arg(value_parser = number)]
        number: u32,
        #[command(flatten)]
        disk: Target,
    },
    /// Grow a partition, also into the space of an image that was enlarged; its filesystem keeps
    /// its size
    Grow {
        /// The image of the disk
        #[arg(value_name = "IMG")]
        image: Operand,
        /// The number of the partition
        #[arg(value_parser = number)]
        number: u32,
        /// The new size (20G) or the size to add (+5G) [default: all free space after it]
        #[arg(value_parser = new_size)]
        size: Option<NewSize>,
        #[command(flatten)]
        disk: Target,
    },
    /// Move the backup of a GPT to the end of the disk, after the image was enlarged
    MoveBackup {
        /// The image of the disk
        #[arg(value_name = "IMG")]
        image: Operand,
        #[command(flatten)]
        disk: Target,
    },
    /// Set the type of a partition
    SetType {
        /// The image of the disk
        #[arg(value_name = "IMG")]
        image: Operand,
        /// The number of the partition
        #[arg(value_parser = number)]
        number: u32,
        /// A name (linux, esp, swap, lvm), a GUID, or the byte of an MBR (0x83)
        #[arg(value_name = "TYPE", value_parser = partition_type)]
        partition_type: PartitionType,
        #[command(flatten)]
        disk: Target,
    },
    /// Set the name of a partition of a GPT
    SetName {
        /// The image of the disk
        #[arg(value_name = "IMG")]
        image: Operand,
        /// The number of the partition
        #[arg(value_parser = number)]
        number: u32,
        /// The new name, at most 36 characters
        name: String,
        #[command(flatten)]
        disk: Target,
    },
    /// Set the UUID of a partition or of the disk
    SetUuid {
        /// The image of the disk
        #[arg(value_name = "IMG")]
        image: Operand,
        /// The number of the partition, or `disk`
        #[arg(value_name = "NUMBER", value_parser = owner)]
        owner: UuidOwner,
        /// The UUID; eight hexadecimal digits for a disk with an MBR [default: a random one]
        uuid: Option<String>,
        #[command(flatten)]
        disk: Target,
    },
    /// Set or clear flags of a partition
    SetFlags {
        /// The image of the disk
        #[arg(value_name = "IMG")]
        image: Operand,
        /// The number of the partition
        #[arg(value_parser = number)]
        number: u32,
        /// A flag to set, or with `=off` one to clear: required, no-block-io, legacy-boot, grow-fs,
        /// read-only, shadow-copy, hidden, no-auto, a bit from 48 to 63; active in an MBR
        #[arg(required = true, value_name = "FLAG", value_parser = flag_change)]
        flags: Vec<(Flag, bool)>,
        #[command(flatten)]
        disk: Target,
    },
    /// Repair a broken copy of a GPT from the other one
    Repair {
        /// The image of the disk
        #[arg(value_name = "IMG")]
        image: Operand,
        #[command(flatten)]
        disk: Target,
    },
}

/// The disk, and how to open it.
#[derive(Debug, Args)]
struct Source {
    /// The size of the disk's sectors [default: detected; 512 if there is no GPT]
    #[arg(long, value_name = "BYTES")]
    sector_size: Option<SectorBytes>,

    #[command(flatten)]
    options: ImageArgs,
}

/// The disk to change.
#[derive(Debug, Args)]
struct Target {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SectorBytes {
    #[value(name = "512")]
    B512,
    #[value(name = "4096", alias = "4k")]
    B4096,
}

#[derive(Debug, Args)]
struct CreateTable {
    /// The image of the disk
    #[arg(value_name = "IMG")]
    image: Operand,

    /// The kind of the table
    kind: TableChoice,

    /// The id of the disk: a UUID, or eight hexadecimal digits for an MBR [default: a random one]
    #[arg(long, value_name = "UUID")]
    id: Option<String>,

    /// Replace existing partitions, or a filesystem on the whole disk
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    disk: Target,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TableChoice {
    /// A GUID partition table
    Gpt,
    /// A master boot record, for disks of up to 2 TiB
    #[value(alias = "dos", alias = "msdos")]
    Mbr,
}

#[derive(Debug, Args)]
struct Add {
    /// The image of the disk
    #[arg(value_name = "IMG")]
    image: Operand,

    /// The size, such as 512M [default: the largest free space]
    #[arg(short, long, value_name = "SIZE", value_parser = bytes::parse)]
    size: Option<u64>,

    /// The offset on the disk, such as 1M [default: aligned to 1 MiB]
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse)]
    start: Option<u64>,

    /// A name (linux, esp, swap, lvm, extended), a GUID, or the byte of an MBR (0x83)
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "linux", value_parser = partition_type)]
    partition_type: PartitionType,

    /// The name in a GPT, at most 36 characters
    #[arg(short = 'L', long, default_value = "", hide_default_value = true)]
    name: String,

    /// The UUID, only in a GPT [default: a random one]
    #[arg(short = 'U', long)]
    uuid: Option<String>,

    /// A flag to set (see set-flags); can be repeated
    #[arg(long = "flag", value_name = "FLAG", value_parser = flag)]
    flags: Vec<Flag>,

    /// The number [default: the lowest free one]
    #[arg(long, value_parser = number)]
    number: Option<u32>,

    /// The kind of partition in an MBR [default: primary if possible, otherwise logical]
    #[arg(long)]
    role: Option<Role>,

    #[command(flatten)]
    disk: Target,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Role {
    Primary,
    Extended,
    Logical,
}

/// The owner of a UUID: the disk, or a partition.
#[derive(Debug, Clone, Copy)]
enum UuidOwner {
    Disk,
    Partition(u32),
}

pub(super) fn run(args: &PartitionArgs, session: &mut Session) -> Result<()> {
    match &args.action {
        Action::List { image, free, disk } => list(image, disk, *free, session),
        action => edit::run(action, session),
    }
}

fn list(image: &Operand, source: &Source, with_free: bool, session: &mut Session) -> Result<()> {
    let disk = source.open(image, &WriteArgs::default(), Access::ReadOnly)?;
    let table = source.table(&disk)?;
    let mut free = None;
    if with_free {
        free = Some(disk.partition_editor(source.size())?.free_space());
    }
    session.print_warnings(&disk);
    for warning in table.iter().flat_map(|table| &table.warnings) {
        session.warn(&format!("{}: {warning}", disk.path().display()));
    }
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let mut fields = Map::new();
            let table = table.as_ref().map(document::table);
            fields.insert("partition_table".to_owned(), table.into());
            if let Some(free) = free {
                fields.insert("free".to_owned(), document::free(&free));
            }
            json::write(&mut out, session.command(), Value::Object(fields))?;
        }
        Output::Text => {
            let text = match &table {
                Some(table) => text::table(table, &free.unwrap_or_default()),
                None => "no partition table\n".to_owned(),
            };
            out.write_all(text.as_bytes())?;
        }
    }
    Ok(out.flush()?)
}

/// The kind of access to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadOnly,
    Writable,
}

impl Source {
    fn size(&self) -> Option<SectorSize> {
        self.sector_size.map(|size| match size {
            SectorBytes::B512 => SectorSize::B512,
            SectorBytes::B4096 => SectorSize::B4096,
        })
    }

    fn open(&self, image: &Operand, write: &WriteArgs, access: Access) -> Result<Disk> {
        let image = image.image_alone("to partition")?;
        let source = SourceArgs {
            image: self.options.clone(),
            ..SourceArgs::default()
        };
        let options = source.disk_options()?;
        let options = match &write.overlay {
            _ if access == Access::ReadOnly => options,
            _ if write.dry_run => options.dry_run(),
            Some(overlay) => options.overlay(overlay),
            None => options.read_only(false),
        };
        options.open_spec(&image)
    }

    /// Reads the table of the open disk.
    fn table(&self, disk: &Disk) -> Result<Option<diskfs::volume::PartitionTable>> {
        match self.size() {
            None => Ok(disk.partition_table()?.cloned()),
            Some(size) => {
                let table = diskfs::volume::read_table_with(&*disk.device(), size);
                table.map_err(|e| diskfs::Error::from(e).in_file(disk.path()))
            }
        }
    }

    /// Returns the free space after a change; none for a table that cannot be edited.
    fn free_space(&self, disk: &Disk) -> Vec<FreeSpace> {
        let editor = disk.partition_editor(self.size());
        editor.map(|editor| editor.free_space()).unwrap_or_default()
    }
}

impl From<Role> for MbrRole {
    fn from(role: Role) -> Self {
        match role {
            Role::Primary => Self::Primary,
            Role::Extended => Self::Extended,
            Role::Logical => Self::Logical,
        }
    }
}

/// Parses the number of a partition: `2`, or `p2` as for `--volume`.
fn number(text: &str) -> std::result::Result<u32, String> {
    let digits = text.strip_prefix('p').unwrap_or(text);
    let wrong = || format!("invalid partition number `{text}`; write 1");
    match digits.parse() {
        Ok(0) | Err(_) => Err(wrong()),
        Ok(number) => Ok(number),
    }
}

fn owner(text: &str) -> std::result::Result<UuidOwner, String> {
    match text {
        "disk" => Ok(UuidOwner::Disk),
        text => number(text).map(UuidOwner::Partition),
    }
}

/// Parses a size, or after `+` the number of bytes to add.
fn new_size(text: &str) -> std::result::Result<NewSize, String> {
    match text.strip_prefix('+') {
        Some(more) => bytes::parse(more).map(NewSize::More),
        None => bytes::parse(text).map(NewSize::Bytes),
    }
}

fn partition_type(text: &str) -> std::result::Result<PartitionType, String> {
    text.parse().map_err(one_line)
}

fn flag(text: &str) -> std::result::Result<Flag, String> {
    text.parse().map_err(one_line)
}

/// Parses a flag, with `=on` or `=off` after it.
fn flag_change(text: &str) -> std::result::Result<(Flag, bool), String> {
    let (name, set) = match text.split_once('=') {
        None => (text, true),
        Some((name, "on")) => (name, true),
        Some((name, "off")) => (name, false),
        Some(_) => return Err(format!("invalid flag `{text}`; write FLAG or FLAG=off")),
    };
    Ok((flag(name)?, set))
}

fn one_line(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed() {
        assert_eq!((number("2"), number("p17")), (Ok(2), Ok(17)));
        for invalid in ["", "0", "p", "-1", "pp1"] {
            assert!(number(invalid).is_err(), "{invalid}");
        }
        assert_eq!(new_size("+1k"), Ok(NewSize::More(1024)));
        assert_eq!(new_size("1k"), Ok(NewSize::Bytes(1024)));
        assert!(new_size("++1").is_err());
        assert_eq!(flag_change("hidden"), Ok((Flag::Hidden, true)));
        assert_eq!(flag_change("hidden=off"), Ok((Flag::Hidden, false)));
        assert!(flag_change("hidden=no").is_err());
    }
}
