//! The files that a stack's settings are, before they are written; and what goes before that.

use std::collections::BTreeMap;

use super::super::super::guest::Guest;
use super::super::super::stage::above;
use diskfs_disk::Result;

/// What every file begins with that can have comments.
pub(super) const HEADER: &str =
    "# Written by `diskfs deploy`: what is changed here goes with the next deployment.\n";

/// The lines around what is written into a file that others write, too.
const BEGIN: &str = "# Begin of what `diskfs deploy` wrote.";
const END: &str = "# End of what `diskfs deploy` wrote.";

/// Files, by path.
#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<String, (String, Option<u16>)>);

impl Files {
    /// A file of its own, with the header.
    pub(super) fn add(&mut self, path: impl Into<String>, text: &str, permissions: u16) {
        let text = format!("{HEADER}{text}");
        self.0.insert(path.into(), (text, Some(permissions)));
    }

    /// A file that is edited: it keeps its permissions.
    pub(super) fn edit(&mut self, path: impl Into<String>, text: String) {
        self.0.insert(path.into(), (text, None));
    }

    /// Whether the file is one of them.
    pub(super) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Writes all of them.
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

    /// Removes those in a directory that match and aren't among these.
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
            // What is no text, or too large, is nothing that one of these stacks reads.
            let text = guest.stage.text(&path).ok().flatten();
            if text.is_some_and(|text| is_old(&name, &text)) {
                guest.stage.remove(&path)?;
            }
        }
        Ok(())
    }
}

/// Whether a deployment wrote the file.
pub(super) fn is_own(text: &str) -> bool {
    text.starts_with(HEADER)
}

/// A text with these lines in it, in the place of those that a deployment wrote before.
pub(super) fn with_block(text: &str, lines: &str) -> String {
    let mut out = without_block(text);
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    out.extend([BEGIN, "\n", lines, END, "\n"]);
    out
}

/// A text without what a deployment wrote in it.
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
