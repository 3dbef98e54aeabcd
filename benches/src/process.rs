//! Queries about other processes, by `/proc`.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::machine;

/// Returns the processes, except this one, that have `path` or a path below it on their command
/// line, sorted by number.
pub(crate) fn naming(path: &Path) -> Result<Vec<u32>> {
    let needle = path.as_os_str().as_encoded_bytes();
    let names = |pid: &u32| *pid != std::process::id() && contains(&command_line(*pid), needle);
    Ok(all()?.into_iter().filter(names).collect())
}

/// Returns the processes that have `path` in their environment: those that were started with it,
/// and all their descendants.
pub(crate) fn started_with(path: &Path) -> Result<Vec<u32>> {
    let needle = path.as_os_str().as_encoded_bytes();
    let environment = |pid: &u32| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let has_it = |pid: &u32| *pid != std::process::id() && contains(&environment(pid), needle);
    Ok(all()?.into_iter().filter(has_it).collect())
}

/// Returns the children of a process, their children, and so on.
pub(crate) fn descendants(ancestor: u32) -> Result<Vec<u32>> {
    let parents: Vec<_> = all()?
        .into_iter()
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![ancestor];
    let mut at = 0;
    while let Some(&of) = found.get(at) {
        let children = parents.iter().filter(|(_, parent)| *parent == of);
        found.extend(children.map(|(pid, _)| *pid));
        at += 1;
    }
    found.remove(0);
    Ok(found)
}

/// Returns true if the process has not ended. A zombie that is not reaped yet still has a
/// directory, but an empty command line.
pub(crate) fn is_running(pid: u32) -> bool {
    !command_line(pid).is_empty()
}

/// Returns the largest resident set size so far.
pub(crate) fn peak_memory_kib(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    machine::kib_field(&text, "VmHWM:")
}

/// Returns the current proportional resident set size: of shared pages, this process' part.
pub(crate) fn proportional_memory_kib(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    machine::kib_field(&text, "Pss:")
}

fn all() -> Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        pids.extend(name.to_str().and_then(|text| text.parse::<u32>().ok()));
    }
    pids.sort_unstable();
    Ok(pids)
}

fn command_line(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it, in parentheses, can contain any character: proc(5).
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_of_children_are_descendants() {
        // The `:` after the program keeps the shell from replacing itself with it.
        let mut shell = Command::new("sh");
        shell.args(["-c", "sh -c 'echo ready; read line; :'; :"]);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut word = [0; 5];
        let out = child.stdout.as_mut().unwrap();
        out.read_exact(&mut word).unwrap();
        let below = descendants(child.id()).unwrap();
        assert_eq!(below.len(), 1, "{below:?}");
        assert!(proportional_memory_kib(below[0]).unwrap() > 0);
        let ours = descendants(std::process::id()).unwrap();
        assert!(ours.contains(&child.id()) && ours.contains(&below[0]));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!is_running(child.id()));
    }
}
