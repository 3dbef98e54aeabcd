//! The boot manager's variables. UEFI 3.1 and 3.3.

mod devices;

use std::collections::BTreeMap;

use diskfs_block::{Error, Result};

pub use devices::{BootDevice, DeviceKind, Matched, Place};

use crate::{Attributes, Edit, Guid, LoadOption, VariableStore};

const VENDOR: Guid = Guid::EFI_GLOBAL_VARIABLE;

/// Where a new entry goes in the boot order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Before all others.
    First,
    /// Behind all others.
    Last,
}

/// A `Boot####`.
#[derive(Debug)]
pub struct BootEntry {
    /// Its number.
    pub number: u16,
    /// What it says; a broken one hides no other.
    pub option: Result<LoadOption>,
}

/// The name of an entry: `Boot001F`.
fn name(number: u16) -> String {
    format!("Boot{number:04X}")
}

/// The number in an entry's name, which has four digits in capitals.
fn number(name: &str) -> Option<u16> {
    let digits = name.strip_prefix("Boot")?;
    let is_digit = |c: char| matches!(c, '0'..='9' | 'A'..='F');
    let is_number = digits.len() == 4 && digits.chars().all(is_digit);
    is_number.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// A list of numbers.
fn numbers(name: &str, data: &[u8]) -> Result<Vec<u16>> {
    let (numbers, rest) = data.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Error::corrupt(format!("{name} has half a number")));
    }
    Ok(numbers
        .iter()
        .map(|bytes| u16::from_le_bytes(*bytes))
        .collect())
}

impl VariableStore {
    /// All `Boot####`, by number.
    pub fn boot_entries(&self) -> Vec<BootEntry> {
        let variables = self
            .variables()
            .into_iter()
            .filter(|variable| variable.vendor == VENDOR);
        let entries = variables.filter_map(|variable| {
            let option = LoadOption::parse(variable.data);
            Some((number(&variable.name)?, option))
        });
        let entries: BTreeMap<_, _> = entries.collect();
        entries
            .into_iter()
            .map(|(number, option)| BootEntry { number, option })
            .collect()
    }

    /// `BootOrder`: the numbers of the entries, in the order in which they are tried. None where there is no
    /// such variable.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn boot_order(&self) -> Result<Vec<u16>> {
        self.variable("BootOrder", VENDOR)
            .map_or_else(|| Ok(Vec::new()), |order| numbers("BootOrder", order.data))
    }

    /// `BootNext`: what is tried first, once.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn boot_next(&self) -> Result<Option<u16>> {
        let Some(next) = self.variable("BootNext", VENDOR) else {
            return Ok(None);
        };
        match *numbers("BootNext", next.data)? {
            [number] => Ok(Some(number)),
            _ => Err(Error::corrupt("BootNext is not one number")),
        }
    }

    /// Sets `BootOrder`.
    ///
    /// # Errors
    /// `Invalid` for no entry, for one twice, and for one that is neither there nor in the order now; as
    /// [`set`](Self::set).
    pub fn set_boot_order(&mut self, entries: &[u16]) -> Result<Edit> {
        let known = self.boot_order().unwrap_or_default();
        let mut seen = std::collections::BTreeSet::new();
        for &number in entries {
            self.check_entry(number, &known)?;
            if !seen.insert(number) {
                return Err(Error::invalid(format!(
                    "{} is twice in the order",
                    name(number)
                )));
            }
        }
        let data: Vec<u8> = entries
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        self.set_boot_variable("BootOrder", &data)
    }

    /// Sets `BootNext`, or deletes it.
    ///
    /// # Errors
    /// `Invalid` for an entry that is not there; as [`set`](Self::set).
    pub fn set_boot_next(&mut self, entry: Option<u16>) -> Result<Edit> {
        match entry {
            Some(number) => {
                self.check_entry(number, &[])?;
                self.set_boot_variable("BootNext", &number.to_le_bytes())
            }
            None if self.variable("BootNext", VENDOR).is_none() => Ok(Edit::default()),
            None => self.delete("BootNext", VENDOR),
        }
    }

    /// Makes a new entry under the first number that is free, and puts it into the order.
    ///
    /// # Errors
    /// `NoSpace` when all numbers are taken; as [`set`](Self::set). Then nothing is changed.
    pub fn add_boot_entry(
        &mut self,
        option: &LoadOption,
        position: Position,
    ) -> Result<(u16, Edit)> {
        let before = self.clone();
        let added = self.add_entry(option, position);
        if added.is_err() {
            *self = before;
        }
        added
    }

    fn add_entry(&mut self, option: &LoadOption, position: Position) -> Result<(u16, Edit)> {
        let number = self.free_number()?;
        let mut order = self.boot_order()?;
        // A number that was left behind in the order would start the new entry twice.
        order.retain(|&other| other != number);
        match position {
            Position::First => order.insert(0, number),
            Position::Last => order.push(number),
        }
        let entry = self.set_boot_variable(&name(number), &option.to_bytes()?)?;
        Ok((number, entry.then(self.set_boot_order(&order)?)))
    }

    fn free_number(&self) -> Result<u16> {
        let taken: Vec<u16> = self
            .boot_entries()
            .iter()
            .map(|entry| entry.number)
            .collect();
        let full = || {
            Error::new(
                diskfs_block::ErrorKind::NoSpace,
                "all 65,536 boot entries are there",
            )
        };
        (0..=u16::MAX)
            .find(|number| taken.binary_search(number).is_err())
            .ok_or_else(full)
    }

    fn check_entry(&self, number: u16, known: &[u16]) -> Result<()> {
        let name = name(number);
        if known.contains(&number) || self.variable(&name, VENDOR).is_some() {
            return Ok(());
        }
        Err(Error::invalid(format!("there is no boot entry {name}")))
    }

    /// With the attributes that it has, if it is there.
    fn set_boot_variable(&mut self, name: &str, data: &[u8]) -> Result<Edit> {
        let old = self.variable(name, VENDOR);
        let attributes = old.map_or(Attributes::DEFAULT, |old| old.attributes);
        self.set(name, VENDOR, attributes, data)
    }
}
