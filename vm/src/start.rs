//! The choice of the backend: the first one whose machine answers.

use super::backend::{Backend, Prepared};
use super::boot_files::{Appliance, SEARCHED_IN, verify_checksum};
use super::machine::{Disk, Machine};
use super::options::{BackendChoice, BackendKind, VmOptions};
use super::qemu::{Accelerator, Qemu};
use super::uml::Uml;
use super::verdict::Verdicts;
use diskfs_disk::{Error, ErrorKind, Result};

/// Starts a machine with these disks.
///
/// # Errors
/// Fails with `Unsupported` if no backend answers; the message lists what was tried and the reason
/// of each failure, with a hint how to solve it.
pub(super) fn start(options: &VmOptions, disks: &[Disk]) -> Result<Machine> {
    let verdicts = Verdicts::of_this_boot();
    // A backend that was named explicitly is tried whatever happened before.
    let repeats = options.choice != BackendChoice::Auto;
    let mut failures = Failures::default();
    for &kind in candidates(options.choice) {
        match start_kind(kind, options, disks, &verdicts, repeats) {
            Ok(machine) => return Ok(machine),
            Err(error) => failures.add(kind, &error),
        }
    }
    Err(failures.into_error())
}

/// Checks that microVMs are not disabled.
///
/// # Errors
/// `Unsupported` if they are.
pub(super) fn check_enabled(options: &VmOptions) -> Result<()> {
    if candidates(options.choice).is_empty() {
        return Err(Failures::default().into_error());
    }
    Ok(())
}

/// Starts a machine of that kind only, ignoring earlier failures.
///
/// # Errors
/// Fails with the reason why the machine does not answer.
pub(super) fn start_only(
    kind: BackendKind,
    options: &VmOptions,
    disks: &[Disk],
) -> Result<Machine> {
    start_kind(kind, options, disks, &Verdicts::of_this_boot(), true)
}

/// Starts a machine of that kind and records the result. A kind that failed before is only tried
/// again if `repeats` is true.
fn start_kind(
    kind: BackendKind,
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
        // The faster way is only a short cut: its failure is ignored.
        if let Ok(machine) = start_prepared(kind, &*way, options, disks, verdicts, false) {
            return Ok(machine);
        }
    }
    let surest = surest.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the backend has no way to start a machine",
        )
    })?;
    start_prepared(kind, &*surest, options, disks, verdicts, repeats)
}

/// Returns the backend for that kind.
fn backend(kind: BackendKind) -> Box<dyn Backend> {
    match kind {
        BackendKind::Uml => Box::new(Uml),
        BackendKind::QemuKvm => Box::new(Qemu(Accelerator::Kvm)),
        BackendKind::QemuTcg => Box::new(Qemu(Accelerator::Tcg)),
    }
}

fn start_prepared(
    kind: BackendKind,
    way: &dyn Prepared,
    options: &VmOptions,
    disks: &[Disk],
    verdicts: &Verdicts,
    repeats: bool,
) -> Result<Machine> {
    let files = way.files();
    // Before the verdict: a damaged file is reported by its name each time.
    files.iter().try_for_each(|file| verify_checksum(file))?;
    if !repeats && let Some(why) = verdicts.failure(kind, &files) {
        let hint = "try it again with `diskfs appliance test`";
        return Err(Error::new(ErrorKind::Unsupported, why).with_hint(hint));
    }
    let deadline = options.deadline.unwrap_or(way.deadline());
    let started = Machine::start(kind, way, options, disks, deadline);
    match &started {
        Ok(_) => verdicts.note_worked(kind, &files),
        Err(error) => {
            tracing::warn!(backend = %kind, %error, "a microVM did not start");
            // A host without space now may have some later.
            if error.kind() != ErrorKind::NoSpace {
                verdicts.note_failed(kind, &files, &error.reason());
            }
        }
    }
    started
}

fn candidates(choice: BackendChoice) -> &'static [BackendKind] {
    match choice {
        BackendChoice::Auto => &BackendKind::ALL,
        BackendChoice::Only(BackendKind::Uml) => &[BackendKind::Uml],
        BackendChoice::Only(BackendKind::QemuKvm) => &[BackendKind::QemuKvm],
        BackendChoice::Only(BackendKind::QemuTcg) => &[BackendKind::QemuTcg],
        BackendChoice::None => &[],
    }
}

/// The failed attempts with their reasons.
#[derive(Debug, Default)]
struct Failures {
    /// The reasons in the order of the attempts, each with the backends that failed for it.
    reasons: Vec<(String, Vec<BackendKind>)>,
    hint: Option<String>,
}

impl Failures {
    fn add(&mut self, kind: BackendKind, error: &Error) {
        let reason = match error.file() {
            Some(file) => format!("{}: {}", file.display(), error.reason()),
            None => error.reason(),
        };
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, kinds)) => kinds.push(kind),
            None => self.reasons.push((reason, vec![kind])),
        }
        // The first backend is the best one, so its hint helps most.
        if self.hint.is_none() {
            self.hint = error.next_step().map(Into::into);
        }
    }

    fn into_error(self) -> Error {
        let reason = if self.reasons.is_empty() {
            "microVMs are disabled".to_owned()
        } else {
            format!("cannot start a microVM ({})", self.text())
        };
        let hint = self
            .hint
            .unwrap_or_else(|| "see `diskfs appliance test`".to_owned());
        Error::new(ErrorKind::Unsupported, reason).with_hint(hint)
    }

    /// Returns the reasons as one text. If all of them list the same directories, the list appears
    /// once.
    fn text(&self) -> String {
        let split = |reason: &str| {
            let (what, places) = reason.split_once(SEARCHED_IN)?;
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
        let mut lines: Vec<String> = Vec::new();
        for ((_, kinds), reason) in self.reasons.iter().zip(reasons) {
            let kinds: Vec<String> = kinds.iter().map(BackendKind::to_string).collect();
            lines.push(format!("{}: {reason}", kinds.join(", ")));
        }
        lines.extend(places.map(|places| format!("searched {places}")));
        lines.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_tried_is_told_with_what_mends_the_best() {
        let mut failures = Failures::default();
        let first = Error::new(ErrorKind::Unsupported, "no kernel").with_hint("build one");
        failures.add(BackendKind::Uml, &first);
        let second = Error::new(ErrorKind::Unsupported, "no QEMU").with_hint("install it");
        failures.add(BackendKind::QemuTcg, &second);
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
            (BackendKind::Uml, "no kernel"),
            (BackendKind::QemuKvm, "no image"),
            (BackendKind::QemuTcg, "no image"),
        ] {
            let reason = format!("{what}{SEARCHED_IN}/a, /b");
            failures.add(kind, &Error::new(ErrorKind::Unsupported, reason));
        }
        let text = "(uml: no kernel; qemu-kvm, qemu-tcg: no image; searched /a, /b)";
        let reason = failures.into_error().reason();
        assert!(reason.ends_with(text), "{reason}");
    }
}
