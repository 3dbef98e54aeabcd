//! Expansion of glob(7) patterns of paths.

use diskfs_vfs::glob::{Case, Pattern};

use super::Stage;
use diskfs_disk::Result;

/// The limit on the paths that match a pattern.
const MAX_PATHS: usize = 100_000;

impl Stage {
    /// Returns the existing paths that match a pattern, sorted. Symlinks in parent directories are
    /// followed; a symlink at the end is returned itself.
    ///
    /// # Errors
    /// `Invalid` if the pattern is too long or matches too many paths, and the errors of reading
    /// the guest.
    pub fn expand(&self, pattern: &str) -> Result<Vec<String>> {
        let mut found = vec![String::new()];
        for name in pattern.split('/').filter(|name| !name.is_empty()) {
            let mut below = Vec::new();
            for dir in &found {
                self.expand_name(dir, name, &mut below)?;
                if below.len() > MAX_PATHS {
                    return Err(self.invalid(format!(
                        "too many paths match `{pattern}`: at most {MAX_PATHS}"
                    )));
                }
            }
            found = below;
        }
        found.retain(|path| !path.is_empty());
        Ok(found)
    }

    fn expand_name(&self, dir: &str, name: &str, found: &mut Vec<String>) -> Result<()> {
        if !name.contains(['*', '?', '[']) {
            let path = format!("{dir}/{name}");
            // Only directories can have entries below them.
            if dir.is_empty() || self.is_dir(dir)? {
                found.extend(self.link_entry(&path)?.map(|_| path));
            }
            return Ok(());
        }
        if !self.is_dir(if dir.is_empty() { "/" } else { dir })? {
            return Ok(());
        }
        let pattern = Pattern::new(name, Case::Sensitive);
        let pattern = pattern.map_err(|error| self.invalid(error.to_string()))?;
        for entry in self.names(if dir.is_empty() { "/" } else { dir })? {
            // As in a shell, hidden files must be matched explicitly.
            let is_hidden = entry.starts_with('.') && !name.starts_with('.');
            if !is_hidden && pattern.matches(&entry) {
                found.push(format!("{dir}/{entry}"));
            }
        }
        Ok(())
    }
}
