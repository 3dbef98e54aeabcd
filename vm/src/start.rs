//! Which backend: the first one whose machine answers.

use super::backend::{Backend, Prepared};
use super::boot_files::{Appliance, LOOKED_IN};
use super::machine::{self, Disk, Machine};
use super::options::{Choice, Kind, VmOptions};
use super::qemu::{Accelerator, Qemu};
use super::uml::Uml;
use super::verdict::Verdicts;
use diskfs_disk::{Error, ErrorKind, Result};

/// Starts a machine with these disks.
///
/// # Errors
/// `Unsupported` when none answers: with what was tried, why each failed, and what mends it.
pub(super) fn start(options: &VmOptions, disks: &[Disk]) -> Result<Machine> {
    let verdicts = Verdicts::of_this_boot();
    // One that was asked for is tried whatever happened before.
    let repeats = options.choice != Choice::Auto;
    let mut failures = Failures::default();
    for &kind in candidates(options.choice) {
        match start_kind(kind, options, disks, &verdicts, repeats) {
            Ok(machine) => return Ok(machine),
            Err(error) => failures.add(kind, &error),
        }
    }
    Err(failures.into_error())
}

/// Starts a machine with an empty disk, which is [exchanged](Machine::with) later.
///
/// # Errors
/// As [`start`].
pub(super) fn start_empty(options: &VmOptions) -> Result<Machine> {
    start(options, &[machine::only_disk(machine::nothing())])
}

/// Starts a machine of that kind and no other, whatever is known of it.
///
/// # Errors
/// Why it does not answer.
pub(super) fn start_only(kind: Kind, options: &VmOptions, disks: &[Disk]) -> Result<Machine> {
    start_kind(kind, options, disks, &Verdicts::of_this_boot(), true)
}

/// Starts a machine of that kind, and notes how that went. One that failed before is not tried again unless
/// it `repeats`.
fn start_kind(
    kind: Kind,
    options: &VmOptions,
    disks: &[Disk],
    verdicts: &Verdicts,
    repeats: bool,
) -> Result<Machine> {
    let backend = backend(kind);
    let appliance = Appliance::find(options.appliance.as_deref());
    let mut ways = backend.prepare(&appliance, options)?;
    let surest = ways.pop();
    for way in ways {
        // It is a short cut only: when it leads nowhere, that is no failure.
        if let Ok(machine) = start_way(kind, &*way, options, disks, verdicts, false) {
            return Ok(machine);
        }
    }
    let surest = surest.ok_or_else(|| Error::new(ErrorKind::Unsupported, "nothing to start"))?;
    start_way(kind, &*surest, options, disks, verdicts, repeats)
}

/// Returns what starts machines of that kind.
fn backend(kind: Kind) -> Box<dyn Backend> {
    match kind {
        Kind::Uml => Box::new(Uml),
        Kind::QemuKvm => Box::new(Qemu(Accelerator::Kvm)),
        Kind::QemuTcg => Box::new(Qemu(Accelerator::Tcg)),
    }
}

fn start_way(
    kind: Kind,
    way: &dyn Prepared,
    options: &VmOptions,
    disks: &[Disk],
    verdicts: &Verdicts,
    repeats: bool,
) -> Result<Machine> {
    let files = way.files();
    if !repeats && let Some(why) = verdicts.failure(kind, &files) {
        let hint = "`diskfs appliance test` tries it again";
        return Err(Error::new(ErrorKind::Unsupported, why).with_hint(hint));
    }
    let deadline = options.deadline.unwrap_or(way.deadline());
    let started = Machine::start(kind, way, options, disks, deadline);
    match &started {
        Ok(_) => verdicts.worked(kind, &files),
        Err(error) => {
            tracing::warn!(backend = %kind, %error, "a microVM did not start");
            // That the host has no room now says nothing about later.
            if error.kind() != ErrorKind::NoSpace {
                verdicts.failed(kind, &files, &error.reason());
            }
        }
    }
    started
}

fn candidates(choice: Choice) -> &'static [Kind] {
    match choice {
        Choice::Auto => &Kind::ALL,
        Choice::Only(Kind::Uml) => &[Kind::Uml],
        Choice::Only(Kind::QemuKvm) => &[Kind::QemuKvm],
        Choice::Only(Kind::QemuTcg) => &[Kind::QemuTcg],
        Choice::None => &[],
    }
}

/// What was tried, and why it failed.
#[derive(Debug, Default)]
struct Failures {
    /// Reasons in their order, with the backends that failed for each.
    reasons: Vec<(String, Vec<Kind>)>,
    hint: Option<String>,
}

impl Failures {
    fn add(&mut self, kind: Kind, error: &Error) {
        let reason = error.reason();
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, kinds)) => kinds.push(kind),
            None => self.reasons.push((reason, vec![kind])),
        }
        // The first one is the best one, and what mends it is what helps most.
        if self.hint.is_none() {
            self.hint = error.next_step().map(Into::into);
        }
    }

    fn into_error(self) -> Error {
        let reason = if self.reasons.is_empty() {
            "microVMs are switched off".to_owned()
        } else {
            format!("no microVM can be started ({})", self.text())
        };
        let hint = self
            .hint
            .unwrap_or_else(|| "see `diskfs appliance test`".to_owned());
        Error::new(ErrorKind::Unsupported, reason).with_hint(hint)
    }

    /// Returns the reasons as one text, in which the places that all of them name come once.
    fn text(&self) -> String {
        let split = |reason: &str| {
            let (what, places) = reason.split_once(LOOKED_IN)?;
            Some((what.to_owned(), places.to_owned()))
        };
        let parts: Option<Vec<_>> = self.reasons.iter().map(|(it, _)| split(it)).collect();
        let common = parts.filter(|parts| {
            let mut pairs = parts.iter().zip(parts.iter().skip(1));
            pairs.all(|((_, one), (_, other))| one == other)
        });
        let whole = self.reasons.iter().map(|(reason, _)| reason.clone());
        let (reasons, places): (Vec<String>, _) = match common {
            Some(parts) => {
                let places = parts.first().map(|(_, places)| places.clone());
                (parts.into_iter().map(|(what, _)| what).collect(), places)
            }
            None => (whole.collect(), None),
        };
        let mut told: Vec<String> = Vec::new();
        for ((_, kinds), reason) in self.reasons.iter().zip(reasons) {
            let kinds: Vec<String> = kinds.iter().map(Kind::to_string).collect();
            told.push(format!("{}: {reason}", kinds.join(", ")));
        }
        told.extend(places.map(|places| format!("looked in {places}")));
        told.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_tried_is_told_with_what_mends_the_best() {
        let mut failures = Failures::default();
        let first = Error::new(ErrorKind::Unsupported, "no kernel").with_hint("build one");
        failures.add(Kind::Uml, &first);
        let second = Error::new(ErrorKind::Unsupported, "no QEMU").with_hint("install it");
        failures.add(Kind::QemuTcg, &second);
        let error = failures.into_error();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let reason = error.reason();
        assert!(
            reason.contains("uml: no kernel; qemu-tcg: no QEMU"),
            "{reason}"
        );
        assert_eq!(error.next_step(), Some("build one"));
    }

    #[test]
    fn what_several_have_in_common_is_told_once() {
        let mut failures = Failures::default();
        for (kind, what) in [
            (Kind::Uml, "no kernel"),
            (Kind::QemuKvm, "no image"),
            (Kind::QemuTcg, "no image"),
        ] {
            let reason = format!("{what}{LOOKED_IN}/a, /b");
            failures.add(kind, &Error::new(ErrorKind::Unsupported, reason));
        }
        let text = "(uml: no kernel; qemu-kvm, qemu-tcg: no image; looked in /a, /b)";
        let reason = failures.into_error().reason();
        assert!(reason.ends_with(text), "{reason}");
    }
}
