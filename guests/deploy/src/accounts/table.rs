//! Files of lines whose fields are between colons, the name first: passwd(5), shadow(5), group(5), gshadow(5), subuid(5).

use super::super::stage::Stage;
use super::super::text::with_line;
use diskfs_disk::Result;

/// Such a file. Lines that are not changed stay as they are, whatever is in them.
#[derive(Debug)]
pub(in super::super) struct Table {
    path: &'static str,
    text: String,
}

impl Table {
    /// That of the guest; `None` when it has none.
    pub(in super::super) fn read(stage: &Stage, path: &'static str) -> Result<Option<Self>> {
        let text = stage.text(path)?;
        Ok(text.map(|text| Self { path, text }))
    }

    /// The fields of each line.
    pub(in super::super) fn rows(&self) -> impl Iterator<Item = Vec<&str>> {
        let lines = self.text.split_inclusive('\n');
        lines.map(|line| parts(line).0.split(':').collect())
    }

    /// The fields of the first line with that name: the one that counts.
    pub(in super::super) fn row(&self, name: &str) -> Option<Vec<&str>> {
        self.rows().find(|row| row.first() == Some(&name))
    }

    /// A field, counted from 0, of the first line with that name; "" where the line is shorter.
    pub(in super::super) fn field(&self, name: &str, index: usize) -> Option<&str> {
        let row = self.row(name)?;
        Some(row.get(index).copied().unwrap_or_default())
    }

    /// Sets a field of the first line with that name.
    pub(in super::super) fn set(&mut self, name: &str, index: usize, value: &str) {
        let mut is_found = false;
        let mut text = String::with_capacity(self.text.len());
        for line in self.text.split_inclusive('\n') {
            if !is_found && parts(line).0.split(':').next() == Some(name) {
                is_found = true;
                text.push_str(&with_field(line, index, value));
            } else {
                text.push_str(line);
            }
        }
        self.text = text;
    }

    /// Removes all lines with that name.
    pub(in super::super) fn remove(&mut self, name: &str) {
        let lines = self.text.split_inclusive('\n');
        let kept = lines.filter(|line| parts(line).0.split(':').next() != Some(name));
        self.text = kept.collect();
    }

    /// Gives the first line with that name as many fields as it should have.
    pub(in super::super) fn pad(&mut self, name: &str, fields: usize) {
        let has = self.row(name).map_or(fields, |row| row.len());
        if has < fields {
            self.set(name, fields.saturating_sub(1), "");
        }
    }

    /// Adds a line: at the end, or before what NIS adds to the file (`+::::::`), which must be last.
    pub(in super::super) fn add(&mut self, fields: &[&str]) {
        let line = fields.join(":");
        let mut at = 0;
        for other in self.text.split_inclusive('\n') {
            if other.starts_with(['+', '-']) {
                self.text.insert_str(at, &format!("{line}\n"));
                return;
            }
            at += other.len();
        }
        self.text = with_line(std::mem::take(&mut self.text), &line);
    }

    /// Puts it back.
    pub(in super::super) fn write(&self, stage: &mut Stage) -> Result<()> {
        stage.write_text(self.path, &self.text)
    }
}

/// A line and its end.
fn parts(line: &str) -> (&str, &str) {
    let body = line.trim_end_matches(['\n', '\r']);
    line.split_at_checked(body.len()).unwrap_or((line, ""))
}

/// A line, with its end, with another field.
fn with_field(line: &str, index: usize, value: &str) -> String {
    let (body, end) = parts(line);
    let mut fields: Vec<&str> = body.split(':').collect();
    if fields.len() <= index {
        fields.resize(index.saturating_add(1), "");
    }
    if let Some(field) = fields.get_mut(index) {
        *field = value;
    }
    format!("{}{end}", fields.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        Table {
            path: super::super::PASSWD,
            text: text.to_owned(),
        }
    }

    #[test]
    fn the_first_line_counts_and_others_stay() {
        let mut table = table("# x\na:1:2\nab:1\na:9:9");
        table.set("a", 4, "z");
        assert_eq!(table.text, "# x\na:1:2::z\nab:1\na:9:9");
        assert_eq!(table.field("a", 1), Some("1"));
        assert_eq!(table.field("ab", 5), Some(""));
        assert_eq!(table.field("b", 0), None);
    }

    #[test]
    fn lines_are_added_before_those_of_nis() {
        let mut without = table("a:1");
        without.add(&["b", "2"]);
        assert_eq!(without.text, "a:1\nb:2\n");
        let mut with = table("a:1\n+::::::\n");
        with.add(&["b", "2"]);
        assert_eq!(with.text, "a:1\nb:2\n+::::::\n");
    }
}
