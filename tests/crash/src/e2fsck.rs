//! What e2fsck says of an image.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};

use crate::feature_set::Traits;

/// What `e2fsck -fy` may say besides its headings when it recovers a filesystem, as the beginning
/// of a line, and why.
const RECOVERY: &[(&str, &str)] = &[
    ("e2fsck ", "its version"),
    ("Pass ", "a heading"),
    ("crash: ", "the summary, and what it says of the journal"),
    (
        "Clearing orphaned inode",
        "a file that was unlinked while open is removed",
    ),
    (
        "Truncating orphaned inode",
        "a truncation that was begun is ended",
    ),
    (
        "Feature orphan_present is set but",
        "the same, when it lists nothing",
    ),
    (
        "Free blocks count wrong (",
        "the total in the superblock, which as the kernel has it is that of the last mount or \
         unmount: who mounts sums up the groups. Those of a group read `wrong for group`",
    ),
    ("Free inodes count wrong (", "the same"),
    (
        "Orphan file (inode ",
        "the orphan file is emptied, after what it lists was removed",
    ),
];

/// How a line ends that is advice, and no repair.
const ADVICE: &[&str] = &[
    "could be narrower.",
    "could be shorter.",
    "Optimize? yes",
    "Optimize? no",
];

/// How the volume is called in e2fsck's answers.
const LABEL: &str = "crash";

/// Runs `e2fsck -fn`, which must find nothing.
///
/// # Errors
/// When it does; with all that it says.
pub fn check(image: &Path) -> Result<()> {
    let (code, text) = run(image, "-fn")?;
    let asks = |line: &&String| line.contains("? no") && !is_advice(line);
    let wrong = problems(&text).iter().any(|line| asks(&line));
    ensure!(code == 0 && !wrong, "e2fsck -fn: exit code {code}\n{text}");
    Ok(())
}

/// Runs `e2fsck -fy`, which may do what recovery is, and nothing else.
///
/// # Errors
/// When it repairs something; with all that it says.
pub fn recover(image: &Path, traits: Traits) -> Result<()> {
    let (code, text) = run(image, "-fy")?;
    let problems = problems(&text);
    let orphans = problems
        .iter()
        .any(|line| line.starts_with("Clearing orphaned inode"));
    // When it clears an orphan whose contents lie in the inode, it forgets that this shared a block
    // of attributes with others: e2fsck 1.47.0 does so on the kernel's images, too.
    let forgets =
        |line: &str| traits.inline_data && orphans && line.starts_with("Extended attribute block ");
    let repairs = problems
        .iter()
        .filter(|line| !is_recovery(line) && !forgets(line));
    ensure!(
        code <= 1 && repairs.count() == 0,
        "e2fsck -fy: exit code {code}, and not only recovery:\n{text}"
    );
    Ok(())
}

/// Runs `e2fsck -fy` on a filesystem without a journal, which may be repaired.
///
/// # Errors
/// When it can't be.
pub fn repair(image: &Path) -> Result<()> {
    let (code, text) = run(image, "-fy")?;
    ensure!(code <= 1, "e2fsck -fy: exit code {code}\n{text}");
    Ok(())
}

/// The lines, each question with what it is about.
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

/// Where it is, also for who has no `sbin` in his PATH. Not with another PATH for the child: for that
/// the standard library forks, which takes long with images in memory.
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
        .context("e2fsck can't be started")?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    // So that a line about the volume begins in the same way wherever the image lies.
    let text = text.replace(&image.display().to_string(), LABEL);
    match output.status.code() {
        Some(code) => Ok((code, text)),
        None => bail!("e2fsck was ended by a signal:\n{text}"),
    }
}
