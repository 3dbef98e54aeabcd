//! The command `diskfs uefi`.

use std::ffi::OsString;
use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use diskfs::varstore::{BootEntry, Edit, LoadOption, VariableStore};
use diskfs::{Disk, Error, ErrorKind, Result};

use super::options::ImageArgs;
use super::session::{Output, Session, name_style, stdout};
use super::show::json as document;
use super::show::name::NameStyle;
use super::snapshot::open_options;

/// The maximum size of a flash file, which is that of Arm machines.
const MAX_BYTES: u64 = 64 << 20;

/// Show and set what a virtual machine's UEFI firmware boots
#[derive(Debug, Args)]
#[command(
    after_help = "FLASH is the file with the firmware's variables (OVMF_VARS.fd, AAVMF_VARS.fd, raw or qcow2). No
machine may be using it. The firmware creates the boot entries when the machine first starts.

Examples:
  diskfs uefi list VARS.fd
  diskfs uefi boot-order VARS.fd 0003 'UEFI QEMU DVD-ROM*'
  diskfs uefi boot-next VARS.fd 0001"
)]
pub(super) struct Uefi {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the boot entries in their order; with --json, also the names of all variables
    List {
        #[command(flatten)]
        flash: Flash,
    },
    /// Put entries first, in this order; the other entries follow
    BootOrder {
        #[command(flatten)]
        flash: Flash,
        /// Numbers (0001) or descriptions; a final * matches any ending
        #[arg(required = true, value_name = "ENTRY")]
        entries: Vec<String>,
    },
    /// Boot an entry at the next start only
    BootNext {
        #[command(flatten)]
        flash: Flash,
        /// The number or description of the entry; `none` for the usual order
        entry: String,
    },
}

/// The flash file, and how to open it.
#[derive(Debug, Args)]
struct Flash {
    /// The flash file with the variables
    #[arg(value_name = "FLASH")]
    image: OsString,

    #[command(flatten)]
    options: ImageArgs,
}

pub(super) fn run(args: &Uefi, session: &mut Session) -> Result<()> {
    match &args.action {
        Action::List { flash } => list(&flash.read()?, session),
        Action::BootOrder { flash, entries } => flash.edit(session, |store| {
            let mut order = Vec::new();
            for entry in entries {
                for number in numbers(store, entry)? {
                    if !order.contains(&number) {
                        order.push(number);
                    }
                }
            }
            let rest = store.boot_order()?.into_iter();
            let rest: Vec<u16> = rest.filter(|number| !order.contains(number)).collect();
            order.extend(rest);
            Ok(store.set_boot_order(&order)?)
        }),
        Action::BootNext { flash, entry } => flash.edit(session, |store| {
            let next = match &**entry {
                "none" => None,
                entry => numbers(store, entry)?.first().copied(),
            };
            Ok(store.set_boot_next(next)?)
        }),
    }
}

impl Flash {
    fn read(&self) -> Result<VariableStore> {
        let (path, options) = open_options(&self.image, &self.options)?;
        let disk = Disk::options().image(options).open(&path)?;
        let device = disk.volume("disk")?.device()?;
        store(&*device).map_err(|error| error.in_file(&path))
    }

    fn edit(
        &self,
        session: &mut Session,
        edit: impl FnOnce(&mut VariableStore) -> Result<Edit>,
    ) -> Result<()> {
        let (path, options) = open_options(&self.image, &self.options)?;
        let disk = Disk::options()
            .image(options)
            .read_only(false)
            .open(&path)?;
        let device = disk.volume("disk")?.writable_device()?;
        let mut store = store(&*device).map_err(|error| error.in_file(&path))?;
        let edit = edit(&mut store).map_err(|error| error.in_file(&path))?;
        for write in &edit.writes {
            device.write_at(write.offset, &write.bytes)?;
            // The writes are in an order in which the store is consistent after each.
            device.flush()?;
        }
        if edit.reclaimed {
            session.warn("the store was full: its deleted variables were removed for good");
        }
        drop(device);
        disk.close()?;
        list(&store, session)
    }
}

fn store(device: &(impl diskfs::block::BlockRead + ?Sized)) -> Result<VariableStore> {
    let size_bytes = device.size_bytes();
    let len = usize::try_from(size_bytes).ok();
    let Some(len) = len.filter(|_| size_bytes <= MAX_BYTES) else {
        let reason = format!("the flash file is too large: {size_bytes} bytes, at most 64 MiB");
        return Err(Error::new(ErrorKind::Invalid, reason));
    };
    let mut bytes = vec![0; len];
    device.read_at(0, &mut bytes)?;
    Ok(VariableStore::open(bytes)?)
}

/// Returns the entries that a word means: a single one by number, or all with the description.
fn numbers(store: &VariableStore, word: &str) -> Result<Vec<u16>> {
    let digits = word.strip_prefix("Boot").unwrap_or(word);
    if digits.len() == 4
        && let Ok(number) = u16::from_str_radix(digits, 16)
    {
        return Ok(vec![number]);
    }
    let is_it = |entry: &BootEntry| {
        let description = description(entry);
        match word.strip_suffix('*') {
            Some(start) => description.starts_with(start),
            None => description == word,
        }
    };
    let entries = store.boot_entries().into_iter();
    let found: Vec<u16> = entries.filter(is_it).map(|entry| entry.number).collect();
    if found.is_empty() {
        let reason = format!("no such boot entry: `{word}`");
        return Err(Error::new(ErrorKind::NotFound, reason).with_hint(
            "`diskfs uefi list` lists the entries; the firmware creates them at the first start",
        ));
    }
    Ok(found)
}

fn description(entry: &BootEntry) -> String {
    match &entry.option {
        Ok(option) => option.description.clone(),
        Err(error) => format!("({error})"),
    }
}

fn path(entry: &BootEntry) -> String {
    let path = entry.option.as_ref().ok().and_then(|option| option.path());
    path.map(ToString::to_string).unwrap_or_default()
}

/// Lists the entries of the boot order first, then the others.
fn list(store: &VariableStore, session: &Session) -> Result<()> {
    let order = store.boot_order()?;
    let mut entries = store.boot_entries();
    let place = |entry: &BootEntry| {
        let place = order.iter().position(|number| *number == entry.number);
        place.unwrap_or(usize::MAX)
    };
    entries.sort_by_key(|entry| (place(entry), entry.number));
    let mut out = stdout()?;
    if session.output() == Output::Json {
        let body = json(store, &order, &entries)?;
        document::write(&mut out, session.command(), body)?;
        return Ok(out.flush()?);
    }
    let style = name_style(NameStyle::Escaped);
    let next = store.boot_next()?;
    for entry in &entries {
        let mark = match () {
            () if next == Some(entry.number) => "next",
            () if order.contains(&entry.number) => "",
            () => "not in the boot order",
        };
        let texts = [description(entry), path(entry)];
        let [text, path] = texts.each_ref().map(|text| style.show(text.as_bytes()));
        write!(out, "Boot{:04X}  ", entry.number)?;
        out.write_all(&[&text[..], b"  ", &path].concat())?;
        writeln!(out, "{}{mark}", if mark.is_empty() { "" } else { "  " })?;
    }
    Ok(out.flush()?)
}

fn json(store: &VariableStore, order: &[u16], entries: &[BootEntry]) -> Result<Value> {
    let number = |number: &u16| format!("{number:04X}");
    let entries: Vec<Value> = entries
        .iter()
        .map(|entry| {
            json!({
                "number": number(&entry.number),
                "description": description(entry),
                "path": path(entry),
                "active": entry.option.as_ref().is_ok_and(LoadOption::is_active),
            })
        })
        .collect();
    let variables: Vec<Value> = store
        .variables()
        .iter()
        .map(|variable| {
            json!({
                "name": variable.name,
                "vendor": variable.vendor.to_string(),
                "size_bytes": variable.data.len(),
            })
        })
        .collect();
    Ok(json!({
        "entries": entries,
        "boot_order": order.iter().map(number).collect::<Vec<_>>(),
        "boot_next": store.boot_next()?.as_ref().map(number),
        "variables": variables,
    }))
}
