//! The command `qemu-img check`.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use diskfs::image::{CheckReport, FindingKind, Repair, repair};

use super::arguments::{OpenArgs, OutputForm, Source, only};
use super::failure::{Failure, Result};
use super::runner::{confined, text};
use super::specific::write_json;
use crate::cli::show::name::message;

/// The exit codes of `qemu-img check`.
const INTERNAL: u8 = 1;
const CORRUPT: u8 = 2;
const LEAKS: u8 = 3;
const NOT_SUPPORTED: u8 = 63;

/// Check the tables of an image
#[derive(Debug, Args)]
pub(super) struct Check {
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// The format of the image
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    /// Repair leaked clusters, or all errors
    #[arg(short, long, value_enum, value_name = "leaks|all")]
    repair: Option<What>,

    /// The form of the output
    #[arg(long, value_enum, default_value_t)]
    output: OutputForm,

    /// Print no messages but errors
    #[arg(short, long)]
    quiet: bool,

    /// The mode of the host's cache, which has no effect
    #[arg(short = 'T', long, value_name = "CACHE", value_parser = super::arguments::cache_mode)]
    cache: Option<()>,

    #[command(flatten)]
    open: OpenArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    Leaks,
    All,
}

/// The numbers of errors that were repaired.
#[derive(Debug, Clone, Copy, Default)]
struct Fixed {
    leaks: u64,
    corruptions: u64,
}

impl Check {
    pub(super) fn run(&self) -> Result<u8> {
        let name = only(&self.names, "check")?;
        let source = self.open.source(name, self.format.as_deref())?;
        let (report, fixed, format) = match self.repair {
            None => {
                let (report, format) = confined(&[&source], None, || check(&source))?;
                (report, Fixed::default(), format)
            }
            Some(what) => repaired(&source, what)?,
        };
        // QEMU ends the check of a VMDK at the first error.
        let is_cut = report.corruptions > 0 && format == diskfs::Format::Vmdk.qemu_name();
        if is_cut {
            print_findings(&report)?;
            return Err(Failure::new("Check failed: Invalid argument"));
        }
        match self.output {
            _ if self.quiet => print_findings(&report)?,
            OutputForm::Json => {
                let mut out = std::io::stdout().lock();
                write_json(&mut out, &document(&report, fixed, &text(name), format))?;
                out.flush()?;
                print_findings(&report)?;
            }
            OutputForm::Human => print(&report, fixed)?,
        }
        Ok(if report.check_errors > 0 {
            INTERNAL
        } else if report.corruptions > 0 {
            CORRUPT
        } else if report.leaked_clusters > 0 {
            LEAKS
        } else {
            0
        })
    }
}

fn check(source: &Source) -> Result<(CheckReport, &'static str)> {
    let image = source.open()?;
    let report = image.check();
    let report = report.map_err(|e| Failure::at("Check failed", e))?;
    let not_supported =
        || Failure::new("This image format does not support checks").with_code(NOT_SUPPORTED);
    let format = image.description().format;
    let format = format.map_or("raw", diskfs::Format::qemu_name);
    Ok((report.ok_or_else(not_supported)?, format))
}

fn repaired(source: &Source, what: What) -> Result<(CheckReport, Fixed, &'static str)> {
    let what = match what {
        What::Leaks => Repair::Leaks,
        What::All => Repair::All,
    };
    let options = source.open_options()?;
    let repaired = repair(&source.path, what, &options);
    if let Err(error) = &repaired
        && error.kind() == diskfs::block::ErrorKind::Unsupported
        && let Ok((report, format)) = check(source)
        && has_nothing_to_repair(&report, format)
    {
        return Ok((report, Fixed::default(), format));
    }
    let repaired = repaired.map_err(|error| {
        let is_unsupported = error.kind() == diskfs::block::ErrorKind::Unsupported;
        let code = if is_unsupported {
            NOT_SUPPORTED
        } else {
            INTERNAL
        };
        Failure::to_open(&source.path, error).with_code(code)
    })?;
    let (before, after) = (&repaired.before, &repaired.after);
    let wrong = |report: &CheckReport| report.corruptions.saturating_add(report.check_errors);
    let fixed = Fixed {
        leaks: before.leaked_clusters.saturating_sub(after.leaked_clusters),
        corruptions: wrong(before).saturating_sub(wrong(after)),
    };
    Ok((repaired.after, fixed, "qcow2"))
}

/// Returns true if QEMU would only check an image: a VHDX without a log to replay, or a sound image
/// of another format that QEMU repairs and diskfs does not.
fn has_nothing_to_repair(report: &CheckReport, format: &str) -> bool {
    let is_repaired = |wanted: diskfs::Format| format == wanted.qemu_name();
    let is_sound = report.is_clean();
    is_repaired(diskfs::Format::Vhdx)
        || is_sound && (is_repaired(diskfs::Format::Qed) || is_repaired(diskfs::Format::Parallels))
}

fn document(report: &CheckReport, fixed: Fixed, name: &str, format: &str) -> Value {
    let statistics = &report.statistics;
    let mut fields = Map::new();
    let always = [("check-errors", report.check_errors)];
    let optional = [
        ("image-end-offset", statistics.image_end_bytes),
        ("total-clusters", statistics.total_clusters),
        ("allocated-clusters", statistics.allocated_clusters),
        ("fragmented-clusters", statistics.fragmented_clusters),
        ("compressed-clusters", statistics.compressed_clusters),
        ("corruptions", report.corruptions),
        ("leaks", report.leaked_clusters),
        ("corruptions-fixed", fixed.corruptions),
        ("leaks-fixed", fixed.leaks),
    ];
    let optional = optional.into_iter().filter(|(_, number)| *number > 0);
    for (name, number) in always.into_iter().chain(optional) {
        fields.insert(name.to_owned(), number.into());
    }
    fields.insert("filename".to_owned(), name.into());
    fields.insert("format".to_owned(), format.into());
    Value::Object(fields)
}

/// Prints the findings on standard error.
fn print_findings(report: &CheckReport) -> Result<()> {
    let mut errors = std::io::stderr().lock();
    for finding in &report.findings {
        let word = match finding.kind {
            FindingKind::LeakedCluster => "Leaked cluster",
            _ => "ERROR",
        };
        writeln!(errors, "{word}: {}", message(&finding.to_string()))?;
    }
    Ok(())
}

/// Prints the findings on standard error and the result on standard output.
fn print(report: &CheckReport, fixed: Fixed) -> Result<()> {
    print_findings(report)?;
    let mut out = std::io::stdout().lock();
    if fixed.leaks > 0 || fixed.corruptions > 0 {
        writeln!(
            out,
            "The following inconsistencies were found and repaired:\n"
        )?;
        writeln!(out, "    {} leaked clusters", fixed.leaks)?;
        writeln!(out, "    {} corruptions\n", fixed.corruptions)?;
        writeln!(out, "Double checking the fixed image now...")?;
    }
    if report.is_clean() {
        writeln!(out, "No errors were found on the image.")?;
    }
    if report.corruptions > 0 {
        let count = report.corruptions;
        writeln!(out, "\n{count} errors were found on the image.")?;
        writeln!(
            out,
            "Data may be corrupted, or further writes to the image may corrupt it."
        )?;
    }
    if report.leaked_clusters > 0 {
        let count = report.leaked_clusters;
        writeln!(out, "\n{count} leaked clusters were found on the image.")?;
        writeln!(out, "This means waste of disk space, but no harm to data.")?;
    }
    if report.check_errors > 0 {
        let count = report.check_errors;
        writeln!(
            out,
            "\n{count} internal errors have occurred during the check."
        )?;
    }
    let statistics = &report.statistics;
    let (all, used) = (statistics.total_clusters, statistics.allocated_clusters);
    if all != 0 && used != 0 {
        writeln!(
            out,
            "{used}/{all} = {}% allocated, {}% fragmented, {}% compressed clusters",
            percent(used, all),
            percent(statistics.fragmented_clusters, used),
            percent(statistics.compressed_clusters, used)
        )?;
    }
    if statistics.image_end_bytes > 0 {
        writeln!(out, "Image end offset: {}", statistics.image_end_bytes)?;
    }
    Ok(out.flush()?)
}

/// Returns a share in percent with two decimals. A half is rounded to even, as printf(3) does.
fn percent(part: u64, whole: u64) -> String {
    let (part, whole) = (u128::from(part), u128::from(whole).max(1));
    let (down, rest) = (part * 10_000 / whole, part * 10_000 % whole);
    let hundredths = match (rest * 2).cmp(&whole) {
        Ordering::Less => down,
        Ordering::Equal => down + down % 2,
        Ordering::Greater => down + 1,
    };
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
