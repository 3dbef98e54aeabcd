//! The command `diskfs truncate`.

use clap::Args;

use diskfs::Result;
use diskfs::vfs::{self, Follow, NewKind, follow_last, resolve, resolve_parent};

use super::bytes;
use super::operand::Operand;
use super::options::SourceArgs;
use super::session::Session;
use super::target::{self, TargetPlace, WriteArgs, new_file};

/// Shrink files, or extend them with a hole
#[derive(Debug, Args)]
#[command(
    after_help = "A prefix changes the meaning of SIZE: + extend by, - shrink by, < at most, > at least, / round down
to a multiple of, % round up to a multiple of.

Examples:
  diskfs truncate -s 0 disk.qcow2:/var/log/wtmp
  diskfs truncate -s +1G disk.qcow2:/swapfile"
)]
pub(super) struct Truncate {
    /// The files to change; missing files are created
    #[arg(required = true, value_name = "IMG:/PATH")]
    paths: Vec<Operand>,

    /// The new size (suffixes k, M, G, T)
    #[arg(short, long, value_name = "SIZE", value_parser = NewSize::parse, allow_hyphen_values = true)]
    size: NewSize,

    /// Do not create files
    #[arg(short = 'c', long)]
    no_create: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

/// A size, or a change of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewSize {
    Exactly(u64),
    LongerBy(u64),
    ShorterBy(u64),
    AtMost(u64),
    AtLeast(u64),
    MultipleBelow(u64),
    MultipleAbove(u64),
}

impl NewSize {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let make = match text.chars().next() {
            Some('+') => Self::LongerBy,
            Some('-') => Self::ShorterBy,
            Some('<') => Self::AtMost,
            Some('>') => Self::AtLeast,
            Some('/') => Self::MultipleBelow,
            Some('%') => Self::MultipleAbove,
            _ => return bytes::parse(text).map(Self::Exactly),
        };
        let bytes = bytes::parse(text.get(1..).unwrap_or_default().trim_start())?;
        match make(bytes) {
            Self::MultipleBelow(0) | Self::MultipleAbove(0) => {
                Err("cannot round to a multiple of 0".to_owned())
            }
            size => Ok(size),
        }
    }

    /// Returns the new size of a file of size `now`, or `None` if it exceeds the range of sizes.
    fn of(self, now: u64) -> Option<u64> {
        match self {
            Self::Exactly(bytes) => Some(bytes),
            Self::LongerBy(bytes) => now.checked_add(bytes),
            Self::ShorterBy(bytes) => Some(now.saturating_sub(bytes)),
            Self::AtMost(bytes) => Some(now.min(bytes)),
            Self::AtLeast(bytes) => Some(now.max(bytes)),
            Self::MultipleBelow(bytes) => Some(now - now.checked_rem(bytes)?),
            Self::MultipleAbove(bytes) => now.checked_next_multiple_of(bytes),
        }
    }
}

pub(super) fn run(args: &Truncate, session: &mut Session) -> Result<()> {
    target::for_each(
        session,
        &args.paths,
        &args.source,
        &args.write,
        |_, place| {
            let done = truncate(args, place);
            done.map_err(|e| place.error(e.in_path(&place.path)))
        },
    )
}

fn truncate(args: &Truncate, place: &TargetPlace) -> vfs::Result<()> {
    let fs = place.fs();
    let inode = match resolve(fs, &place.path, Follow::All) {
        Err(error) if error.kind() == vfs::ErrorKind::NotFound => {
            if args.no_create {
                return Ok(());
            }
            let (dir, name) = resolve_parent(fs, follow_last(fs, &place.path)?)?;
            fs.create(dir, &name, NewKind::Regular, &new_file(0o666))?
        }
        found => found?,
    };
    let now = fs.metadata(inode)?.size_bytes;
    let size = args.size.of(now).ok_or(vfs::ErrorKind::FileTooLarge)?;
    if size < now {
        vfs::shorten(fs, inode, size)
    } else {
        fs.set_len(inode, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_truncate() {
        for (text, now, size) in [
            ("1k", 7, Some(1024)),
            ("+1", 7, Some(8)),
            ("-10", 7, Some(0)),
            ("<5", 7, Some(5)),
            (">9", 7, Some(9)),
            ("/4", 7, Some(4)),
            ("%4", 7, Some(8)),
            ("+1", u64::MAX, None),
        ] {
            assert_eq!(NewSize::parse(text).unwrap().of(now), size, "{text}");
        }
        for text in ["", "+", "x", "%0", "/0"] {
            assert!(NewSize::parse(text).is_err(), "{text}");
        }
    }
}
