//! The command `diskfs xattr`.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use clap::{Args, Subcommand, ValueEnum};

use diskfs::Result;
use diskfs::vfs::{self, Follow, SetXattr, resolve};
use serde_json::{Map, Value};

use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Output, Session, name_style, stdout};
use super::show::json as document;
use super::show::name::NameStyle;
use super::target::{self, TargetPlace, WriteArgs};

/// Show and change extended attributes
#[derive(Debug, Args)]
pub(super) struct Xattr {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Get(Get),
    Set(Set),
    Remove(Remove),
}

/// List the names of a file's extended attributes
#[derive(Debug, Args)]
#[command(after_help = "Example:
  diskfs xattr list disk.qcow2:/bin/ping")]
struct List {
    /// The file; a symlink is followed within the image
    #[arg(value_name = "IMG:/PATH")]
    path: Operand,

    #[command(flatten)]
    link: LinkArgs,

    #[command(flatten)]
    source: SourceArgs,
}

/// Print the value of an extended attribute
#[derive(Debug, Args)]
#[command(after_help = "Example:
  diskfs xattr get -e hex security.capability disk.qcow2:/bin/ping")]
struct Get {
    /// The attribute's full name, such as user.comment
    #[arg(value_name = "NAME")]
    name: OsString,

    /// The file; a symlink is followed within the image
    #[arg(value_name = "IMG:/PATH")]
    path: Operand,

    /// The output format of the value: raw, hex or base64
    #[arg(
        short,
        long,
        value_name = "HOW",
        default_value = "raw",
        hide_possible_values = true
    )]
    encoding: Encoding,

    #[command(flatten)]
    link: LinkArgs,

    #[command(flatten)]
    source: SourceArgs,
}

/// Set an extended attribute
#[derive(Debug, Args)]
#[command(
    after_help = "A VALUE that begins with 0x is hexadecimal, and one with 0s is base64, as in setfattr(1).

Example:
  diskfs xattr set user.comment 'from the installer' disk.qcow2:/etc/motd"
)]
struct Set {
    /// The attribute's full name, such as user.comment
    #[arg(value_name = "NAME")]
    name: OsString,

    /// The new value
    #[arg(value_name = "VALUE", value_parser = parse_value)]
    value: Bytes,

    /// The files to change
    #[arg(required = true, value_name = "IMG:/PATH")]
    paths: Vec<Operand>,

    #[command(flatten)]
    link: LinkArgs,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

/// Remove an extended attribute
#[derive(Debug, Args)]
#[command(after_help = "Example:
  diskfs xattr remove user.comment disk.qcow2:/etc/motd")]
struct Remove {
    /// The attribute's full name, such as user.comment
    #[arg(value_name = "NAME")]
    name: OsString,

    /// The files to change
    #[arg(required = true, value_name = "IMG:/PATH")]
    paths: Vec<Operand>,

    #[command(flatten)]
    link: LinkArgs,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

/// The option for symlinks.
#[derive(Debug, Clone, Copy, Args)]
struct LinkArgs {
    /// Use a symlink itself, not the file that it points to
    #[arg(long)]
    no_dereference: bool,
}

impl LinkArgs {
    fn follow(self) -> Follow {
        if self.no_dereference {
            Follow::AllButLast
        } else {
            Follow::All
        }
    }
}

/// The output format of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Encoding {
    /// The raw bytes
    Raw,
    /// Hexadecimal, preceded by 0x
    Hex,
    /// Base64, preceded by 0s
    Base64,
}

/// A value. It is a separate type, because clap would treat a list of bytes as several arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bytes(Vec<u8>);

pub(super) fn run(args: &Xattr, session: &mut Session) -> Result<()> {
    match &args.action {
        Action::List(args) => list(args, session),
        Action::Get(args) => get(args, session),
        Action::Set(args) => set(args, session),
        Action::Remove(args) => remove(args, session),
    }
}

fn list(args: &List, session: &mut Session) -> Result<()> {
    let Some(place) = session.place(&args.path, &args.source) else {
        return Ok(());
    };
    let pairs = place.node(args.link.follow())?.xattrs()?;
    let mut out = stdout()?;
    if session.output() == Output::Json {
        let mut fields = Map::new();
        document::put_name(&mut fields, "path", &place.path);
        fields.insert("xattrs".to_owned(), document::xattrs(&pairs));
        document::write(&mut out, session.command(), Value::Object(fields))?;
    } else {
        let style = name_style(NameStyle::Escaped);
        for (name, _) in &pairs {
            out.write_all(&style.show(name))?;
            out.write_all(b"\n")?;
        }
    }
    Ok(out.flush()?)
}

fn get(args: &Get, session: &mut Session) -> Result<()> {
    let Some(place) = session.place(&args.path, &args.source) else {
        return Ok(());
    };
    let node = place.node(args.link.follow())?;
    let name = args.name.as_bytes();
    let missing = || node.in_image(vfs::ErrorKind::NoAttribute.into());
    let value = node.xattr(name)?.ok_or_else(missing)?;
    if session.output() == Output::Json {
        let pair = [(name.to_vec(), value)];
        let mut fields = Map::new();
        document::put_name(&mut fields, "path", &place.path);
        fields.insert("xattrs".to_owned(), document::xattrs(&pair));
        let mut out = stdout()?;
        document::write(&mut out, session.command(), Value::Object(fields))?;
        return Ok(out.flush()?);
    }
    let mut out = stdout()?;
    match args.encoding {
        Encoding::Raw => out.write_all(&value)?,
        Encoding::Hex => {
            write!(out, "0x")?;
            value
                .iter()
                .try_for_each(|byte| write!(out, "{byte:02x}"))?;
            writeln!(out)?;
        }
        Encoding::Base64 => writeln!(out, "0s{}", document::base64(&value))?,
    }
    Ok(out.flush()?)
}

fn set(args: &Set, session: &mut Session) -> Result<()> {
    target::for_each(
        session,
        &args.paths,
        &args.source,
        &args.write,
        |_, place| {
            change(place, args.link, |fs, inode| {
                fs.set_xattr(inode, args.name.as_bytes(), &args.value.0, SetXattr::Any)
            })
        },
    )
}

fn remove(args: &Remove, session: &mut Session) -> Result<()> {
    target::for_each(
        session,
        &args.paths,
        &args.source,
        &args.write,
        |_, place| {
            change(place, args.link, |fs, inode| {
                fs.remove_xattr(inode, args.name.as_bytes())
            })
        },
    )
}

fn change(
    place: &TargetPlace,
    link: LinkArgs,
    change: impl FnOnce(&dyn vfs::FsWrite, vfs::InodeNumber) -> vfs::Result<()>,
) -> Result<()> {
    let done =
        resolve(place.fs(), &place.path, link.follow()).and_then(|inode| change(place.fs(), inode));
    done.map_err(|e| place.error(e.in_path(&place.path)))
}

/// Parses a value in the syntax of setfattr(1).
fn parse_value(text: &str) -> std::result::Result<Bytes, String> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return hex(digits)
            .map(Bytes)
            .ok_or_else(|| format!("invalid hexadecimal value `{text}`"));
    }
    if let Some(digits) = text.strip_prefix("0s").or_else(|| text.strip_prefix("0S")) {
        return base64(digits)
            .map(Bytes)
            .ok_or_else(|| format!("invalid base64 value `{text}`"));
    }
    Ok(Bytes(text.as_bytes().to_vec()))
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = digits.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).ok();
    digits.chunks_exact(2).map(byte).collect()
}

/// Decodes base64 (RFC 4648, section 4).
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let mut bytes = Vec::new();
    for group in digits.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for &digit in group {
            bits = bits << 6 | base64_digit(digit)?;
        }
        let count = match group.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=count]);
    }
    Some(bytes)
}

fn base64_digit(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_setfattr() {
        for (text, value) in [
            ("plain", &b"plain"[..]),
            ("0x00ff", b"\x00\xff"),
            ("0sAP8=", b"\x00\xff"),
            ("0sZm9vYmFy", b"foobar"),
            ("0sZm8=", b"fo"),
            ("0x", b""),
            ("", b""),
        ] {
            assert_eq!(parse_value(text).unwrap().0, value, "{text}");
        }
        for text in ["0x0", "0xgg", "0sA", "0s!!!!"] {
            assert!(parse_value(text).is_err(), "{text}");
        }
    }
}
