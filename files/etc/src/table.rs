//! Files of lines with fields separated by colons, of which the first is the name: passwd(5),
//! shadow(5), group(5), gshadow(5), subuid(5).

use crate::text::{Edit, Line, lines, rewrite, with_line};

/// A file of lines with fields separated by colons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    text: String,
}

/// A line of a [`Table`] that is neither blank nor a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// The line number, counted from 1.
    pub line: usize,
    body: &'a str,
}

impl<'a> Row<'a> {
    /// Parses a line. Like glibc's parsers, it skips blanks before the name, blank lines and
    /// comments.
    fn of(line: Line<'a>) -> Option<Self> {
        let body = line.body.trim_start_matches(is_blank);
        let is_row = !body.is_empty() && !body.starts_with('#');
        is_row.then_some(Self {
            line: line.number,
            body,
        })
    }

    /// Returns the name: the first field.
    pub fn name(&self) -> &'a str {
        self.field(0)
    }

    /// Returns a field, counted from 0, or "" if the line is too short.
    pub fn field(&self, index: usize) -> &'a str {
        self.body.split(':').nth(index).unwrap_or_default()
    }

    /// Returns a field, counted from 0, and everything after it: glibc does not end the last field
    /// at a colon.
    pub fn rest(&self, index: usize) -> &'a str {
        let mut fields = self.body.splitn(index.saturating_add(1), ':');
        fields.nth(index).unwrap_or_default()
    }

    /// Returns the number in a field. Like strtoul(3), it skips blanks before the digits.
    pub fn number(&self, index: usize) -> Option<u32> {
        self.field(index).trim_start_matches(is_blank).parse().ok()
    }

    /// Returns true if the line is for NIS: `+` or `-`, alone or before a name.
    pub fn is_nis(&self) -> bool {
        self.body.starts_with(['+', '-'])
    }
}

impl Table {
    /// Creates the table from the text of a file.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the rows, in their order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        lines(&self.text).filter_map(Row::of)
    }

    /// Returns the first row of a name, which is the effective one.
    pub fn row(&self, name: &str) -> Option<Row<'_>> {
        self.rows().find(|row| row.name() == name)
    }

    /// Returns a field, counted from 0, of the first row of a name; "" if the row is too short.
    pub fn field(&self, name: &str, index: usize) -> Option<&str> {
        Some(self.row(name)?.field(index))
    }

    /// Sets a field of the first row of a name. A row that is too short is padded with empty
    /// fields.
    pub fn set(&mut self, name: &str, index: usize, value: &str) {
        let mut is_found = false;
        self.set_each(|row| {
            let is_it = !is_found && row.name() == name;
            is_found |= is_it;
            is_it.then(|| (index, value.to_owned()))
        });
    }

    /// Sets a field in each row for which `change` returns an index and a value.
    pub(crate) fn set_each(&mut self, mut change: impl FnMut(Row<'_>) -> Option<(usize, String)>) {
        self.text = rewrite(&self.text, |line| {
            match Row::of(line).and_then(&mut change) {
                Some((index, value)) => Edit::Replace(with_field(line.body, index, &value)),
                None => Edit::Keep,
            }
        });
    }

    /// Removes all rows of a name.
    pub fn remove(&mut self, name: &str) {
        self.text = rewrite(&self.text, |line| match Row::of(line) {
            Some(row) if row.name() == name => Edit::Remove,
            _ => Edit::Keep,
        });
    }

    /// Pads the first row of a name to a number of fields.
    pub fn pad(&mut self, name: &str, fields: usize) {
        let Some(last) = fields.checked_sub(1) else {
            return;
        };
        let has = self.row(name).map(|row| row.body.split(':').count());
        if has.is_some_and(|has| has < fields) {
            self.set(name, last, "");
        }
    }

    /// Adds a row at the end, or before the first row for NIS, because those must be last.
    pub fn add(&mut self, fields: &[&str]) {
        let line = fields.join(":");
        let is_nis = |line: &Line<'_>| Row::of(*line).is_some_and(|row| row.is_nis());
        let others = lines(&self.text).take_while(|line| !is_nis(line));
        let at: usize = others
            .map(|line| line.body.len().saturating_add(line.end.len()))
            .sum();
        if at < self.text.len() {
            self.text.insert_str(at, &format!("{line}\n"));
            return;
        }
        self.text = with_line(std::mem::take(&mut self.text), &line);
    }
}

/// Returns true for the characters of isspace(3) in the C locale.
fn is_blank(char: char) -> bool {
    char.is_ascii_whitespace() || char == '\u{b}'
}

fn with_field(body: &str, index: usize, value: &str) -> String {
    let mut fields: Vec<&str> = body.split(':').collect();
    if fields.len() <= index {
        fields.resize(index.saturating_add(1), "");
    }
    if let Some(field) = fields.get_mut(index) {
        *field = value;
    }
    fields.join(":")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_row_counts_and_others_stay() {
        let mut table = Table::new("# x\n\n  a:1:2\r\nab:1\na:9:9");
        table.set("a", 4, "z");
        assert_eq!(table.text(), "# x\n\n  a:1:2::z\r\nab:1\na:9:9");
        assert_eq!(table.field("a", 1), Some("1"));
        assert_eq!(table.field("ab", 5), Some(""));
        assert_eq!(table.field("b", 0), None);
        assert_eq!(table.row("a").unwrap().rest(1), "1:2::z");
        assert_eq!(
            table.rows().map(|row| row.line).collect::<Vec<_>>(),
            [3, 4, 5]
        );
        table.pad("ab", 3);
        table.remove("a");
        assert_eq!(table.text(), "# x\n\nab:1:\n");
    }

    #[test]
    fn rows_are_added_before_those_of_nis() {
        let mut without = Table::new("a:1");
        without.add(&["b", "2"]);
        assert_eq!(without.text(), "a:1\nb:2\n");
        let mut with = Table::new("a:1\n +::::::\n");
        with.add(&["b", "2"]);
        assert_eq!(with.text(), "a:1\nb:2\n +::::::\n");
    }

    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec("[ ]{0,2}[#+a-c]{0,2}(:[a0-9]{0,2}){0,4}\r?", 0..8)
            .prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #[test]
        fn edits_change_their_own_rows_only(text in text(), name in "[a-c]", index in 0_usize..6) {
            let before = Table::new(text);
            let mut after = before.clone();
            after.set(&name, index, "v");
            let changed = before.row(&name).map(|row| row.line);
            for (old, new) in lines(before.text()).zip(lines(after.text())) {
                prop_assert_eq!(old.end, new.end);
                prop_assert!(old.body == new.body || Some(old.number) == changed);
            }
            if index > 0 && changed.is_some() {
                prop_assert_eq!(after.field(&name, index), Some("v"));
            }
            after.remove(&name);
            prop_assert_eq!(after.row(&name), None);
            prop_assert!(after.text().len() <= before.text().len());
        }
    }
}
