//! The hives of a Windows, and how questions are asked of them.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_registry::{Hive, Key, Recovery, Value};

use super::super::files::Files;
use diskfs_disk::guest::{in_any_case, windows_root};

/// Where hives are, below the system's directory.
const CONFIG: &str = "System32/config";

/// A program, a service or an interface has some dozens.
const MAX_VALUES: u32 = 1000;

/// Names and paths are shorter.
const MAX_TEXT_BYTES: usize = 4096;

/// A hive that could be opened.
#[derive(Debug)]
pub(super) struct OpenHive<'a> {
    files: &'a Files<'a>,
    hive: Hive,
    path: String,
}

/// Those of the system. One that is not there, or broken, has no values.
#[derive(Debug)]
pub(super) struct Hives<'a> {
    files: &'a Files<'a>,
    root: String,
    pub(super) software: Option<OpenHive<'a>>,
    pub(super) system: Option<OpenHive<'a>>,
    pub(super) sam: Option<OpenHive<'a>>,
    /// The settings of whoever has none of his own yet.
    pub(super) default: Option<OpenHive<'a>>,
    control_set: Option<u32>,
}

impl<'a> Hives<'a> {
    /// Those of a guest; `None` when it has no `SOFTWARE`, and so is no Windows.
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

    /// The system's directory, as the guest has it.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// The path of the hive `SYSTEM`; empty where it could not be opened.
    pub(super) fn system_path(&self) -> &str {
        self.system.as_ref().map_or("", |hive| hive.path.as_str())
    }

    /// The number of the control set that is in use.
    pub(super) fn control_set(&self) -> Option<u32> {
        self.control_set
    }

    /// The path of a key of that control set.
    pub(super) fn in_control_set(&self, path: &str) -> String {
        // Windows counts from 1, and installs with 1.
        format!(r"ControlSet{:03}\{path}", self.control_set.unwrap_or(1))
    }

    /// A key of the control set.
    pub(super) fn control(&self, path: &str) -> Option<Key<'_>> {
        self.system.as_ref()?.key(&self.in_control_set(path))
    }

    /// A text of the control set, which answers a question.
    pub(super) fn control_text(
        &self,
        question: &'static str,
        path: &str,
        name: &str,
    ) -> Option<String> {
        let system = self.system.as_ref()?;
        system.answer(question, &self.in_control_set(path), name)
    }

    /// A number of the control set.
    pub(super) fn control_number(&self, path: &str, name: &str) -> Option<u64> {
        self.system
            .as_ref()?
            .number(&self.in_control_set(path), name)
    }

    /// A text of `SOFTWARE`, which answers a question.
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
    /// Opens a hive with its logs, in any case of their names.
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
                    files.complain(&path, "it was being written, and its logs do not fit");
                }
                Some(Self { files, hive, path })
            }
            Err(error) => {
                files.complain(&path, error.to_string());
                None
            }
        }
    }

    /// A key, if it is there.
    pub(super) fn key(&self, path: &str) -> Option<Key<'_>> {
        let root = self.read(self.hive.root())?;
        self.read(root.subkey(path))?
    }

    /// What a value says.
    pub(super) fn value(&self, path: &str, name: &str) -> Option<Value> {
        self.read(self.key(path)?.value(name))?
    }

    /// A text that says something.
    pub(super) fn text(&self, path: &str, name: &str) -> Option<String> {
        filled(&self.value(path, name)?.into_text()?)
    }

    pub(super) fn number(&self, path: &str, name: &str) -> Option<u64> {
        self.value(path, name)?.number()
    }

    /// A text that answers a question, which is noted.
    pub(super) fn answer(&self, question: &'static str, path: &str, name: &str) -> Option<String> {
        let text = self.text(path, name)?;
        self.came_from(question);
        Some(text)
    }

    pub(super) fn came_from(&self, question: &'static str) {
        self.files.came_from(question, &self.path, None);
    }

    /// What could be read; what could not is told.
    pub(super) fn read<T>(&self, read: diskfs_block::Result<T>) -> Option<T> {
        read.inspect_err(|error| self.files.complain(&self.path, error.to_string()))
            .ok()
    }

    /// The subkeys of a key, up to a number of them; broken ones are told, and left out.
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
            self.files.complain(
                &self.path,
                format!("keys beyond the {limit}th are left out"),
            );
        }
        found
    }

    /// A text of a key.
    pub(super) fn text_of(&self, key: &Key<'_>, name: &str) -> Option<String> {
        filled(&self.value_of(key, name)?.into_text()?)
    }

    /// What a value of a key says; keys of many values or long ones are none that is asked, as there may be many
    /// such keys.
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

    /// The texts of a key's list; none where there is none.
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

/// A text of UTF-16LE; half a surrogate pair becomes U+FFFD, and a last odd byte is none.
pub(super) fn utf16(bytes: &[u8]) -> String {
    let units = bytes.as_chunks::<2>().0.iter();
    let units: Vec<u16> = units.map(|unit| u16::from_le_bytes(*unit)).collect();
    String::from_utf16_lossy(&units)
}

/// Without blanks around it, and not empty.
fn filled(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn device(files: &Files<'_>, path: &str) -> Option<Arc<dyn BlockRead>> {
    Some(Arc::new(files.open(path)?))
}
