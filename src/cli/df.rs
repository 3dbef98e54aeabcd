//! The command `diskfs df`.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use diskfs::vfs::Statistics;
use diskfs::{Disk, Error, Filesystem, Result};
use serde_json::{Map, Value, json};

use super::fleet::listed;
use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::bar::gauge;
use super::show::json as document;
use super::show::name::text;
use super::show::size;
use super::show::table::{Align, lay_out};

/// Show the size, used and free space of filesystems
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Examples:
  diskfs df -h disk.qcow2
  diskfs df -p 1 disk.qcow2
  diskfs df -h /srv/images
  diskfs df --json --fleet /srv/images")]
pub(super) struct Df {
    /// Images, and directories that are searched recursively for images; all readable filesystems
    /// are shown, unless a volume is selected
    #[arg(required_unless_present = "fleet", value_name = "IMG|DIR")]
    images: Vec<Operand>,

    /// Show the images of a directory, or of a list with one path per line; - for standard input
    #[arg(long, value_name = "DIR|LIST", conflicts_with = "images")]
    fleet: Option<PathBuf>,

    /// Print sizes in units such as 1.5K and 20M
    #[arg(short, long)]
    human_readable: bool,

    /// Show inodes instead of bytes
    #[arg(short, long)]
    inodes: bool,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    #[command(flatten)]
    source: SourceArgs,
}

/// The place of the gauge in a row: after the percentage.
const GAUGE_COLUMN: usize = 6;

/// The width of a gauge.
const GAUGE_CELLS: u16 = 10;

/// An image to open, or a file that may be one.
struct Candidate {
    image: OsString,
    /// False for a file that was found in a directory, which may not be an image.
    is_named: bool,
}

struct Row {
    filesystem: Filesystem,
    statistics: Statistics,
}

impl Df {
    /// Returns the files of the host that the command uses.
    fn needs(&self, images: &[Candidate]) -> Needs<'_> {
        let named = images.iter().map(|candidate| candidate.image.clone());
        Needs::reading_images(named.collect(), &self.source)
    }
}

pub(super) fn run(args: &Df, session: &mut Session) -> Result<()> {
    // Directories are searched before the confinement.
    let images = args.images()?;
    session.while_confined(&args.needs(&images), |session| show(args, images, session))
}

fn show(args: &Df, images: Vec<Candidate>, session: &mut Session) -> Result<()> {
    let mut rows = Vec::new();
    for Candidate { image, is_named } in images {
        let disk = match session.disk(&image, &args.source) {
            Ok(disk) => disk,
            Err(error) => {
                session.report(&error);
                continue;
            }
        };
        if let Err(error) = add_rows(args, session, &disk, is_named, &mut rows) {
            session.report(&error);
        }
        session.print_warnings(&disk);
    }
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let filesystems: Vec<Value> = rows.iter().map(row_json).collect();
            document::write(
                &mut out,
                session.command(),
                json!({ "filesystems": filesystems }),
            )?;
        }
        Output::Text if rows.is_empty() => {}
        Output::Text => {
            let gauges = io::stdout().is_terminal();
            out.write_all(table(args, &rows, gauges).as_bytes())?;
        }
    }
    Ok(out.flush()?)
}

impl Df {
    /// Returns the total, the free and the available amount.
    fn figures(&self, s: &Statistics) -> (u64, u64, u64) {
        if self.inodes {
            (s.inodes, s.inodes_free, s.inodes_free)
        } else {
            (
                bytes(s.blocks, s),
                bytes(s.blocks_free, s),
                bytes(s.blocks_available, s),
            )
        }
    }

    fn gauge(&self, statistics: &Statistics) -> String {
        let (total, free, available) = self.figures(statistics);
        let used = total.saturating_sub(free);
        gauge(used, used.saturating_add(available), GAUGE_CELLS)
    }

    fn images(&self) -> Result<Vec<Candidate>> {
        let listed = |path: &Path, is_named| {
            let images = listed(path)?.into_iter().map(OsString::from);
            let candidate = |image| Candidate { image, is_named };
            Ok::<_, Error>(images.map(candidate).collect::<Vec<_>>())
        };
        if let Some(fleet) = &self.fleet {
            return listed(fleet, !fleet.is_dir());
        }
        let mut images = Vec::new();
        for operand in &self.images {
            let place = operand.split();
            if place.path.is_none() && Path::new(&place.image).is_dir() {
                images.extend(listed(Path::new(&place.image), false)?);
            } else {
                images.push(Candidate {
                    image: place.image,
                    is_named: true,
                });
            }
        }
        Ok(images)
    }
}

fn add_rows(
    args: &Df,
    session: &mut Session,
    disk: &Disk,
    is_named: bool,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let row = |filesystem: Filesystem| {
        let statistics = filesystem.statistics()?;
        Ok(Row {
            filesystem,
            statistics,
        })
    };
    if let Some(volume) = args.source.volume.volume(disk)? {
        rows.push(row(volume.filesystem()?)?);
        return Ok(());
    }
    let before = rows.len();
    let mut failed = false;
    for volume in disk.volumes()? {
        match volume.is_readable().and_then(|readable| {
            readable
                .then(|| volume.filesystem().and_then(row))
                .transpose()
        }) {
            Ok(found) => rows.extend(found),
            Err(error) => {
                failed = true;
                session.report(&error);
            }
        }
    }
    if rows.len() == before && !failed && is_named {
        disk.filesystem()?; // Its error says why no filesystem can be read.
    }
    Ok(())
}

/// Returns the used amount, and its percentage of used plus available, rounded up as in df(1).
fn usage(total: u64, free: u64, available: u64) -> (u64, String) {
    let used = total.saturating_sub(free);
    let of = u128::from(used) + u128::from(available);
    let percent = (u128::from(used) * 100)
        .checked_div(of)
        .map(|whole| whole + u128::from(u128::from(used) * 100 % of != 0));
    (
        used,
        percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent}%")),
    )
}

fn bytes(blocks: u64, statistics: &Statistics) -> u64 {
    blocks.saturating_mul(u64::from(statistics.block_size))
}

/// Lays out the rows, with a gauge of what is used for a terminal.
fn table(args: &Df, rows: &[Row], gauges: bool) -> String {
    use Align::{Left, Right};
    let heading: &[&str] = match (args.inodes, args.human_readable) {
        (true, _) => &[
            "Filesystem",
            "Type",
            "Inodes",
            "IUsed",
            "IFree",
            "IUse%",
            "Label",
        ],
        (false, true) => &[
            "Filesystem",
            "Type",
            "Size",
            "Used",
            "Avail",
            "Use%",
            "Label",
        ],
        (false, false) => &[
            "Filesystem",
            "Type",
            "1K-blocks",
            "Used",
            "Available",
            "Use%",
            "Label",
        ],
    };
    let mut cells = vec![heading.iter().map(|&cell| cell.to_owned()).collect()];
    cells.extend(rows.iter().map(|row| row_cells(args, row)));
    let mut align = vec![Left, Left, Right, Right, Right, Right, Left];
    if gauges {
        align.insert(GAUGE_COLUMN, Left);
        let gauges = rows.iter().map(|row| args.gauge(&row.statistics));
        let column = [String::new()].into_iter().chain(gauges);
        for (row, cell) in cells.iter_mut().zip(column) {
            row.insert(GAUGE_COLUMN, cell);
        }
    }
    lay_out(&align, &cells)
}

fn row_cells(args: &Df, row: &Row) -> Vec<String> {
    let (total, free, available) = args.figures(&row.statistics);
    let (used, percent) = usage(total, free, available);
    let show = |number: u64| match (args.human_readable, args.inodes) {
        (true, _) => size::human(number),
        (false, true) => number.to_string(),
        (false, false) => number.div_ceil(1024).to_string(),
    };
    let identity = row.filesystem.identity();
    let image = text(row.filesystem.image_path().as_os_str().as_encoded_bytes());
    vec![
        format!("{image} {}", row.filesystem.volume()),
        identity.kind,
        show(total),
        show(used),
        show(available),
        percent,
        text(&identity.label),
    ]
}

fn row_json(row: &Row) -> Value {
    let mut object = Map::new();
    let image = row.filesystem.image_path().as_os_str().as_encoded_bytes();
    document::put_name(&mut object, "image", image);
    object.insert("volume".to_owned(), row.filesystem.volume().into());
    object.insert("type".to_owned(), row.filesystem.identity().kind.into());
    object.extend(diskfs::document::statistics(&row.statistics));
    object.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_those_of_df() {
        assert_eq!(usage(100, 50, 50), (50, "50%".to_owned()));
        assert_eq!(usage(1000, 999, 999), (1, "1%".to_owned()));
        assert_eq!(usage(0, 0, 0), (0, "-".to_owned()));
        assert_eq!(usage(10, 20, 0), (0, "-".to_owned()));
        assert_eq!(usage(u64::MAX, 0, 0), (u64::MAX, "100%".to_owned()));
    }
}
