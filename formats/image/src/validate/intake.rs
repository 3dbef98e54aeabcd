//! The rules about the format of a file as a whole.

use super::signature::Found;
use super::{Rule, ValidateOptions, Verdict};
use crate::Format;

/// Checks the format of a file.
pub(super) fn check(found: &Found, validation: &ValidateOptions, verdict: &mut Verdict) {
    check_known(found, validation, verdict);
    check_claim(found, validation, verdict);
    check_single(found, validation, verdict);
    if found.is_iso && found.format == Some(Format::Raw) {
        let note = "the raw disk is an ISO 9660 or UDF image";
        verdict.notes.push(note.to_owned());
    }
}

/// Checks that the policy knows the format.
fn check_known(found: &Found, validation: &ValidateOptions, verdict: &mut Verdict) {
    let policy = validation.policy;
    let takes = policy.formats();
    let taken: Vec<_> = takes.iter().map(|format| format.name()).collect();
    let taken = taken.join(", ");
    if !takes.iter().any(|format| format.name() == found.name()) {
        let message = format!(
            "the format is {}, but policy {policy} accepts only: {taken}",
            found.name()
        );
        verdict.breaks(Rule::Format, message, Some(0));
    }
    if let Some(package) = found.package.filter(|_| policy.unpacks()) {
        let what = match package {
            "tar" => "a tar archive",
            _ => "compressed",
        };
        let message = format!(
            "the file is {what}, and policy {policy} unpacks it: validate the image in it instead"
        );
        verdict.breaks(Rule::Format, message, Some(0));
    }
}

/// Checks that the format is the one that the sender states.
fn check_claim(found: &Found, validation: &ValidateOptions, verdict: &mut Verdict) {
    let Some(claimed) = validation.claimed else {
        return;
    };
    if claimed.name() == found.name() {
        return;
    }
    let message = format!(
        "the format is stated as {claimed}, but the file looks like {}",
        found.name()
    );
    verdict.breaks(Rule::FormatMismatch, message, Some(0));
}

/// Checks that the file is an image of one format only.
fn check_single(found: &Found, validation: &ValidateOptions, verdict: &mut Verdict) {
    let names = found.names();
    let is_hybrid = !found.is_image();
    if names.len() < 2 || (is_hybrid && !validation.policy.refuses_hybrids()) {
        return;
    }
    let message = format!(
        "the file looks like several formats: {}; programs can disagree about its contents",
        names.join(", ")
    );
    verdict.breaks(Rule::Polyglot, message, None);
}
