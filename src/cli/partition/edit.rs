//! Changes of a partition table.

use std::io::Write as _;

use serde_json::{Map, Value};

use diskfs::image::create::Existing;
use diskfs::volume::edit::{NewPartition, NewTable, TableEditor, TableId};
use diskfs::volume::{Guid, PartitionTable, TableKind};
use diskfs::{Disk, Error, ErrorKind, Result};

use super::super::operand::Operand;
use super::super::random;
use super::super::session::{Output, Session, stdout};
use super::super::show::json;
use super::super::target;
use super::{Access, Action, Add, CreateTable, TableChoice, Target, UuidOwner, document, text};

/// The result of a change.
struct Edited {
    /// The partition that was added or changed.
    partition: Option<u32>,
    is_written: bool,
}

/// Makes the change that an action describes, and reports it.
pub(super) fn run(action: &Action, session: &mut Session) -> Result<()> {
    let Some((image, target)) = target_of(action) else {
        return Ok(());
    };
    let new_overlay = target.write.new_overlay();
    let mut disk = target.source.open(image, &target.write, Access::Writable)?;
    let done = change(action, target, &mut disk).and_then(|edited| {
        let table = target.source.table(&disk)?;
        Ok((edited, table))
    });
    let free = target.source.free_space(&disk);
    session.print_warnings(&disk);
    let changed_bytes = disk.changed_in_memory();
    let path = disk.path().to_owned();
    let closed = disk.close();
    let (edited, table) = done.inspect_err(|_| target::remove_new_overlay(new_overlay))?;
    closed?;
    for warning in table.iter().flat_map(|table| &table.warnings) {
        session.warn(&format!("{}: {warning}", path.display()));
    }
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let mut fields = Map::new();
            let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
            put(
                "partition_table",
                table.as_ref().map(document::table).into(),
            );
            put("free", document::free(&free));
            put("partition", edited.partition.into());
            put("changed", edited.is_written.into());
            put("dry_run", target.write.dry_run.into());
            if let Some(bytes) = changed_bytes {
                put("changed_bytes", bytes.into());
            }
            json::write(&mut out, session.command(), Value::Object(fields))?;
        }
        Output::Text => {
            out.write_all(report(action, &edited, table.as_ref()).as_bytes())?;
            if let Some(bytes) = changed_bytes.filter(|_| target.write.dry_run) {
                writeln!(out, "{bytes} bytes of the disk would change")?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Describes the result in text.
fn report(action: &Action, edited: &Edited, table: Option<&PartitionTable>) -> String {
    if !edited.is_written {
        return "nothing to change: the partition table is as requested\n".to_owned();
    }
    let partitions = table.map_or(&[][..], |table| &table.partitions);
    let changed = partitions
        .iter()
        .find(|p| Some(p.number) == edited.partition);
    let mut report = changed.map(text::partition).unwrap_or_default();
    if cfg!(feature = "microvm")
        && let (Action::Grow { number, .. }, Some(partition)) = (action, changed)
        && !partition.is_extended()
    {
        report = format!(
            "{report}its filesystem keeps its size; `diskfs resize --volume p{number}` grows it
"
        );
    }
    report
}

/// Returns the image that an action changes, and how to open it.
fn target_of(action: &Action) -> Option<(&Operand, &Target)> {
    Some(match action {
        Action::List { .. } => return None,
        Action::CreateTable(args) => (&args.image, &args.disk),
        Action::Add(args) => (&args.image, &args.disk),
        Action::Delete { image, disk, .. }
        | Action::Grow { image, disk, .. }
        | Action::MoveBackup { image, disk }
        | Action::SetType { image, disk, .. }
        | Action::SetName { image, disk, .. }
        | Action::SetUuid { image, disk, .. }
        | Action::SetFlags { image, disk, .. }
        | Action::Repair { image, disk } => (image, disk),
    })
}

fn change(action: &Action, target: &Target, disk: &mut Disk) -> Result<Edited> {
    let size = target.source.size();
    if let Action::CreateTable(args) = action {
        let existing = if args.force {
            Existing::Replace
        } else {
            Existing::Keep
        };
        let created = disk.create_partition_table(args.table()?, existing, size);
        created.map_err(|error| match error.kind() {
            ErrorKind::Exists => error.with_hint(
                "`diskfs info` shows the contents; --force replaces them, and they are lost",
            ),
            _ => error,
        })?;
        return Ok(Edited {
            partition: None,
            is_written: true,
        });
    }
    let guid = match action {
        Action::Add(args) => {
            args.check_uuid(target.source.table(disk)?.map(|table| table.kind))?;
            guid_or_random(args.uuid.as_deref())?
        }
        _ => Guid::NIL,
    };
    let id = match action {
        Action::SetUuid { owner, uuid, .. } => Some((*owner, uuid.as_deref())),
        _ => None,
    };
    if let Some((owner, uuid)) = id {
        return set_uuid(disk, target, owner, uuid);
    }
    let (partition, is_written) =
        disk.edit_partitions(size, |editor| apply(action, editor, guid))?;
    Ok(Edited {
        partition,
        is_written,
    })
}

/// Makes a change in memory, and returns the number of the partition, unless it is gone.
fn apply(
    action: &Action,
    editor: &mut TableEditor,
    guid: Guid,
) -> diskfs::block::Result<Option<u32>> {
    match action {
        Action::List { .. } | Action::CreateTable(_) | Action::SetUuid { .. } => Ok(None),
        Action::Add(args) => editor.add(&args.partition(guid)).map(Some),
        Action::Delete { number, .. } => editor.delete(*number).map(|()| None),
        Action::Grow { number, size, .. } => {
            let size = size.unwrap_or(diskfs::volume::edit::NewSize::Largest);
            editor.grow(*number, size).map(|_| Some(*number))
        }
        Action::MoveBackup { .. } => editor.move_backup().map(|()| None),
        Action::Repair { .. } => editor.repair().map(|()| None),
        Action::SetType {
            number,
            partition_type,
            ..
        } => editor
            .set_type(*number, *partition_type)
            .map(|()| Some(*number)),
        Action::SetName { number, name, .. } => {
            editor.set_name(*number, name).map(|()| Some(*number))
        }
        Action::SetFlags { number, flags, .. } => {
            for (flag, set) in flags {
                editor.set_flag(*number, *flag, *set)?;
            }
            Ok(Some(*number))
        }
    }
}

/// Sets the UUID of a partition or the id of the disk.
fn set_uuid(
    disk: &mut Disk,
    target: &Target,
    owner: UuidOwner,
    uuid: Option<&str>,
) -> Result<Edited> {
    let size = target.source.size();
    let kind = target.source.table(disk)?.map(|table| table.kind);
    let (partition, is_written) = match owner {
        UuidOwner::Partition(number) => {
            let guid = guid_or_random(uuid)?;
            let set = |editor: &mut TableEditor| editor.set_guid(number, guid);
            (Some(number), disk.edit_partitions(size, set)?.1)
        }
        UuidOwner::Disk => {
            let id = match kind {
                Some(TableKind::Mbr) => TableId::Signature(signature_or_random(uuid)?),
                _ => TableId::Guid(guid_or_random(uuid)?),
            };
            let set = |editor: &mut TableEditor| editor.set_disk_id(id);
            (None, disk.edit_partitions(size, set)?.1)
        }
    };
    Ok(Edited {
        partition,
        is_written,
    })
}

impl CreateTable {
    fn table(&self) -> Result<NewTable> {
        let id = self.id.as_deref();
        Ok(match self.kind {
            TableChoice::Gpt => NewTable::Gpt {
                guid: guid_or_random(id)?,
            },
            TableChoice::Mbr => NewTable::Mbr {
                signature: signature_or_random(id)?,
            },
        })
    }
}

impl Add {
    /// Fails if the partition is given a UUID that the table cannot store.
    fn check_uuid(&self, table: Option<TableKind>) -> Result<()> {
        if self.uuid.is_none() || table != Some(TableKind::Mbr) {
            return Ok(());
        }
        let reason = "--uuid: the partitions of an MBR have no UUIDs of their own";
        let hint = "leave out --uuid, or create a GPT; the id of the disk determines the PARTUUIDs \
                    of an MBR";
        Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint))
    }

    fn partition(&self, guid: Guid) -> NewPartition {
        NewPartition {
            number: self.number,
            start_bytes: self.start,
            size_bytes: self.size,
            partition_type: self.partition_type,
            name: self.name.clone(),
            guid,
            flags: self.flags.clone(),
            role: self.role.map(Into::into),
        }
    }
}

fn guid_or_random(given: Option<&str>) -> Result<Guid> {
    if let Some(text) = given {
        return Ok(text.parse()?);
    }
    let uuid = random::uuid()?;
    Ok(Guid::from_u128(uuid.as_u128()))
}

/// Returns the id of a disk with an MBR: `1234abcd`, with or without `0x`.
fn signature_or_random(given: Option<&str>) -> Result<u32> {
    let Some(text) = given else {
        // Zero means that there is no id.
        return Ok(u32::from_le_bytes(random::bytes()?).max(1));
    };
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_hex = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parsed = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex);
    parsed.ok_or_else(|| {
        let reason = format!(
            "invalid disk id `{}`",
            super::super::show::name::message(text)
        );
        Error::new(ErrorKind::Invalid, reason)
            .with_hint("the id of a disk with an MBR has eight hexadecimal digits: 1234abcd")
    })
}
