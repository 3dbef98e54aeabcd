//! Patterns of paths: glob(7).

use diskfs_vfs::glob::{Case, Pattern};

use super::Stage;
use diskfs_disk::Result;

/// More paths than a pattern is meant for.
const MAX_PATHS: usize = 100_000;

impl Stage {
    /// The paths that there are for a pattern, sorted; symlinks on the way are followed, and the last name is not.
    ///
    /// # Errors
    /// `Invalid` for a pattern that is too long or has too many paths, and what keeps one from knowing.
    pub fn expand(&self, pattern: &str) -> Result<Vec<String>> {
        let mut found = vec![String::new()];
        for name in pattern.split('/').filter(|name| !name.is_empty()) {
            let mut below = Vec::new();
            for dir in &found {
                self.expand_name(dir, name, &mut below)?;
                if below.len() > MAX_PATHS {
                    return Err(
                        self.invalid(format!("`{pattern}` has more than {MAX_PATHS} paths"))
                    );
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
            // What is no directory has nothing below it.
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
            // As for a shell, what is hidden has to be named.
            let is_hidden = entry.starts_with('.') && !name.starts_with('.');
            if !is_hidden && pattern.matches(&entry) {
                found.push(format!("{dir}/{entry}"));
            }
        }
        Ok(())
    }
}
