//! `/etc/resolv.conf` (resolv.conf(5)), for guests in which no program generates it.

use super::super::super::EntryKind;
use super::super::super::guest::Guest;
use super::super::super::text::of_lines;
use super::files::Files;
use super::links::{Setup, joined, nameservers, search};
use diskfs_disk::Result;

const PATH: &str = "/etc/resolv.conf";

/// The number of name servers that the C library uses (`MAXNS`).
const MAX_SERVERS: usize = 3;

/// Writes the file, unless it is a symlink to a file that is generated at boot. The line `options`
/// is kept.
pub(super) fn write(guest: &mut Guest, setup: &Setup, files: &mut Files) -> Result<()> {
    let servers = nameservers(&setup.links);
    let domains = search(&setup.links);
    if servers.is_empty() && domains.is_empty() {
        return Ok(());
    }
    let link = guest.stage.link_entry(PATH)?;
    if let Some(EntryKind::Symlink(target)) = link.map(|entry| entry.kind) {
        guest.note(format!(
            "{PATH} was not changed: it is a symlink to {target}"
        ));
        return Ok(());
    }
    if servers.len() > MAX_SERVERS {
        guest.note(format!(
            "{PATH} has too many name servers: only the first {MAX_SERVERS} are used"
        ));
    }
    let before = guest.stage.text(PATH)?.unwrap_or_default();
    let others: Vec<&str> = ["nameserver", "search", "domain", "#", ";"].into();
    let is_kept = |line: &&str| {
        let word = line.split_whitespace().next().unwrap_or_default();
        !word.is_empty() && !others.iter().any(|other| word.starts_with(other))
    };
    let mut lines: Vec<String> = servers
        .iter()
        .map(|it| format!("nameserver {it}"))
        .collect();
    if !domains.is_empty() {
        lines.insert(0, format!("search {}", joined(&domains, " ")));
    }
    lines.extend(before.lines().filter(is_kept).map(str::to_owned));
    files.add(PATH, &of_lines(lines), 0o644);
    Ok(())
}
