//! The text of a tree of sections, as LVM lays it out in metadata areas: without indentation.

use std::fmt::{self, Write};

use super::{Section, Text, Value};

/// Returns the text of a whole tree. Sections come before values, because LVM expects the name of
/// the group at the start. Comments are lost.
pub(crate) fn written(tree: &Section<'_>) -> String {
    let mut text = String::new();
    for (name, inner) in &tree.sections {
        // Writing to a `String` cannot fail.
        let _ = write_section(&mut text, *name, inner);
    }
    text.push('\n');
    for (name, value) in &tree.values {
        let _ = write_value(&mut text, *name, value);
    }
    text
}

fn write_section(text: &mut String, name: Text<'_>, section: &Section<'_>) -> fmt::Result {
    writeln!(text, "{} {{", Name(name))?;
    for (name, value) in &section.values {
        write_value(text, *name, value)?;
    }
    for (name, inner) in &section.sections {
        text.push('\n');
        write_section(text, *name, inner)?;
    }
    text.push_str("}\n");
    Ok(())
}

fn write_value(text: &mut String, name: Text<'_>, value: &Value<'_>) -> fmt::Result {
    writeln!(text, "{} = {value}", Name(name))
}

/// A name, in quotes if it needs them.
struct Name<'a>(Text<'a>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Text(name) = self.0;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "+_.-/@".contains(c);
        if !name.is_empty() && name.chars().all(is_plain) {
            f.write_str(name)
        } else {
            write!(f, "\"{name}\"")
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(Text(text)) => write!(f, "\"{text}\""),
            Self::Word(Text(word)) => f.write_str(word),
            Self::List(list) => {
                f.write_str("[")?;
                for (index, value) in list.iter().enumerate() {
                    let before = if index == 0 { "" } else { ", " };
                    write!(f, "{before}{value}")?;
                }
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn a_written_tree_parses_as_the_same_tree() {
        let text = "contents = \"x\"\nvg0 {\nid = \"a\\\"b\\\\\" # more\nfraction = 1.5\nflags = []\n\
            status = [\"READ\", word, -1]\n\"a name\" { n = 1 }\n pv0 { stripes = [\n\"pv0\", 0\n] }\n}\n";
        let tree = parse(text).unwrap();
        let written = written(&tree);
        assert_eq!(parse(&written).unwrap(), tree, "{written}");
        assert!(written.starts_with("vg0 {\n"), "{written}");
        assert!(written.contains("fraction = 1.5\n"), "{written}");
    }
}
