//! The files of a stack before they are written, and the removal of older files.

use std::collections::BTreeMap;

use super::super::super::guest::Guest;
use super::super::super::stage::above;
use diskfs_disk::Result;

/// The first line of every file that can contain comments.
pub(super) const HEADER: &str =
    "# Written by `diskfs deploy`: what is changed here goes with the next deployment.\n";

/// The lines that enclose our part of a file that others also write to.
const BEGIN: &str = "# Begin of what `diskfs deploy` wrote.";
const END: &str = "# End of what `diskfs deploy` wrote.";

/// Files by path, with their texts and permissions.
#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<String, (String, Option<u16>)>);

impl Files {
    /// Adds a file that belongs to us alone, with the header.
    pub(super) fn add(&mut self, path: impl Into<String>, text: &str, permissions: u16) {
        let text = format!("{HEADER}{text}");
        self.0.insert(path.into(), (text, Some(permissions)));
    }

    /// Adds an edited file, which keeps its permissions.
    pub(super) fn edit(&mut self, path: impl Into<String>, text: String) {
        self.0.insert(path.into(), (text, None));
    }

    /// Returns true if the set contains the file.
    pub(super) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Writes all files.
    pub(super) fn write(self, guest: &mut Guest) -> Result<()> {
        for (path, (text, permissions)) in self.0 {
            guest.stage.make_dirs(above(&path), 0o755)?;
            guest.stage.write_text(&path, &text)?;
            if let Some(permissions) = permissions {
                guest.stage.set_permissions(&path, permissions)?;
            }
        }
        Ok(())
    }

    /// Removes the files in a directory that `is_old` selects and that are not in the set.
    pub(super) fn clean(
        &self,
        guest: &mut Guest,
        dir: &str,
        mut is_old: impl FnMut(&str, &str) -> bool,
    ) -> Result<()> {
        if !guest.stage.is_dir(dir)? {
            return Ok(());
        }
        for name in guest.stage.names(dir)? {
            let path = format!("{dir}/{name}");
            if self.has(&path) || !guest.stage.is_file(&path)? {
                continue;
            }
            // A file that is not text or is too large does not belong to any of these stacks.
            let text = guest.stage.text(&path).ok().flatten();
            if text.is_some_and(|text| is_old(&name, &text)) {
                guest.stage.remove(&path)?;
            }
        }
        Ok(())
    }
}

/// Returns true if an earlier deployment wrote the file.
pub(super) fn is_deployed(text: &str) -> bool {
    text.starts_with(HEADER)
}

/// Returns the text with these lines, which replace the lines of an earlier deployment.
pub(super) fn with_block(text: &str, lines: &str) -> String {
    let mut out = without_block(text);
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    out.extend([BEGIN, "\n", lines, END, "\n"]);
    out
}

/// Returns the text without the lines of an earlier deployment.
pub(super) fn without_block(text: &str) -> String {
    let mut is_in = false;
    let keep = |line: &&str| {
        let was_in = is_in;
        is_in = line.trim_end() == BEGIN || is_in && line.trim_end() != END;
        !(is_in || was_in)
    };
    text.split_inclusive('\n').filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_replaced() {
        let once = with_block("a\nb", "1\n");
        assert_eq!(once, format!("a\nb\n{BEGIN}\n1\n{END}\n"));
        assert_eq!(with_block(&once, "1\n"), once);
        let other = with_block(&format!("{once}c\n"), "2\n");
        assert_eq!(other, format!("a\nb\nc\n{BEGIN}\n2\n{END}\n"));
    }
}
