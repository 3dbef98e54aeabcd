//! Which backend: the first one whose machine answers.

use std::fmt::Write as _;
use std::time::Duration;

use super::appliance::Appliance;
use super::backend::{Kind, Prepared};
use super::machine::{Disk, Machine};
use super::options::{Choice, VmOptions};
use super::verdict::Verdicts;
use crate::{Error, ErrorKind, Result};

/// Starts a machine with `disk`.
///
/// # Errors
/// `Unsupported` when none answers: with what was tried, why each failed, and what mends it.
pub(super) fn start(options: &VmOptions, disk: &Disk) -> Result<Machine> {
    let appliance = Appliance::find(options.appliance.as_deref());
    let verdicts = Verdicts::of_this_boot();
    let mut failures = Failures::default();
    for &kind in candidates(options.choice) {
        let backend = kind.backend();
        let prepared = match backend.prepare(&appliance, options) {
            Ok(prepared) => prepared,
            Err(error) => {
                failures.add(kind, &error);
                continue;
            }
        };
        let files = prepared.files();
        // One that was asked for is tried whatever happened before.
        if options.choice == Choice::Auto
            && let Some(why) = verdicts.failure(kind, &files)
        {
            failures.add(kind, &Error::new(ErrorKind::Unsupported, why));
            continue;
        }
        let deadline = options.deadline.unwrap_or(backend.deadline());
        match attempt(kind, &*prepared, options, disk, deadline) {
            Ok(machine) => {
                verdicts.worked(kind, &files);
                return Ok(machine);
            }
            Err(error) => {
                tracing::warn!(backend = %kind, %error, "a microVM did not start");
                // That the host has no room now says nothing about later.
                if error.kind() != ErrorKind::NoSpace {
                    verdicts.failed(kind, &files, &error.reason());
                }
                failures.add(kind, &error);
            }
        }
    }
    Err(failures.into_error())
}

/// Starts a machine of that kind and no other, whatever is known of it.
///
/// # Errors
/// Why it does not answer.
pub(super) fn start_only(kind: Kind, options: &VmOptions, disk: &Disk) -> Result<Machine> {
    let appliance = Appliance::find(options.appliance.as_deref());
    let backend = kind.backend();
    let prepared = backend.prepare(&appliance, options)?;
    let deadline = options.deadline.unwrap_or(backend.deadline());
    attempt(kind, &*prepared, options, disk, deadline)
}

fn attempt(
    kind: Kind,
    prepared: &dyn Prepared,
    options: &VmOptions,
    disk: &Disk,
    deadline: Duration,
) -> Result<Machine> {
    Machine::start(kind, prepared, options.memory_mib, disk, deadline)
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
    text: String,
    hint: Option<String>,
}

impl Failures {
    fn add(&mut self, kind: Kind, error: &Error) {
        let separator = if self.text.is_empty() { "" } else { "; " };
        // Writing to a string does not fail.
        let _ = write!(self.text, "{separator}{kind}: {}", error.reason());
        // The first one is the best one, and what mends it is what helps most.
        if self.hint.is_none() {
            self.hint = error.next_step().map(Into::into);
        }
    }

    fn into_error(self) -> Error {
        let reason = if self.text.is_empty() {
            "it takes a microVM, and those are switched off".to_owned()
        } else {
            format!(
                "it takes a microVM, and none can be started ({})",
                self.text
            )
        };
        let hint = self
            .hint
            .unwrap_or_else(|| "see `diskfs appliance test`".to_owned());
        Error::new(ErrorKind::Unsupported, reason).with_hint(hint)
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
}
