//! Our map and contents of a qcow2 image, and those of `qemu-img`.

use std::path::Path;

use anyhow::{Context, Result};
use diskfs_image::{Format, Image, MapEntry, OpenOptions};
use serde_json::{Value, json};

use super::qcow2_image::{IMAGE, SNAPSHOT, build};
use super::{Rule, Verdict, command, output};
use crate::random::Random;

/// The result of a reader, or the reason why it refuses.
type Answer<T> = Result<T, String>;

/// Builds an image and compares maps and contents.
pub(super) fn compare(random: &mut Random, directory: &Path) -> Result<Verdict> {
    let has_snapshot = build(random, directory)?;
    let mut refused = Refused::default();
    let maps = (our_map(directory), their_map(directory)?);
    if let Some(different) = difference("map", maps, &mut refused, map_difference) {
        return Ok(Verdict::Different(different));
    }
    for snapshot in [None, Some(SNAPSHOT)] {
        if snapshot.is_some() && !has_snapshot {
            continue;
        }
        let contents = (
            our_contents(directory, snapshot),
            their_contents(directory, snapshot)?,
        );
        let what = snapshot.unwrap_or("disk");
        if let Some(different) = difference(what, contents, &mut refused, byte_difference) {
            return Ok(Verdict::Different(different));
        }
    }
    Ok(if refused.by_both {
        Verdict::Refused
    } else {
        Verdict::read(refused.rules)
    })
}

/// The refusals of a case.
#[derive(Debug, Default)]
struct Refused {
    /// True if both readers refused something.
    by_both: bool,
    /// The rules by which only ours refuses.
    rules: Vec<Rule>,
}

/// An entry of a table with reserved bits.
const RESERVED: Rule = Rule {
    name: "reserved bits",
    reason: "ours refuses entries with bits that the specification reserves, like `qemu-img \
             check`; QEMU ignores them on reading",
};

/// A table or cluster past the end of the file.
const PAST_END: Rule = Rule {
    name: "past the end of the file",
    reason: "ours refuses tables and clusters that do not exist, because the file was truncated; \
             QEMU reads zeroes",
};

/// Returns the rule for what only ours refuses.
fn rule_of(reason: &str) -> Option<Rule> {
    match () {
        () if reason.contains("reserved bits") => Some(RESERVED),
        () if reason.contains("past the end of the file") => Some(PAST_END),
        () => None,
    }
}

/// Returns the difference of two answers; adds to `refused` what a reader refuses.
fn difference<T: PartialEq>(
    what: &str,
    (ours, theirs): (Answer<Vec<T>>, Answer<Vec<T>>),
    refused: &mut Refused,
    describe: impl Fn(&[T], &[T]) -> String,
) -> Option<String> {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) if ours == theirs => None,
        (Ok(ours), Ok(theirs)) => Some(format!("{what}: {}", describe(&ours, &theirs))),
        (Err(_), Err(_)) => {
            refused.by_both = true;
            None
        }
        (Ok(_), Err(e)) => Some(format!("{what}: only qemu-img refuses: {e}")),
        (Err(e), Ok(_)) => match rule_of(&e) {
            Some(rule) => {
                refused.rules.push(rule);
                None
            }
            None => Some(format!("{what}: only ours refuses: {e}")),
        },
    }
}

fn map_difference(ours: &[Value], theirs: &[Value]) -> String {
    let pair = ours
        .iter()
        .zip(theirs)
        .find(|(ours, theirs)| ours != theirs);
    match pair {
        Some((ours, theirs)) => format!("ours {ours}, qemu-img's {theirs}"),
        None => format!("{} entries, qemu-img {}", ours.len(), theirs.len()),
    }
}

fn byte_difference(ours: &[u8], theirs: &[u8]) -> String {
    let at = ours.iter().zip(theirs).position(|(a, b)| a != b);
    format!(
        "{} bytes, qemu-img {}, first difference at {at:?}",
        ours.len(),
        theirs.len()
    )
}

fn open(directory: &Path, snapshot: Option<&str>) -> Answer<Image> {
    let options = OpenOptions {
        format: Some(Format::Qcow2),
        snapshot: snapshot.map(str::to_owned),
        ..OpenOptions::default()
    };
    Image::open(&directory.join(IMAGE), &options).map_err(|e| e.to_string())
}

fn our_map(directory: &Path) -> Answer<Vec<Value>> {
    let runs = open(directory, None)?.map();
    runs.map(|run| run.map(as_json).map_err(|e| e.to_string()))
        .collect()
}

/// Returns an entry in the form of `qemu-img map`.
fn as_json(run: MapEntry) -> Value {
    let mut value = json!({
        "start": run.start,
        "length": run.len_bytes,
        "depth": run.depth,
        "present": run.present,
        "zero": run.zero,
        "data": run.data,
        "compressed": run.compressed,
    });
    if let Some(offset) = run.host_offset {
        value["offset"] = offset.into();
    }
    value
}

fn their_map(directory: &Path) -> Result<Answer<Vec<Value>>> {
    let mut map = command("qemu-img");
    map.args(["map", "--output=json", "-f", "qcow2", IMAGE]);
    let out = output(map.current_dir(directory))?;
    if !out.status.success() {
        return Ok(Err(String::from_utf8_lossy(&out.stderr).into_owned()));
    }
    Ok(Ok(
        serde_json::from_slice(&out.stdout).context("the output of qemu-img map")?
    ))
}

fn our_contents(directory: &Path, snapshot: Option<&str>) -> Answer<Vec<u8>> {
    let device = open(directory, snapshot)?.device();
    let len = usize::try_from(device.size_bytes()).map_err(|e| e.to_string())?;
    let mut bytes = vec![0; len];
    device.read_at(0, &mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}

fn their_contents(directory: &Path, snapshot: Option<&str>) -> Result<Answer<Vec<u8>>> {
    const TARGET: &str = "contents";
    let mut convert = command("qemu-img");
    convert.args(["convert", "-f", "qcow2", "-O", "raw"]);
    if let Some(snapshot) = snapshot {
        convert.arg("-l").arg(format!("snapshot.name={snapshot}"));
    }
    convert.args([IMAGE, TARGET]);
    let out = output(convert.current_dir(directory))?;
    if !out.status.success() {
        return Ok(Err(String::from_utf8_lossy(&out.stderr).into_owned()));
    }
    Ok(Ok(std::fs::read(directory.join(TARGET))?))
}
