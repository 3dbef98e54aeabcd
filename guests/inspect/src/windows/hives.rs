//! The registry hives of a Windows guest, and queries of their values.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_registry::{Hive, Key, Recovery, Value};

use super::super::files::Files;
use diskfs_disk::guest::{in_any_case, windows_root};

/// The directory of the hives, below the system directory.
const CONFIG: &str = "System32/config";

/// The limit on values of a key; a program, a service or an interface has some dozens.
const MAX_VALUES: u32 = 1000;

/// The size limit of a text; names and paths are shorter.
const MAX_TEXT_BYTES: usize = 4096;

/// An open hive.
#[derive(Debug)]
pub(super) struct OpenHive<'a> {
    files: &'a Files<'a>,
    hive: Hive,
    path: String,
}

/// The hives of the system. A missing or broken hive has no values.
#[derive(Debug)]
pub(super) struct Hives<'a> {
    files: &'a Files<'a>,
    root: String,
    pub(super) software: Option<OpenHive<'a>>,
    pub(super) system: Option<OpenHive<'a>>,
    pub(super) sam: Option<OpenHive<'a>>,
    /// The hive with the settings of new users.
    pub(super) default: Option<OpenHive<'a>>,
    control_set: Option<u32>,
}

impl<'a> Hives<'a> {
    /// Opens the hives of a guest; `None` if it has no `SOFTWARE` hive, and so is not Windows.
    pub(super) fn find(files: &'a Files<'a>) -> Option<Self> {
        let root = windows_root(files.filesystem())?;
        let open = |name: &str| OpenHive::open(files, &format!("{root}/{CONFIG}/{name}"));
        let system = open("SYSTEM");
        let current = system
            .as_ref()
            .and_then(|hive| hive.number("Select", "Current"));
        Some(Self {
            files,
            software: open("SOFTWARE"),
            sam: open("SAM"),
            default: open("DEFAULT"),
            control_set: current.and_then(|number| u32::try_from(number).ok()),
            system,
            root,
        })
    }

    pub(super) fn files(&self) -> &'a Files<'a> {
        self.files
    }

    /// Returns the system directory, as the guest spells it.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// Returns the path of the hive `SYSTEM`; empty if it could not be opened.
    pub(super) fn system_path(&self) -> &str {
        self.system.as_ref().map_or("", |hive| hive.path.as_str())
    }

    /// Returns the number of the present control set.
    pub(super) fn control_set(&self) -> Option<u32> {
        self.control_set
    }

    /// Returns the path of a key in that control set.
    pub(super) fn in_control_set(&self, path: &str) -> String {
        // Windows counts from 1, and the installation uses 1.
        format!(r"ControlSet{:03}\{path}", self.control_set.unwrap_or(1))
    }

    /// Returns a key in the control set.
    pub(super) fn control(&self, path: &str) -> Option<Key<'_>> {
        self.system.as_ref()?.key(&self.in_control_set(path))
    }

    /// Returns a text of the control set, and records it as a source.
    pub(super) fn control_text(
        &self,
        question: &'static str,
        path: &str,
        name: &str,
    ) -> Option<String> {
        let system = self.system.as_ref()?;
        system.answer(question, &self.in_control_set(path), name)
    }

    /// Returns a number of the control set.
    pub(super) fn control_number(&self, path: &str, name: &str) -> Option<u64> {
        self.system
            .as_ref()?
            .number(&self.in_control_set(path), name)
    }

    /// Returns a text of `SOFTWARE`, and records it as a source.
    pub(super) fn software_text(
        &self,
        question: &'static str,
        path: &str,
        name: &str,
    ) -> Option<String> {
        self.software.as_ref()?.answer(question, path, name)
    }
}

impl<'a> OpenHive<'a> {
    /// Opens a hive with its logs, ignoring the case of their names.
    fn open(files: &'a Files<'a>, path: &str) -> Option<Self> {
        let path = in_any_case(files.filesystem(), path)?;
        let primary = device(files, &path)?;
        let logs = ["LOG1", "LOG2", "LOG"].iter().filter_map(|suffix| {
            let log = in_any_case(files.filesystem(), &format!("{path}.{suffix}"))?;
            device(files, &log)
        });
        let logs: Vec<_> = logs.collect();
        match Hive::open(primary, &logs) {
            Ok(hive) => {
                if hive.recovery() == Recovery::Unrecovered {
                    files.add_problem(
                        &path,
                        "incomplete write, and the transaction logs do not match",
                    );
                }
                Some(Self { files, hive, path })
            }
            Err(error) => {
                files.add_problem(&path, error.to_string());
                None
            }
        }
    }

    /// Returns a key, if it exists.
    pub(super) fn key(&self, path: &str) -> Option<Key<'_>> {
        let root = self.read(self.hive.root())?;
        self.read(root.subkey(path))?
    }

    /// Returns a value.
    pub(super) fn value(&self, path: &str, name: &str) -> Option<Value> {
        self.read(self.key(path)?.value(name))?
    }

    /// Returns a text that is not empty.
    pub(super) fn text(&self, path: &str, name: &str) -> Option<String> {
        filled(&self.value(path, name)?.into_text()?)
    }

    pub(super) fn number(&self, path: &str, name: &str) -> Option<u64> {
        self.value(path, name)?.number()
    }

    /// Returns a text, and records it as the source of an answer.
    pub(super) fn answer(&self, question: &'static str, path: &str, name: &str) -> Option<String> {
        let text = self.text(path, name)?;
        self.add_source(question);
        Some(text)
    }

    pub(super) fn add_source(&self, question: &'static str) {
        self.files.add_source(question, &self.path, None);
    }

    /// Returns the value of a read; an error becomes a problem.
    pub(super) fn read<T>(&self, read: diskfs_block::Result<T>) -> Option<T> {
        read.inspect_err(|error| self.files.add_problem(&self.path, error.to_string()))
            .ok()
    }

    /// Returns the subkeys of a key, at most `limit`. Broken ones become problems and are skipped.
    pub(super) fn subkeys<'k>(&'k self, key: &Key<'k>, limit: usize) -> Vec<Key<'k>> {
        let Some(subkeys) = self.read(key.subkeys()) else {
            return Vec::new();
        };
        let mut found: Vec<_> = subkeys
            .filter_map(|key| self.read(key))
            .take(limit + 1)
            .collect();
        if found.len() > limit {
            found.truncate(limit);
            self.files.add_problem(
                &self.path,
                format!("too many keys: those after the first {limit} are not read"),
            );
        }
        found
    }

    /// Returns a text of a key.
    pub(super) fn text_of(&self, key: &Key<'_>, name: &str) -> Option<String> {
        filled(&self.value_of(key, name)?.into_text()?)
    }

    /// Returns a value of a key. Keys with many values, and long values, are skipped, because there
    /// can be many such keys.
    fn value_of(&self, key: &Key<'_>, name: &str) -> Option<Value> {
        if key.value_count() > MAX_VALUES {
            return None;
        }
        let value = self.read(key.named_value(name))??;
        if value.len_bytes() > MAX_TEXT_BYTES {
            return None;
        }
        self.read(value.value())
    }

    /// Returns the texts of a key's list; empty if it is missing.
    pub(super) fn texts_of(&self, key: &Key<'_>, name: &str) -> Vec<String> {
        let texts = self
            .value_of(key, name)
            .and_then(Value::into_texts)
            .unwrap_or_default();
        texts.into_iter().filter_map(|text| filled(&text)).collect()
    }

    pub(super) fn number_of(&self, key: &Key<'_>, name: &str) -> Option<u64> {
        self.value_of(key, name)?.number()
    }
}

/// Decodes UTF-16LE. An unpaired surrogate becomes U+FFFD, and an odd last byte is ignored.
pub(super) fn utf16(bytes: &[u8]) -> String {
    let units = bytes.as_chunks::<2>().0.iter();
    let units: Vec<u16> = units.map(|unit| u16::from_le_bytes(*unit)).collect();
    String::from_utf16_lossy(&units)
}

/// Removes surrounding spaces; `None` if nothing is left.
fn filled(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn device(files: &Files<'_>, path: &str) -> Option<Arc<dyn BlockRead>> {
    Some(Arc::new(files.open(path)?))
}
