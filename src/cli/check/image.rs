//! The check and repair of the image itself: its tables.

use std::ffi::OsStr;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use diskfs::image::{self, CheckReport, Finding, FindingKind, Image, ImageSpec, Repair};
use diskfs::{ErrorKind, Format, Result};

use crate::cli::options::ImageArgs;
use crate::cli::snapshot::open_options;

/// The result of checking the image.
pub(super) struct CheckedImage {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    pub(super) report: CheckReport,
    /// True if something was repaired before.
    pub(super) is_repaired: bool,
}

/// Checks the tables of an image, and first repairs them if `repair` is true. Returns `None` for an
/// image without such tables, and for one of its snapshots.
pub(super) fn check(name: &OsStr, args: &ImageArgs, repair: bool) -> Result<Option<CheckedImage>> {
    let spec = ImageSpec::parse(name)?;
    let options = args.open_options()?;
    if spec.options_over(&options).snapshot.is_some() {
        return Ok(None);
    }
    let (path, options) = open_options(name, args)?;
    let mut is_repaired = false;
    if repair {
        match image::repair(&path, Repair::All, &options) {
            Ok(repaired) => is_repaired = !repaired.before.is_clean(),
            // Other formats than qcow2 are only checked.
            Err(e) if e.kind() == diskfs::block::ErrorKind::Unsupported => {}
            Err(e) => return Err(e.into()),
        }
    }
    let image = Image::open(&path, &options)?;
    let report = match image.check() {
        Err(e) if repair && e.kind() == diskfs::block::ErrorKind::Unsupported => None,
        checked => checked?,
    };
    let format = image.description().format.unwrap_or(Format::Raw);
    Ok(report.map(|report| CheckedImage {
        path: image.description().path.clone(),
        format,
        report,
        is_repaired,
    }))
}

impl CheckedImage {
    /// Returns true if no data is in danger. Leaked clusters only waste space.
    pub(super) fn is_safe(&self) -> bool {
        self.report.corruptions == 0 && self.report.check_errors == 0
    }

    /// Returns the verdict in a few words.
    pub(super) fn verdict(&self) -> String {
        let report = &self.report;
        let repaired = if self.is_repaired { ", repaired" } else { "" };
        if report.is_clean() {
            return format!("clean{repaired}");
        }
        let errors = report.corruptions.saturating_add(report.check_errors);
        let leaks = report.leaked_clusters;
        if errors == 0 {
            return format!("{leaks} leaked clusters{repaired}");
        }
        format!("damaged: {errors} errors, {leaks} leaked clusters{repaired}")
    }

    /// Returns the findings as text, without the leaked clusters.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let findings = self.report.findings.iter();
        let errors = findings.filter(|finding| finding.kind != FindingKind::LeakedCluster);
        errors.map(|finding| format!("{finding} [{}]", code(finding.kind)))
    }

    pub(super) fn document(&self) -> Value {
        let report = &self.report;
        json!({
            "clean": report.is_clean(),
            "repaired": self.is_repaired,
            "leaked_clusters": report.leaked_clusters,
            "corruptions": report.corruptions,
            "check_errors": report.check_errors,
            "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
            "omitted_findings": report.omitted(),
            "image_end_bytes": report.statistics.image_end_bytes,
            "total_clusters": report.statistics.total_clusters,
            "allocated_clusters": report.statistics.allocated_clusters,
            "fragmented_clusters": report.statistics.fragmented_clusters,
            "compressed_clusters": report.statistics.compressed_clusters,
        })
    }
}

fn finding(finding: &Finding) -> Value {
    let mut fields = Map::new();
    fields.insert("code".to_owned(), code(finding.kind).into());
    fields.insert("offset".to_owned(), finding.offset.into());
    fields.insert("detail".to_owned(), finding.reason.clone().into());
    Value::Object(fields)
}

/// Returns the stable name of a kind of finding.
fn code(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::LeakedCluster => "leaked-cluster",
        FindingKind::LowCount => "low-count",
        FindingKind::CopiedFlag => "copied-flag",
        FindingKind::RefcountBlock => "refcount-block",
        FindingKind::UnreadableCount => "unreadable-count",
        FindingKind::Overflow => "overflow",
        FindingKind::PastEnd => "past-end",
        FindingKind::L1Entry => "l1-entry",
        FindingKind::L2Entry => "l2-entry",
        FindingKind::Snapshot => "snapshot",
        FindingKind::Bitmap => "bitmap",
        FindingKind::BlockMap => "block-map",
        _ => "other",
    }
}

/// Returns the volumes' error unless it only says that there is no filesystem, which is no failure
/// when the image itself was checked.
pub(super) fn unless_only_image<T: Default>(
    volumes: Result<T>,
    image: Option<&CheckedImage>,
) -> Result<T> {
    match volumes {
        Err(e) if e.kind() == ErrorKind::NotFound && image.is_some() => Ok(T::default()),
        volumes => volumes,
    }
}
