//! The `[Install]` section of a unit: systemd.unit(5).

use super::super::super::guest::{Guest, UNIT_DIRS, UNITS};
use diskfs_disk::Result;

/// The settings of a unit's `[Install]` section.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Install {
    wanted_by: Vec<String>,
    required_by: Vec<String>,
    upheld_by: Vec<String>,
    alias: Vec<String>,
    pub(super) also: Vec<String>,
    default_instance: Option<String>,
}

/// Returns the name of a unit's file. For an instance, that is the file of its template.
pub(super) fn file_name(name: &str) -> String {
    let template = name.split_once('@').and_then(|(prefix, rest)| {
        let (_, kind) = rest.rsplit_once('.')?;
        Some(format!("{prefix}@.{kind}"))
    });
    template.unwrap_or_else(|| name.to_owned())
}

/// Returns the path of a unit's file: its own, or its template's.
pub(super) fn file_of(guest: &Guest, name: &str) -> Result<Option<String>> {
    for file in [name, &file_name(name)] {
        if let Some(path) = guest.unit(file)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

impl Install {
    /// Reads the `[Install]` sections of a unit file and its drop-ins.
    pub(super) fn read(guest: &Guest, name: &str, path: &str) -> Result<Self> {
        let mut install = Self::default();
        install.add(&guest.stage.text(path)?.unwrap_or_default(), name);
        for dir in UNIT_DIRS {
            let dir = format!("{dir}/{}.d", file_name(name));
            if !guest.stage.is_dir(&dir)? {
                continue;
            }
            for drop_in in guest.stage.names(&dir)? {
                if drop_in
                    .rsplit_once('.')
                    .is_some_and(|(_, kind)| kind == "conf")
                {
                    let text = guest.stage.text(&format!("{dir}/{drop_in}"))?;
                    install.add(&text.unwrap_or_default(), name);
                }
            }
        }
        Ok(install)
    }

    fn add(&mut self, text: &str, name: &str) {
        // A line that ends with a backslash continues on the next line.
        let text = text.replace("\\\n", " ");
        let mut is_in = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                is_in = line == "[Install]";
            }
            let Some((key, value)) = line.split_once('=').filter(|_| is_in) else {
                continue;
            };
            let words = value.split_whitespace().map(|word| expanded(word, name));
            match key.trim_end() {
                "WantedBy" => self.wanted_by.extend(words),
                "RequiredBy" => self.required_by.extend(words),
                "UpheldBy" => self.upheld_by.extend(words),
                "Alias" => self.alias.extend(words),
                "Also" => self.also.extend(words),
                "DefaultInstance" => self.default_instance = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        for names in [
            &mut self.wanted_by,
            &mut self.required_by,
            &mut self.upheld_by,
            &mut self.alias,
            &mut self.also,
        ] {
            names.retain(|name| !name.is_empty() && !name.contains('/'));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let lists = [
            &self.wanted_by,
            &self.required_by,
            &self.upheld_by,
            &self.alias,
            &self.also,
        ];
        lists.iter().all(|list| list.is_empty())
    }

    /// Returns the symlinks that enable the unit, with their targets.
    pub(super) fn links(&self, name: &str, path: &str) -> Vec<(String, String)> {
        let instance = self.instance_of(name);
        let mut links = Vec::new();
        for (names, kind) in [
            (&self.wanted_by, "wants"),
            (&self.required_by, "requires"),
            (&self.upheld_by, "upholds"),
        ] {
            for other in names {
                links.push(format!("{UNITS}/{other}.{kind}/{instance}"));
            }
        }
        for alias in self.alias.iter().filter(|alias| *alias != name) {
            links.push(format!("{UNITS}/{alias}"));
        }
        links
            .into_iter()
            .map(|link| (link, path.to_owned()))
            .collect()
    }

    /// Returns the name to enable. For a template, that is its default instance.
    fn instance_of(&self, name: &str) -> String {
        match (&self.default_instance, name.split_once("@.")) {
            (Some(instance), Some((prefix, kind))) => format!("{prefix}@{instance}.{kind}"),
            _ => name.to_owned(),
        }
    }
}

/// Expands those specifiers of systemd.unit(5) that depend only on the name.
fn expanded(word: &str, name: &str) -> String {
    if !word.contains('%') {
        return word.to_owned();
    }
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
    word.replace("%n", name)
        .replace("%N", stem)
        .replace("%p", prefix)
        .replace("%i", instance)
}
