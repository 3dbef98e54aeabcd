//! Hives and their logs, made for tests.
//!
//! [`HiveBuilder`] makes a hive of keys and values, or of the text of a `.reg` file; [`logs`] makes the
//! transaction logs that lead from one hive to another. Both follow the specification, and other programs
//! read the hives (`tests/judges.rs`); logs are judged by the specification alone.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "it is given what a test chose, and a panic is how a test fails"
)]

mod cells;
pub mod logs;
mod reg_text;

use std::collections::BTreeMap;

use crate::upcase::upcase;
use crate::{DataType, Filetime};
use cells::Cells;
pub use reg_text::RegTextError;

/// How lists of subkeys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// `li`.
    Index,
    /// `lf`.
    Fast,
    /// `lh`.
    Hash,
}

/// A key on its way into a hive.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) class: Option<String>,
    pub(crate) subkeys: BTreeMap<Vec<u16>, Node>,
    pub(crate) values: Vec<(String, DataType, Vec<u8>)>,
}

/// Makes a hive.
#[derive(Debug)]
pub struct HiveBuilder {
    root: Node,
    /// The leaves of lists.
    pub leaf: Leaf,
    /// So many subkeys are in a leaf; of more, an index root is made.
    pub leaf_len: usize,
    /// 3 to 6. Big data is written from 4 on.
    pub minor_version: u32,
    /// The time of the hive and of all its keys.
    pub last_written: Filetime,
    /// Both sequence numbers.
    pub sequence_number: u32,
}

impl Default for HiveBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl HiveBuilder {
    /// A hive with its root only.
    pub fn new() -> Self {
        Self {
            root: Node {
                name: String::from("ROOT"),
                ..Node::default()
            },
            leaf: Leaf::Hash,
            leaf_len: 500,
            minor_version: 5,
            last_written: Filetime(133_540_704_000_000_000),
            sequence_number: 1,
        }
    }

    /// Adds a key and those above it.
    pub fn key(&mut self, path: &str) -> &mut Self {
        self.node(path);
        self
    }

    /// Gives a key a class name.
    pub fn class(&mut self, path: &str, class: &str) -> &mut Self {
        self.node(path).class = Some(class.to_owned());
        self
    }

    /// Sets a value of any type.
    pub fn value(&mut self, path: &str, name: &str, data_type: DataType, data: &[u8]) -> &mut Self {
        let values = &mut self.node(path).values;
        values.retain(|(other, ..)| upper(other) != upper(name));
        values.push((name.to_owned(), data_type, data.to_vec()));
        self
    }

    /// Sets a `REG_SZ`.
    pub fn string(&mut self, path: &str, name: &str, text: &str) -> &mut Self {
        self.value(path, name, DataType::STRING, &wide(text))
    }

    /// Sets a `REG_DWORD`.
    pub fn dword(&mut self, path: &str, name: &str, number: u32) -> &mut Self {
        self.value(path, name, DataType::DWORD, &number.to_le_bytes())
    }

    /// Adds what the text of a `.reg` file (`Windows Registry Editor Version 5.00`) has, without `prefix`
    /// before the names of its keys.
    ///
    /// # Errors
    /// The first line that makes no sense.
    pub fn reg_text(&mut self, text: &str, prefix: &str) -> Result<&mut Self, RegTextError> {
        reg_text::read(self, text, prefix)?;
        Ok(self)
    }

    /// The hive's bytes.
    pub fn build(&self) -> Vec<u8> {
        Cells::hive(self, &self.root)
    }

    fn node(&mut self, path: &str) -> &mut Node {
        let mut node = &mut self.root;
        for name in path.split('\\').filter(|name| !name.is_empty()) {
            node = node.subkeys.entry(upper(name)).or_insert_with(|| Node {
                name: name.to_owned(),
                ..Node::default()
            });
        }
        node
    }
}

fn upper(name: &str) -> Vec<u16> {
    name.encode_utf16().map(upcase).collect()
}

/// UTF-16LE with a NUL at its end.
fn wide(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().chain([0]);
    units.flat_map(u16::to_le_bytes).collect()
}
