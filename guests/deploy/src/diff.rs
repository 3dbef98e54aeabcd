//! Changes in human-readable form.

use std::time::Duration;

use similar::TextDiff;

use super::stage::{Aspect, Change, Contents, Entry, EntryKind, Stage};
use diskfs_disk::Result;

/// The size limit for diffs. Larger files are only reported as different.
const LIMIT_BYTES: usize = 1 << 20;

/// The time limit for a diff. After it, less common text is found, and more lines appear as
/// changed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The number of context lines around a change.
const CONTEXT_LINES: usize = 3;

/// Files whose contents must not appear in a log.
const SECRET: [&str; 6] = [
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/etc/master.passwd",
    "/var/lib/systemd/random-seed",
];

/// Returns the text of all changes.
pub(super) fn of(stage: &Stage, changes: &[Change]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for change in changes {
        out.extend(header(change).into_bytes());
        if has_text(change) {
            contents(stage, change, &mut out)?;
        }
    }
    Ok(out)
}

/// Describes the change of a path: `created /etc/motd (file, 0644, 0:0)`.
fn header(change: &Change) -> String {
    let path = change.path.escape_debug();
    match (&change.before, &change.after) {
        (None, Some(after)) => format!("created {path} ({})\n", described(after)),
        (Some(_), None) => format!("removed {path}\n"),
        (Some(before), Some(after)) => {
            let mut what = Vec::new();
            if std::mem::discriminant(&before.kind) != std::mem::discriminant(&after.kind) {
                what.push(format!("{} -> {}", before.kind.name(), after.kind.name()));
            }
            for aspect in &change.aspects {
                what.push(match aspect {
                    Aspect::Contents => target(after).unwrap_or_else(|| "contents".to_owned()),
                    Aspect::Mode => format!(
                        "mode {:04o} -> {:04o}",
                        before.permissions, after.permissions
                    ),
                    Aspect::Owner => format!(
                        "owner {}:{} -> {}:{}",
                        before.uid, before.gid, after.uid, after.gid
                    ),
                    Aspect::Xattrs => {
                        let names: Vec<&str> = after.xattrs.keys().map(String::as_str).collect();
                        format!("attributes {}", names.join(", "))
                    }
                });
            }
            format!("changed {path} ({})\n", what.join(", "))
        }
        (None, None) => String::new(),
    }
}

fn described(entry: &Entry) -> String {
    if let EntryKind::File(Contents::HardLinkTo(first)) = &entry.kind {
        return format!("hard link to {}", first.escape_debug());
    }
    let what = target(entry).unwrap_or_else(|| entry.kind.name().to_owned());
    format!(
        "{what}, {:04o}, {}:{}",
        entry.permissions, entry.uid, entry.gid
    )
}

fn target(entry: &Entry) -> Option<String> {
    match &entry.kind {
        EntryKind::Symlink(target) => Some(format!("symlink to {}", target.escape_debug())),
        _ => None,
    }
}

/// Returns true if the change includes new contents of a file.
fn has_text(change: &Change) -> bool {
    let is_file = |entry: &Entry| matches!(entry.kind, EntryKind::File(_));
    let is_new = change.before.is_none() || change.aspects.contains(&Aspect::Contents);
    change.after.as_ref().is_some_and(is_file) && is_new
}

fn contents(stage: &Stage, change: &Change, out: &mut Vec<u8>) -> Result<()> {
    let Some(Entry {
        kind: EntryKind::File(Contents::Bytes(new)),
        ..
    }) = &change.after
    else {
        return Ok(());
    };
    if is_secret(&change.path) || has_secret(&change.path, new) {
        out.extend_from_slice(b"  (contents hidden: they may contain secrets)\n");
        return Ok(());
    }
    let is_file = |entry: &Entry| matches!(entry.kind, EntryKind::File(_));
    let old = match change.before.as_ref().filter(|before| is_file(before)) {
        Some(before) if before.size_bytes > LIMIT_BYTES as u64 => None,
        Some(before) => Some(
            stage
                .guest()
                .read_at_most(&change.path, before.size_bytes)?,
        ),
        None => Some(Vec::new()),
    };
    let old = old.filter(|old| !old.contains(&0));
    let is_shown = new.len() <= LIMIT_BYTES && !new.contains(&0);
    let Some(old) = old.filter(|_| is_shown) else {
        out.extend_from_slice(format!("  ({} bytes)\n", new.len()).as_bytes());
        return Ok(());
    };
    unified(change, &old, new, out);
    Ok(())
}

fn is_secret(path: &str) -> bool {
    let is_key = path.starts_with("/etc/ssh/ssh_host_") && path.ends_with("_key");
    is_key || SECRET.contains(&path)
}

/// Returns true if a text contains a private key, or a password hash in the `/etc/passwd` of a
/// guest without `/etc/shadow`.
fn has_secret(path: &str, text: &[u8]) -> bool {
    let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    has(b" PRIVATE KEY-----") || path == "/etc/passwd" && has(b":$")
}

/// Writes a unified diff as `diff -u` does, but without times: those of new files are not known
/// yet.
fn unified(change: &Change, old: &[u8], new: &[u8], out: &mut Vec<u8>) {
    let lines = |text| <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect::<Vec<&[u8]>>();
    let (old, new) = (lines(old), lines(new));
    let diff = TextDiff::configure()
        .timeout(PATIENCE)
        .newline_terminated(true)
        .diff_slices(&old, &new);
    let path = change.path.escape_debug();
    let from = if change.before.is_some() {
        format!("a{path}")
    } else {
        "/dev/null".to_owned()
    };
    let mut header = Some(format!("--- {from}\n+++ b{path}\n"));
    let mut diff = diff.unified_diff();
    for hunk in diff.context_radius(CONTEXT_LINES).iter_hunks() {
        out.extend(header.take().unwrap_or_default().into_bytes());
        out.extend(format!("{}\n", hunk.header()).into_bytes());
        for line in hunk.iter_changes() {
            out.extend(line.tag().to_string().into_bytes());
            out.extend_from_slice(line.value());
            if !line.value().ends_with(b"\n") {
                out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }
}
