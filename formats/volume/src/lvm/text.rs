//! LVM's text metadata: nested sections with names and values, as in lvm.conf(5).

mod edit;
mod lexer;
mod parser;
mod writer;

use std::borrow::Cow;

pub(crate) use edit::edited;
pub(crate) use parser::parse;
pub(crate) use writer::written;

/// A string as it is written between quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// Creates a string of characters that need no escapes.
    pub(crate) fn new(plain: &'a str) -> Self {
        Self(plain)
    }

    /// Returns the string with its escapes (`\"` and `\\`) decoded.
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

/// A value after a `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// An integer. (Fractions are words; no value that we read has one.)
    Number(i64),
    /// A string in quotes.
    Text(Text<'a>),
    /// A word without quotes that is not an integer.
    Word(Text<'a>),
    /// A list of numbers and strings.
    List(Vec<Self>),
}

impl Value<'_> {
    /// Returns the string, if the value is one.
    pub(crate) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) | Self::Word(text) => Some(text.plain()),
            Self::Number(_) | Self::List(_) => None,
        }
    }

    /// Returns the number, if the value is a non-negative one.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => u64::try_from(*number).ok(),
            Self::Text(_) | Self::Word(_) | Self::List(_) => None,
        }
    }

    /// Returns a list's members; a single value counts as a list of one, as in LVM.
    pub(crate) fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            single => std::slice::from_ref(single),
        }
    }
}

/// A section: names with values, and nested sections. All are looked up by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    pub(crate) values: Vec<(Text<'a>, Value<'a>)>,
    pub(crate) sections: Vec<(Text<'a>, Self)>,
}

impl<'a> Section<'a> {
    /// Sets the value of that name, in the place of an old one or at the end.
    pub(crate) fn set(&mut self, name: &'a str, value: Value<'a>) {
        match self.values.iter_mut().find(|(key, _)| key.0 == name) {
            Some((_, old)) => *old = value,
            None => self.values.push((Text(name), value)),
        }
    }

    /// Returns the section of that name, to change it.
    pub(crate) fn section_mut(&mut self, name: &str) -> Option<&mut Section<'a>> {
        let mut sections = self.sections.iter_mut();
        let found = sections.find(|(key, _)| key.0 == name);
        found.map(|(_, section)| section)
    }
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

    /// Returns the number of that name.
    ///
    /// # Errors
    /// The name is missing, or is not a number.
    pub(crate) fn number(&self, name: &str) -> Result<u64, String> {
        let number = self.value(name).and_then(Value::number);
        number.ok_or_else(|| format!("missing number `{name}`"))
    }

    /// Returns the string of that name.
    ///
    /// # Errors
    /// The name is missing, or is not a string.
    pub(crate) fn text(&self, name: &str) -> Result<Cow<'_, str>, String> {
        let text = self.value(name).and_then(Value::text);
        text.ok_or_else(|| format!("missing string `{name}`"))
    }

    /// Returns true if the list of that name contains that word.
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
            ("a\nb", 2, "expected `=`"),
            ("a = }", 1, "expected a value"),
            ("\n{", 2, "expected a name"),
            ("}", 1, "expected a name"),
            ("a = [[1]]", 1, "expected a value"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
        }
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let deep = "a { ".repeat(100_000);
        assert!(parse(&deep).unwrap_err().contains("nested too deeply"));
        let long = format!("a = [{}]", "1,".repeat(500_000));
        assert!(parse(&long).unwrap_err().contains("names and values"));
    }
}
