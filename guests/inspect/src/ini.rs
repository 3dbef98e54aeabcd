//! Parsing of INI files with sections and settings, as in systemd (systemd.syntax(7)) and
//! `NetworkManager`.

/// A setting of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting<'t> {
    /// The section's name; empty before the first section.
    pub(super) section: &'t str,
    /// The number of the section in the file, from 1, which distinguishes sections of the same
    /// name.
    pub(super) section_number: usize,
    pub(super) key: &'t str,
    pub(super) value: &'t str,
}

/// Returns all settings in order. Invalid lines are skipped.
pub(super) fn settings(text: &str) -> impl Iterator<Item = Setting<'_>> {
    let mut section = "";
    let mut section_number = 0;
    text.lines().map(str::trim).filter_map(move |line| {
        if line.starts_with(['#', ';']) {
            return None;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').unwrap_or(name);
            section_number += 1;
            return None;
        }
        let (key, value) = line.split_once('=')?;
        Some(Setting {
            section,
            section_number,
            key: key.trim(),
            value: value.trim(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_one_name_are_distinguished() {
        let text =
            "; c\n[Match]\nName = en*\n\n[Route]\nGateway=1\n[Route]\n# x\nGateway=2\nnothing";
        let found: Vec<_> = settings(text)
            .map(|it| (it.section, it.section_number, it.key, it.value))
            .collect();
        let expected = [
            ("Match", 1, "Name", "en*"),
            ("Route", 2, "Gateway", "1"),
            ("Route", 3, "Gateway", "2"),
        ];
        assert_eq!(found, expected);
    }
}
