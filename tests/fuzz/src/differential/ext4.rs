//! Our tree of an ext2, ext3 or ext4 filesystem, and that of debugfs.
//!
//! If `e2fsck -fn` finds no error, both must agree in everything. Otherwise they must agree in what
//! both read without an error.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use diskfs_block::BlockRead;
use diskfs_ext4::{Ext4, Options};
use diskfs_vfs::{FileType, FsRead, InodeNumber, Metadata};

use super::ext4_image::{IMAGE, build};
use super::{Rule, Verdict, command, output};
use crate::random::Random;

/// The maximum number of directories to compare.
const MAX_DIRECTORIES: usize = 12;

/// The maximum number of files to compare.
const MAX_FILES: usize = 60;

/// The maximum size of a file to compare. A mutation makes sizes that no file has.
const MAX_BYTES: u64 = 1 << 20;

/// A journal that was not replayed.
const JOURNAL: Rule = Rule {
    name: "journal to replay",
    reason: "ours reads what the filesystem will be after the journal is replayed; debugfs reads \
             the filesystem without it",
};

/// A file whose contents are in its inode.
const INLINE: Rule = Rule {
    name: "inline data",
    reason: "debugfs writes the whole space of the inode, not only the size of the file",
};

/// A file that is not a regular one with the high half of a size.
const HIGH_SIZE: Rule = Rule {
    name: "high half of a size",
    reason: "only regular files have one in Linux (`ext4_isize`); debugfs prints it for all",
};

/// A short symlink with blocks.
const SHORT_TARGET: Rule = Rule {
    name: "short symlink with blocks",
    reason: "its target is in the blocks in Linux (`ext4_inode_is_fast_symlink`); debugfs decides \
             by the size alone",
};

/// A symlink whose target has a zero byte.
const ZERO_IN_TARGET: Rule = Rule {
    name: "zero in a symlink's target",
    reason: "a target ends at its first zero byte in Linux (`nd_terminate_link`); debugfs writes \
             as many bytes as the size says",
};

/// An entry of a directory: inode, mode, owner, group and size, which is `None` for a directory.
/// Only the inode is known if its inode cannot be read.
type Row = (u64, Option<(u32, u32, u32, Option<u64>)>);

/// The entries of a directory.
type Listing = BTreeMap<Vec<u8>, Row>;

/// Builds a filesystem and compares the trees.
pub(super) fn compare(random: &mut Random, directory: &Path) -> Result<Verdict> {
    let image = build(random, directory)?;
    let needs_recovery = image.byte(1024 + 0x60) & 4 != 0;
    let device: Arc<dyn BlockRead> = Arc::new(image);
    let mut check = command("e2fsck");
    let out = output(check.args(["-fn", IMAGE]).current_dir(directory))?;
    // e2fsck succeeds in spite of some errors that it would correct.
    let is_clean = out.status.success() && !String::from_utf8_lossy(&out.stdout).contains("? no");
    let differences = Comparison::findings(&device, directory, is_clean)?;
    Ok(match differences {
        None => Verdict::Refused,
        Some((found, rules)) if found.is_empty() => Verdict::read(rules),
        Some(_) if needs_recovery => Verdict::read(vec![JOURNAL]),
        Some((found, _)) => {
            let clean = if is_clean { "clean" } else { "with errors" };
            Verdict::Different(format!("{clean}: {}", found.join("; ")))
        }
    })
}

/// A comparison of two trees.
struct Comparison<'a> {
    fs: Ext4,
    directory: &'a Path,
    is_clean: bool,
    differences: Vec<String>,
    rules: Vec<Rule>,
}

/// The differences, and the rules for what is not one.
type Findings = (Vec<String>, Vec<Rule>);

impl<'a> Comparison<'a> {
    /// Compares the trees. Returns the differences, or `None` if ours refuses the filesystem and
    /// may do so.
    fn findings(
        device: &Arc<dyn BlockRead>,
        directory: &'a Path,
        is_clean: bool,
    ) -> Result<Option<Findings>> {
        let options = Options {
            cache_bytes: 4 << 20,
        };
        let fs = match Ext4::open(Arc::clone(device), &options) {
            Ok(fs) => fs,
            Err(_) if !is_clean => return Ok(None),
            Err(e) => return Ok(Some((vec![format!("ours does not open: {e}")], Vec::new()))),
        };
        let mut comparison = Self {
            fs,
            directory,
            is_clean,
            differences: Vec::new(),
            rules: Vec::new(),
        };
        let files = comparison.tree()?;
        comparison.contents(&files)?;
        comparison.targets(&files)?;
        Ok(Some((comparison.differences, comparison.rules)))
    }

    /// Compares the directories. Returns the files that both have with the same metadata.
    fn tree(&mut self) -> Result<Vec<Metadata>> {
        let mut directories = vec![self.fs.root()];
        let mut files: Vec<Metadata> = Vec::new();
        let mut next = 0;
        while let Some(&inode) = directories.get(next) {
            next += 1;
            let (ours, theirs) = (self.listing(inode), self.their_listing(inode)?);
            let (ours, theirs) = match (ours, theirs) {
                (Ok(ours), Some(theirs)) => (ours, theirs),
                (ours, theirs) if self.is_clean => {
                    let theirs = theirs.is_some();
                    let text = format!("directory {inode:?}: ours {ours:?}, debugfs {theirs}");
                    self.differences.push(text);
                    continue;
                }
                _ => continue,
            };
            self.rows(inode, &ours, &theirs);
            for row in ours.values() {
                let Ok(metadata) = self.fs.metadata(InodeNumber(row.0)) else {
                    continue;
                };
                if metadata.is_dir() {
                    let is_new = !directories.contains(&metadata.inode);
                    if is_new && directories.len() < MAX_DIRECTORIES {
                        directories.push(metadata.inode);
                    }
                } else if files.len() < MAX_FILES
                    && !files.iter().any(|file| file.inode == metadata.inode)
                {
                    files.push(metadata);
                }
            }
        }
        Ok(files)
    }

    fn rows(&mut self, inode: InodeNumber, ours: &Listing, theirs: &Listing) {
        let names: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            let (our_row, their_row) = (ours.get(name), theirs.get(name));
            let is_same = match (our_row, their_row) {
                (Some((our_inode, Some(ours))), Some((their_inode, Some(theirs)))) => {
                    let mut theirs = *theirs;
                    let is_regular = theirs.0 & 0o170_000 == 0o100_000;
                    if !is_regular && theirs.3.is_some_and(|size| size >> 32 != 0) {
                        self.rules.push(HIGH_SIZE);
                        theirs.3 = theirs.3.map(|size| size & 0xffff_ffff);
                    }
                    our_inode == their_inode && *ours == theirs
                }
                (Some((our_inode, ours)), Some((their_inode, theirs))) => {
                    our_inode == their_inode && (!self.is_clean || ours == theirs)
                }
                _ => false,
            };
            if !is_same {
                self.differences.push(format!(
                    "{inode:?} `{}`: ours {our_row:?}, debugfs {their_row:?}",
                    name.escape_ascii()
                ));
            }
        }
    }

    fn listing(&self, directory: InodeNumber) -> Result<Listing, String> {
        let entries = self.fs.read_dir(directory, 0).map_err(|e| e.to_string())?;
        let mut listing = Listing::new();
        for entry in entries {
            let entry = entry.map_err(|e| e.to_string())?;
            if entry.name != b"." && entry.name != b".." && !entry.name.contains(&b'\n') {
                let metadata = self.fs.metadata(entry.inode).ok();
                let row = metadata.map(|m| {
                    let size = (!m.is_dir()).then_some(m.size_bytes);
                    (m.mode(), m.uid, m.gid, size)
                });
                listing.insert(entry.name, (entry.inode.0, row));
            }
        }
        Ok(listing)
    }

    /// Runs commands of debugfs; returns its output and its errors.
    fn debugfs(&self, commands: &[String]) -> Result<(Vec<u8>, String)> {
        std::fs::write(self.directory.join("commands"), commands.join("\n") + "\n")?;
        let mut debugfs = command("debugfs");
        debugfs.args(["-f", "commands", IMAGE]);
        let out = output(debugfs.current_dir(self.directory))?;
        if out.status.code().is_none_or(|code| code == 137) {
            return Ok((Vec::new(), "killed".to_owned()));
        }
        let errors = String::from_utf8_lossy(&out.stderr);
        // The first line is the version.
        let errors = errors.lines().skip(1).collect::<Vec<_>>().join("\n");
        Ok((out.stdout, errors))
    }

    /// Returns the listing by debugfs; `None` if it reports an error.
    fn their_listing(&self, directory: InodeNumber) -> Result<Option<Listing>> {
        let (text, errors) = self.debugfs(&[format!("ls -p <{}>", directory.0)])?;
        if !errors.is_empty() {
            return Ok(None);
        }
        let lines = text.split(|byte| *byte == b'\n');
        let rows = lines.filter_map(row_of_line);
        // Entries of inode 0 are not in use.
        let in_use = |(name, row): &(Vec<u8>, Row)| name != b"." && name != b".." && row.0 != 0;
        Ok(Some(rows.filter(in_use).collect()))
    }

    /// Compares the contents of regular files and of long symlinks.
    fn contents(&mut self, files: &[Metadata]) -> Result<()> {
        let is_wanted = |file: &&Metadata| match file.file_type {
            FileType::Regular => file.size_bytes <= MAX_BYTES,
            FileType::Symlink => (60..=4096).contains(&file.size_bytes),
            _ => false,
        };
        let wanted: Vec<_> = files.iter().filter(is_wanted).collect();
        let dump = |file: &&Metadata| format!("dump <{0}> dump-{0}", file.inode.0);
        self.debugfs(&wanted.iter().map(dump).collect::<Vec<_>>())?;
        for file in wanted {
            let path = self.directory.join(format!("dump-{}", file.inode.0));
            let theirs = std::fs::read(path).ok();
            // debugfs stops at the first error.
            let mut theirs = theirs.filter(|bytes| bytes.len() as u64 >= file.size_bytes);
            if let Some(bytes) = &mut theirs
                && bytes.len() as u64 > file.size_bytes
            {
                self.rules.push(INLINE);
                bytes.truncate(usize::try_from(file.size_bytes)?);
            }
            let ours = self.read(file);
            match (ours, theirs) {
                (Ok(ours), Some(theirs)) if ours == theirs => {}
                (Ok(ours), Some(theirs))
                    if file.file_type == FileType::Symlink
                        && theirs
                            .strip_prefix(&ours[..])
                            .is_some_and(|rest| rest.first() == Some(&0)) =>
                {
                    self.rules.push(ZERO_IN_TARGET);
                }
                (Ok(ours), Some(theirs)) => {
                    let at = ours.iter().zip(&theirs).position(|(a, b)| a != b);
                    let text = format!("contents of {:?} differ at {at:?}", file.inode);
                    self.differences.push(text);
                }
                (ours, theirs) if self.is_clean => {
                    let (ours, theirs) = (ours.map(|bytes| bytes.len()), theirs.is_some());
                    let text = format!("{:?}: ours {ours:?}, debugfs {theirs}", file.inode);
                    self.differences.push(text);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read(&self, file: &Metadata) -> Result<Vec<u8>, String> {
        if file.file_type == FileType::Symlink {
            return self.fs.read_link(file.inode).map_err(|e| e.to_string());
        }
        let mut bytes = vec![0; usize::try_from(file.size_bytes).unwrap_or(0)];
        let mut at = 0;
        while at < bytes.len() {
            let rest = &mut bytes[at..];
            match self.fs.read_at(file.inode, at as u64, rest) {
                Ok(0) => return Err(format!("the end at {at}")),
                Ok(len) => at += len,
                Err(e) => return Err(e.to_string()),
            }
        }
        Ok(bytes)
    }

    /// Compares the number of links of each file, and the targets of short symlinks.
    fn targets(&mut self, files: &[Metadata]) -> Result<()> {
        let stat = |file: &Metadata| format!("stat <{}>", file.inode.0);
        let (text, _) = self.debugfs(&files.iter().map(stat).collect::<Vec<_>>())?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let parts: Vec<_> = text.split("debugfs: ").skip(1).collect();
        for (file, part) in files.iter().zip(parts) {
            let after = |word: &str| part.split_once(word).map(|(_, rest)| rest);
            let links = after("Links: ").and_then(|rest| rest.split_whitespace().next());
            let Some(links) = links else {
                continue;
            };
            if links != file.links.to_string() {
                let text = format!("{:?}: {} links, debugfs {links}", file.inode, file.links);
                self.differences.push(text);
            }
            let target = after("Fast link dest: \"").and_then(|rest| rest.split('"').next());
            if let (Some(target), Ok(ours)) = (target, self.fs.read_link(file.inode))
                && String::from_utf8_lossy(&ours) != target
            {
                if !part.contains("Blockcount: 0\n") {
                    self.rules.push(SHORT_TARGET);
                    continue;
                }
                let ours = ours.escape_ascii();
                let text = format!("{:?}: target {ours}, debugfs {target}", file.inode);
                self.differences.push(text);
            }
        }
        Ok(())
    }
}

/// Parses a line of `ls -p`: `/inode/mode/owner/group/name/size/`.
fn row_of_line(line: &[u8]) -> Option<(Vec<u8>, Row)> {
    let mut parts = line.strip_prefix(b"/")?.splitn(5, |byte| *byte == b'/');
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    let inode = text()?.parse().ok()?;
    let mode = u32::from_str_radix(text()?, 8).ok()?;
    let mut owner = || Some(text()?.parse::<i64>().ok()?.rem_euclid(1 << 32));
    let (uid, gid) = (owner()?, owner()?);
    let rest = parts.next()?.strip_suffix(b"/")?;
    let slash = rest.iter().rposition(|byte| *byte == b'/')?;
    let size = std::str::from_utf8(&rest[slash + 1..]).ok()?.parse().ok();
    let owners = (u32::try_from(uid).ok()?, u32::try_from(gid).ok()?);
    // debugfs prints zeroes if it cannot read the inode.
    let row = (mode != 0).then_some((mode, owners.0, owners.1, size));
    Some((rest[..slash].to_vec(), (inode, row)))
}
