//! Our partition list of a GPT, and that of `sfdisk --json`.

use std::path::Path;

use anyhow::{Context, Result};
use diskfs_block::BlockRead;
use diskfs_volume::{PartitionKind, PartitionTable, SectorSize, TableKind, read_table_with};
use serde_json::Value;

use super::gpt_image::{SECTOR, build};
use super::{Rule, Verdict, command, output, write_image};
use crate::Sparse;
use crate::random::Random;

/// A partition, with the properties that both report.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    number: u64,
    start: u64,
    sectors: u64,
    type_guid: String,
    guid: String,
    name: String,
    attributes: String,
}

/// A reader's answer to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// The disk has a GPT with this id and these partitions.
    Gpt(String, Vec<Row>),
    /// The disk has a table of another kind, or none.
    Other,
    /// The disk has a GPT that cannot be used.
    Refused(String),
}

/// Builds a disk and compares the answers.
pub(super) fn compare(random: &mut Random, directory: &Path) -> Result<Verdict> {
    let image = build(random);
    let path = directory.join("disk");
    write_image(&path, &image)?;
    Ok(verdict(&image, &ours(&image), &theirs(&path)?))
}

fn ours(device: &dyn BlockRead) -> Answer {
    match read_table_with(device, SectorSize::B512) {
        Ok(Some(table)) if matches!(table.kind, TableKind::Gpt | TableKind::HybridMbr) => {
            Answer::Gpt(table.disk_id.clone(), our_rows(&table))
        }
        Ok(_) => Answer::Other,
        Err(e) => Answer::Refused(e.to_string()),
    }
}

fn our_rows(table: &PartitionTable) -> Vec<Row> {
    let row = |partition: &diskfs_volume::Partition| {
        let PartitionKind::Gpt {
            type_guid,
            guid,
            name,
            attributes,
        } = &partition.kind
        else {
            return None;
        };
        Some(Row {
            number: partition.number.into(),
            start: partition.start_bytes / SECTOR,
            sectors: partition.len_bytes / SECTOR,
            type_guid: type_guid.to_string(),
            guid: guid.to_string(),
            name: name.clone(),
            attributes: attributes.to_string(),
        })
    };
    table.partitions.iter().filter_map(row).collect()
}

fn theirs(path: &Path) -> Result<Answer> {
    let out = output(command("sfdisk").arg("--json").arg(path))?;
    if !out.status.success() {
        return Ok(Answer::Other);
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let json: Value = serde_json::from_str(&text).with_context(|| text.clone().into_owned())?;
    let table = &json["partitiontable"];
    if table["label"] != "gpt" {
        return Ok(Answer::Other);
    }
    let node = path.to_string_lossy();
    let rows = table["partitions"].as_array().into_iter().flatten();
    let rows = rows.map(|row| their_row(row, &node)).collect::<Option<_>>();
    let id = text_of(&table["id"]).to_lowercase();
    Ok(Answer::Gpt(
        id,
        rows.with_context(|| text.clone().into_owned())?,
    ))
}

fn their_row(row: &Value, node: &str) -> Option<Row> {
    Some(Row {
        number: text_of(&row["node"]).strip_prefix(node)?.parse().ok()?,
        // sfdisk omits a start of zero.
        start: row.get("start").map_or(Some(0), Value::as_u64)?,
        sectors: row["size"].as_u64()?,
        type_guid: text_of(&row["type"]).to_lowercase(),
        guid: text_of(&row["uuid"]).to_lowercase(),
        name: text_of(&row["name"]),
        attributes: text_of(&row["attrs"]),
    })
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// An entry whose first LBA is after its last one.
const REVERSED: Rule = Rule {
    name: "reversed entry",
    reason: "sfdisk lists a partition without sectors; ours warns and leaves it out",
};

/// An entry with a nil type and a first LBA.
const UNUSED: Rule = Rule {
    name: "unused entry",
    reason: "a nil type means unused (UEFI 5.3.3); sfdisk lists the entry if it has a first LBA",
};

/// A name that is not valid UTF-16.
const HALF_PAIR: Rule = Rule {
    name: "half of a surrogate pair",
    reason: "sfdisk prints the half as three bytes, which are not UTF-8; ours is U+FFFD",
};

/// A partition whose length in bytes is more than 64 bits.
const TOO_LONG: Rule = Rule {
    name: "length of more than 64 bits",
    reason: "ours is the largest length in bytes; sfdisk prints the number of sectors",
};

/// A header whose range of usable sectors is empty, contains the primary header, or ends after the
/// disk.
const USABLE: Rule = Rule {
    name: "unusual range of usable sectors",
    reason: "sfdisk uses the other copy or refuses; ours warns and reads: the checksums are \
             correct, the disk may be truncated, and the range is not needed to find partitions",
};

/// A header whose entries do not have a size of 128, 256, 512 ... 4096 bytes.
const ENTRY_SIZE: Rule = Rule {
    name: "unusual size of entries",
    reason: "UEFI 5.3.2 allows 128 bytes times a power of two, and ours takes those up to 4096; \
             sfdisk takes any size",
};

const NIL: &str = "00000000-0000-0000-0000-000000000000";

/// Returns the rows of sfdisk in the form of ours, and the rules that this needs.
fn as_ours(rows: &[Row]) -> (Vec<Row>, Vec<Rule>) {
    let mut rules = Vec::new();
    let mut kept = Vec::new();
    for row in rows {
        if row.type_guid == NIL {
            rules.push(UNUSED);
        } else if row.sectors == 0 {
            rules.push(REVERSED);
        } else {
            let mut row = row.clone();
            if row.sectors > u64::MAX / SECTOR {
                rules.push(TOO_LONG);
                row.sectors = u64::MAX / SECTOR;
            }
            if row.name.contains(HALF) {
                rules.push(HALF_PAIR);
                row.name = row.name.replace(HALF, "\u{fffd}");
            }
            kept.push(row);
        }
    }
    (kept, rules)
}

/// The three bytes of half a pair, each replaced because it is not UTF-8.
const HALF: &str = "\u{fffd}\u{fffd}\u{fffd}";

/// Returns the rules for the headers at the places where both programs look for them.
fn of_headers(image: &Sparse) -> Vec<Rule> {
    let last = (image.size_bytes() / SECTOR).saturating_sub(1);
    let mut rules = Vec::new();
    for at in [SECTOR, last * SECTOR] {
        let mut header = [0; 92];
        if image.read_at(at, &mut header).is_err() || &header[..8] != b"EFI PART" {
            continue;
        }
        let lba = |field: usize| {
            header[field..]
                .first_chunk()
                .map(|b| u64::from_le_bytes(*b))
        };
        if lba(40) > lba(48) || lba(40) <= Some(1) || lba(48) > Some(last) {
            rules.push(USABLE);
        }
        let size = header[84..].first_chunk().map(|b| u32::from_le_bytes(*b));
        if !size.is_some_and(|size| (128..=4096).contains(&size) && size.is_power_of_two()) {
            rules.push(ENTRY_SIZE);
        }
    }
    rules
}

fn verdict(image: &Sparse, ours: &Answer, theirs: &Answer) -> Verdict {
    let different = match (ours, theirs) {
        (Answer::Gpt(id, rows), Answer::Gpt(their_id, their_rows)) => {
            let (their_rows, rules) = as_ours(their_rows);
            if id == their_id && *rows == their_rows {
                return Verdict::read(rules);
            }
            let only = |a: &[Row], b: &[Row]| -> Vec<Row> {
                a.iter().filter(|row| !b.contains(row)).cloned().collect()
            };
            format!(
                "only ours {id} {:?}, only sfdisk's {their_id} {:?}",
                only(rows, &their_rows),
                only(&their_rows, rows)
            )
        }
        (Answer::Other | Answer::Refused(_), Answer::Other) => return Verdict::Refused,
        (_, Answer::Other) => format!("sfdisk refuses, ours {ours:?}"),
        _ => format!("ours {ours:?}, sfdisk reads it"),
    };
    // The programs then use different copies of the table.
    match of_headers(image) {
        rules if rules.is_empty() => Verdict::Different(different),
        rules => Verdict::read(rules),
    }
}
