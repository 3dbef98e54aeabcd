//! The command `diskfs stat`.

use std::io::Write;

use clap::Args;

use diskfs::Result;
use diskfs::vfs::{FileExtent, FileExtentKind, FileType, Follow, Metadata, Timestamp};

use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Located, Output, Session, name_style, stdout};
use super::show::json::{self, List, put_name};
use super::show::name::NameStyle;
use super::show::owners::{Numeric, Owners};
use super::show::{mode, time};

/// Show the metadata of files
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs stat disk.qcow2:/etc/shadow
  diskfs stat -L --json disk.qcow2:/bin/sh
  diskfs stat --extents disk.qcow2:/vmlinuz")]
pub(super) struct Stat {
    /// The files to show; an image alone stands for its root directory
    #[arg(required = true, value_name = "IMG[:/PATH]")]
    paths: Vec<Operand>,

    /// Follow symlinks
    #[arg(short = 'L', long)]
    dereference: bool,

    /// Also show the extents of regular files, and where the volume stores them; at most 65536
    #[arg(long)]
    extents: bool,

    #[command(flatten)]
    source: SourceArgs,
}

/// The metadata and extended attributes of a file.
struct Facts {
    metadata: Metadata,
    target: Option<Vec<u8>>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The extents, if they are shown.
    extents: Option<Vec<FileExtent>>,
}

/// The maximum number of extents that are shown of a file: an image can claim more than fit into
/// memory.
const MAX_EXTENTS: usize = 1 << 16;

impl Stat {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(&self.paths, &self.source)
    }
}

pub(super) fn run(args: &Stat, session: &mut Session) -> Result<()> {
    let mut out = stdout()?;
    let places = session.places(&args.paths, &args.source);
    let follow = if args.dereference {
        Follow::All
    } else {
        Follow::AllButLast
    };
    match session.output() {
        Output::Json => {
            let mut list = List::begin(&mut out, session.command(), "entries")?;
            for place in places {
                match facts(&place, follow, args.extents) {
                    Ok(facts) => list.push(&facts_json(&place, &facts))?,
                    Err(error) => session.report(&error),
                }
            }
            list.end()?;
        }
        Output::Text => {
            let style = name_style(NameStyle::Quoted);
            for place in places {
                match facts(&place, follow, args.extents) {
                    Ok(facts) => print(&mut out, style, &place, &facts)?,
                    Err(error) => session.report(&error),
                }
            }
        }
    }
    Ok(out.flush()?)
}

fn facts(place: &Located, follow: Follow, with_extents: bool) -> Result<Facts> {
    let node = place.node(follow)?;
    let metadata = node.metadata()?;
    let target = match metadata.file_type {
        FileType::Symlink => Some(node.read_link()?),
        _ => None,
    };
    let has_extents = with_extents && metadata.file_type == FileType::Regular;
    let extents = || node.extents(0)?.take(MAX_EXTENTS).collect();
    Ok(Facts {
        target,
        xattrs: node.xattrs()?,
        extents: has_extents.then(extents).transpose()?,
        metadata,
    })
}

fn print(out: &mut dyn Write, style: NameStyle, place: &Located, facts: &Facts) -> Result<()> {
    let m = &facts.metadata;
    let owners = Owners::new(&place.filesystem, Numeric::No);
    out.write_all(b"  File: ")?;
    out.write_all(&style.show(&place.typed))?;
    if let Some(target) = &facts.target {
        out.write_all(b" -> ")?;
        out.write_all(&style.show(target))?;
    }
    writeln!(
        out,
        "\n  Size: {:<15} Blocks: {:<10} IO Block: {:<6} {}",
        m.size_bytes,
        m.allocated_bytes / 512,
        m.block_size,
        mode::words(m)
    )?;
    let device = m
        .device
        .map(|d| format!("  Device type: {},{}", d.major, d.minor));
    writeln!(
        out,
        "Inode: {:<11} Links: {}{}",
        m.inode,
        m.links,
        device.unwrap_or_default()
    )?;
    writeln!(
        out,
        "Access: ({:04o}/{})  Uid: ({:>5}/{:>8})   Gid: ({:>5}/{:>8})",
        m.permissions,
        mode::letters(m),
        m.uid,
        owners
            .user_name(m.uid)
            .unwrap_or_else(|| "UNKNOWN".to_owned()),
        m.gid,
        owners
            .group_name(m.gid)
            .unwrap_or_else(|| "UNKNOWN".to_owned()),
    )?;
    let show = |time: Option<Timestamp>| time.map_or_else(|| "-".to_owned(), time::full);
    writeln!(out, "Access: {}", time::full(m.accessed))?;
    writeln!(out, "Modify: {}", time::full(m.modified))?;
    writeln!(out, "Change: {}", time::full(m.changed))?;
    writeln!(out, " Birth: {}", show(m.created))?;
    let flags = flag_names(m);
    if !flags.is_empty() {
        writeln!(out, " Flags: {}", flags.join(", "))?;
    }
    for (name, value) in &facts.xattrs {
        out.write_all(b" Xattr: ")?;
        out.write_all(&NameStyle::Escaped.show(name))?;
        out.write_all(b"=")?;
        // Values are bytes. Most of them are text; other bytes are escaped.
        out.write_all(&NameStyle::Escaped.show(value))?;
        out.write_all(b"\n")?;
    }
    for extent in facts.extents.iter().flatten() {
        let place = match extent.kind {
            FileExtentKind::Stored { device_offset } => format!("stored at {device_offset}"),
            FileExtentKind::Inline => "inline".to_owned(),
            FileExtentKind::Hole => "hole".to_owned(),
        };
        writeln!(
            out,
            "Extent: {} +{}: {place}",
            extent.offset, extent.len_bytes
        )?;
    }
    Ok(())
}

fn flag_names(metadata: &Metadata) -> Vec<&'static str> {
    let flags = metadata.flags;
    let all = [
        (flags.immutable, "immutable"),
        (flags.append_only, "append_only"),
        (flags.encrypted, "encrypted"),
        (flags.verity, "verity"),
        (flags.casefold, "casefold"),
        (flags.no_dump, "no_dump"),
    ];
    all.into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect()
}

fn facts_json(place: &Located, facts: &Facts) -> serde_json::Value {
    let m = &facts.metadata;
    let mut object = json::metadata(&place.path, m);
    let owners = Owners::new(&place.filesystem, Numeric::No);
    object.extend(
        owners
            .user_name(m.uid)
            .map(|name| ("user".to_owned(), name.into())),
    );
    object.extend(
        owners
            .group_name(m.gid)
            .map(|name| ("group".to_owned(), name.into())),
    );
    object.insert("generation".to_owned(), m.generation.into());
    object.insert("block_size_bytes".to_owned(), m.block_size.into());
    object.insert("flags".to_owned(), json::value(&flag_names(m)));
    if let Some(target) = &facts.target {
        put_name(&mut object, "target", target);
    }
    object.insert("xattrs".to_owned(), json::xattrs(&facts.xattrs));
    if let Some(extents) = &facts.extents {
        let extents = extents.iter().map(extent_json).collect();
        object.insert("extents".to_owned(), extents);
        let is_on_root = place.filesystem.mount_of(m.inode) == 0;
        let volume = is_on_root.then(|| place.filesystem.volume());
        object.insert("volume".to_owned(), volume.into());
    }
    object.into()
}

fn extent_json(extent: &FileExtent) -> serde_json::Value {
    let (kind, at) = match extent.kind {
        FileExtentKind::Stored { device_offset } => ("stored", Some(device_offset)),
        FileExtentKind::Inline => ("inline", None),
        FileExtentKind::Hole => ("hole", None),
    };
    serde_json::json!({
        "offset_bytes": extent.offset,
        "length_bytes": extent.len_bytes,
        "kind": kind,
        "volume_offset_bytes": at,
    })
}
