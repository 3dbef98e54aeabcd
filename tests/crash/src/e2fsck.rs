//! Runs of e2fsck on images.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};

use crate::feature_set::Traits;

/// The lines that `e2fsck -fy` may print when it recovers a filesystem: the start of each line, and
/// the reason.
const RECOVERY: &[(&str, &str)] = &[
    ("e2fsck ", "its version"),
    ("Pass ", "a heading"),
    ("crash: ", "the summary, and messages about the journal"),
    (
        "Clearing orphaned inode",
        "a file that was unlinked while open is removed",
    ),
    (
        "Truncating orphaned inode",
        "a truncation that was started is completed",
    ),
    (
        "Feature orphan_present is set but",
        "the orphan file is reset, when it lists nothing",
    ),
    (
        "Free blocks count wrong (",
        "the total in the superblock, which in the kernel's design is that of the last mount or \
         unmount: who mounts sums up the groups. Those of a group read `wrong for group`",
    ),
    (
        "Free inodes count wrong (",
        "the total in the superblock, as for free blocks",
    ),
    (
        "Orphan file (inode ",
        "the orphan file is emptied after its files were removed",
    ),
];

/// The ends of lines that are advice, and not repairs.
const ADVICE: &[&str] = &[
    "could be narrower.",
    "could be shorter.",
    "Optimize? yes",
    "Optimize? no",
];

/// The volume name in e2fsck's output.
const LABEL: &str = "crash";

/// Runs `e2fsck -fn`, which must find no problem.
///
/// # Errors
/// A problem that it finds, with its output.
pub fn check(image: &Path) -> Result<()> {
    let (code, text) = run(image, "-fn")?;
    let asks = |line: &&String| line.contains("? no") && !is_advice(line);
    let wrong = problems(&text).iter().any(|line| asks(&line));
    ensure!(code == 0 && !wrong, "e2fsck -fn: exit code {code}\n{text}");
    Ok(())
}

/// Runs `e2fsck -fy`, which may only recover the filesystem.
///
/// # Errors
/// A repair, with the output.
pub fn recover(image: &Path, traits: Traits) -> Result<()> {
    let (code, text) = run(image, "-fy")?;
    let problems = problems(&text);
    let orphans = problems
        .iter()
        .any(|line| line.starts_with("Clearing orphaned inode"));
    // When e2fsck 1.47.0 clears an orphan with inline data, it forgets that the orphan shared an
    // attribute block with other files, on the kernel's images, too.
    let forgets =
        |line: &str| traits.inline_data && orphans && line.starts_with("Extended attribute block ");
    let repairs = problems
        .iter()
        .filter(|line| !is_recovery(line) && !forgets(line));
    ensure!(
        code <= 1 && repairs.count() == 0,
        "e2fsck -fy: exit code {code}, with repairs beyond recovery:\n{text}"
    );
    Ok(())
}

/// Runs `e2fsck -fy` on a filesystem without a journal, which it may repair.
///
/// # Errors
/// A filesystem that it cannot repair.
pub fn repair(image: &Path) -> Result<()> {
    let (code, text) = run(image, "-fy")?;
    ensure!(code <= 1, "e2fsck -fy: exit code {code}\n{text}");
    Ok(())
}

/// Returns the lines of the output, each question joined with its subject.
fn problems(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let is_answer = line.ends_with("? yes") || line.ends_with("? no");
        match lines.last_mut() {
            Some(last) if is_answer && line.split_whitespace().count() <= 3 => {
                last.push(' ');
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

fn is_recovery(line: &str) -> bool {
    is_advice(line) || RECOVERY.iter().any(|(start, _)| line.starts_with(start))
}

fn is_advice(line: &str) -> bool {
    ADVICE.iter().any(|end| line.ends_with(end))
}

/// Returns the path of e2fsck, also if `sbin` is not in PATH. The child gets no other PATH, because
/// the standard library would then fork, which takes long with images in memory.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let elsewhere = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        std::env::split_paths(&path)
            .chain(elsewhere)
            .map(|directory| directory.join("e2fsck"))
            .find(|program| program.is_file())
            .unwrap_or_else(|| PathBuf::from("e2fsck"))
    })
}

fn run(image: &Path, option: &str) -> Result<(i32, String)> {
    let output = Command::new(program())
        .args([option])
        .arg(image)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .context("cannot start e2fsck")?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    // The path of the image is replaced, so that lines about the volume always start in the same
    // way.
    let text = text.replace(&image.display().to_string(), LABEL);
    match output.status.code() {
        Some(code) => Ok((code, text)),
        None => bail!("e2fsck was ended by a signal:\n{text}"),
    }
}
