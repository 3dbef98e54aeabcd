//! LVM's text metadata: sections in sections with names and values, as in lvm.conf(5).

mod edit;
mod lexer;
mod parser;

use std::borrow::Cow;

pub(crate) use edit::edited;
pub(crate) use parser::parse;

/// Text as it stands between quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// With its escapes (`\"` and `\\`) undone.
    pub(crate) fn plain(self) -> Cow<'a, str> {
        if !self.0.contains('\\') {
            return Cow::Borrowed(self.0);
        }
        let mut plain = String::with_capacity(self.0.len());
        let mut letters = self.0.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => plain.extend(letters.next()),
                letter => plain.push(letter),
            }
        }
        Cow::Owned(plain)
    }
}

/// What stands behind a `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number. (Those with fractions are text; nothing that is read here has one.)
    Number(i64),
    Text(Text<'a>),
    /// Of numbers and texts only.
    List(Vec<Self>),
}

impl Value<'_> {
    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(text.plain()),
            Self::Number(_) | Self::List(_) => None,
        }
    }

    /// The number, if it is one and not below zero.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => u64::try_from(*number).ok(),
            Self::Text(_) | Self::List(_) => None,
        }
    }

    /// A list's members; a single value is a list of one, as LVM has it.
    pub(crate) fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            single => std::slice::from_ref(single),
        }
    }
}

/// A section: names with values, and further sections. Whatever is in it is asked for by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    pub(crate) values: Vec<(Text<'a>, Value<'a>)>,
    pub(crate) sections: Vec<(Text<'a>, Self)>,
}

impl Section<'_> {
    pub(crate) fn value(&self, name: &str) -> Option<&Value<'_>> {
        let found = self.values.iter().find(|(key, _)| key.0 == name);
        found.map(|(_, value)| value)
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section<'_>> {
        let found = self.sections.iter().find(|(key, _)| key.0 == name);
        found.map(|(_, section)| section)
    }

    /// The number of that name.
    ///
    /// # Errors
    /// Without one.
    pub(crate) fn number(&self, name: &str) -> Result<u64, String> {
        let number = self.value(name).and_then(Value::number);
        number.ok_or_else(|| format!("there is no number `{name}`"))
    }

    /// The text of that name.
    ///
    /// # Errors
    /// Without one.
    pub(crate) fn text(&self, name: &str) -> Result<Cow<'_, str>, String> {
        let text = self.value(name).and_then(Value::text);
        text.ok_or_else(|| format!("there is no text `{name}`"))
    }

    /// Whether the list of that name has that word.
    pub(crate) fn has(&self, list: &str, word: &str) -> bool {
        let list = self.value(list).map_or(&[][..], Value::list);
        list.iter()
            .any(|value| value.text().as_deref() == Some(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sections_values_and_comments() {
        let text = "# a comment\nvg0 {\n\tid = \"a\\\"b\\\\\" # more\n\tseqno=3\n flags = []\n\
            status = [\"READ\", \"WRITE\"]\n pv { stripes = [\n\"pv0\", 0,\n\"pv1\", -5\n]\n}\n}\n\
            contents = \"Text # no comment\"\n";
        let tree = parse(text).unwrap();
        let vg = tree.section("vg0").unwrap();
        assert_eq!(vg.text("id").unwrap(), "a\"b\\");
        assert_eq!(vg.number("seqno"), Ok(3));
        assert!(vg.has("status", "WRITE") && !vg.has("flags", "WRITE"));
        let stripes = vg.section("pv").unwrap().value("stripes").unwrap().list();
        assert_eq!(stripes.len(), 4);
        assert_eq!((stripes[1].number(), stripes[3].number()), (Some(0), None));
        assert_eq!(tree.text("contents").unwrap(), "Text # no comment");
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        for (text, line, part) in [
            ("a {\nb = 1\n", 3, "does not end"),
            ("a = \"b\nc", 1, "string does not end"),
            ("a = [1,\n2", 2, "list does not end"),
            ("a\nb", 2, "neither"),
            ("a = }", 1, "where a value belongs"),
            ("\n{", 2, "where a name belongs"),
            ("}", 1, "where a name belongs"),
            ("a = [[1]]", 1, "where a value belongs"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
        }
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let deep = "a { ".repeat(100_000);
        assert!(parse(&deep).unwrap_err().contains("in one another"));
        let long = format!("a = [{}]", "1,".repeat(500_000));
        assert!(parse(&long).unwrap_err().contains("names and values"));
    }
}
