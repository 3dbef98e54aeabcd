//! Trees in the format of Go's txtar: `-- PATH --` before the lines of a file, `-- PATH -> TARGET
//! --` for a symlink.

use std::collections::BTreeSet;

use super::MemoryFs;

impl MemoryFs {
    /// Returns the tree of a text. Impossible entries are skipped: a file below a file, and a
    /// path's second file.
    pub fn of_txtar(text: &str) -> Self {
        let mut tree = Tree::default();
        let mut open: Option<(&str, String)> = None;
        for line in text.lines() {
            let head = line
                .strip_prefix("-- ")
                .and_then(|it| it.strip_suffix(" --"));
            match (head, &mut open) {
                (Some(path), _) => tree.add(open.replace((path, String::new()))),
                (None, Some((_, text))) => {
                    text.push_str(line);
                    text.push('\n');
                }
                (None, None) => {}
            }
        }
        tree.add(open);
        tree.fs
    }
}

/// A tree that is being built.
#[derive(Default)]
struct Tree {
    fs: MemoryFs,
    dirs: BTreeSet<String>,
    files: BTreeSet<String>,
}

impl Tree {
    fn add(&mut self, file: Option<(&str, String)>) {
        let Some((head, text)) = file else {
            return;
        };
        let (path, target) = match head.split_once(" -> ") {
            Some((path, target)) => (path, Some(target)),
            None => (head, None),
        };
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let up_to = |count: usize| format!("/{}", names.get(..count).unwrap_or_default().join("/"));
        let path = up_to(names.len());
        let dirs: Vec<String> = (1..names.len()).map(up_to).collect();
        let is_below_file = dirs.iter().any(|dir| self.files.contains(dir));
        let is_odd = names.iter().any(|name| matches!(*name, "." | ".."));
        let is_there = self.dirs.contains(&path) || self.files.contains(&path);
        if names.is_empty() || is_odd || is_below_file || is_there {
            return;
        }
        if let Some(dir) = dirs.last() {
            self.fs.dir(dir);
        }
        match target {
            Some(target) => self.fs.symlink(&path, target),
            None => self.fs.file(&path, text.as_bytes()),
        };
        self.dirs.extend(dirs);
        self.files.insert(path);
    }
}
