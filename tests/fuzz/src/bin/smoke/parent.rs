//! The process that supervises the child, and saves the findings.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use diskfs_fuzz::finding;

use crate::{Arguments, Run};

/// The time after which a case counts as one that never ends.
const HANG: Duration = Duration::from_secs(30);

/// The time limit for loading the seeds, also of a program that measures its coverage.
const START: Duration = Duration::from_mins(15);

/// The number of different findings after which a run stops.
const MAX_FINDINGS: usize = 20;

/// The findings: for each text, the first case and the number of cases.
type Findings = BTreeMap<String, (u64, u64)>;

/// Runs cases until the time is over, and prints the findings.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let started = Instant::now();
    let mut findings = Findings::new();
    let mut next = arguments.first;
    let last = arguments.first.saturating_add(arguments.cases);
    let mut first_case = None;
    while next < last && findings.len() < MAX_FINDINGS {
        // The time starts with the first case, not with the process.
        let since = first_case.unwrap_or_else(Instant::now).elapsed();
        let left = Duration::from_secs(arguments.seconds).saturating_sub(since);
        if left.is_zero() {
            break;
        }
        let mut child = start(arguments, next, last - next, left)?;
        let end = watch(&mut child, &mut findings, &mut first_case)?;
        match end {
            ChildEnd::Done(cases) => {
                next = next.saturating_add(cases);
                break;
            }
            ChildEnd::Died { case, how } => {
                note(&mut findings, case, how);
                next = case.saturating_add(1);
            }
        }
    }
    let cases = next.saturating_sub(arguments.first);
    report(arguments, &findings, cases, started.elapsed())
}

/// The way in which a child ended.
enum ChildEnd {
    /// The child completed this number of cases.
    Done(u64),
    /// This case killed it.
    Died { case: u64, how: String },
}

fn start(arguments: &Arguments, first: u64, cases: u64, left: Duration) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--child");
    command.args(["--first".to_owned(), first.to_string()]);
    command.args(["--seed".to_owned(), arguments.seed.to_string()]);
    command.args(["--cases".to_owned(), cases.to_string()]);
    command.args(["--seconds".to_owned(), left.as_secs().max(1).to_string()]);
    command.arg("--images").arg(&arguments.images);
    if arguments.only_seeds {
        command.arg("--only-seeds");
    }
    if let Some(target) = arguments.target {
        command.args(["--target", target.name()]);
    }
    command.stdout(Stdio::piped());
    command
        .spawn()
        .context("cannot start the process that runs the cases")
}

/// Reads the output of the child until it ends, or is silent for too long.
fn watch(
    child: &mut Child,
    findings: &mut Findings,
    first_case: &mut Option<Instant>,
) -> Result<ChildEnd> {
    let lines = lines_of(child)?;
    let (mut case, mut cases) = (0, 0);
    loop {
        let patience = if cases == 0 { START } else { HANG };
        let how = match lines.recv_timeout(patience) {
            Ok(line) => {
                let (word, rest) = line.split_once(' ').unwrap_or((line.as_str(), ""));
                match word {
                    "case" => {
                        first_case.get_or_insert_with(Instant::now);
                        (case, cases) = (rest.parse()?, cases + 1);
                    }
                    "finding" => {
                        let (number, what) = rest.split_once(' ').unwrap_or((rest, ""));
                        note(findings, number.parse()?, what.to_owned());
                    }
                    "done" => {
                        child.wait()?;
                        println!("{rest}");
                        return Ok(ChildEnd::Done(cases));
                    }
                    _ => {}
                }
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                format!("hang: not finished after {patience:?}")
            }
            Err(RecvTimeoutError::Disconnected) => format!("died: {}", child.wait()?),
        };
        anyhow::ensure!(cases > 0, "before the first case: {how}");
        return Ok(ChildEnd::Died { case, how });
    }
}

fn lines_of(child: &mut Child) -> Result<Receiver<String>> {
    let stdout = child
        .stdout
        .take()
        .context("the child process has no output pipe")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}

/// Counts a finding. Numbers in its text are ignored, because one bug causes findings with many
/// numbers.
fn note(findings: &mut Findings, case: u64, what: String) {
    let alike = |known: &String| without_numbers(known) == without_numbers(&what);
    match findings
        .iter()
        .find(|(known, _)| alike(known))
        .map(|(known, _)| known.clone())
    {
        Some(known) => findings.entry(known).and_modify(|(_, count)| *count += 1),
        None => findings.entry(what).and_modify(|_| {}),
    }
    .or_insert((case, 1));
}

/// Returns the text without digits, except those of a source location.
fn without_numbers(what: &str) -> String {
    what.split_inclusive(' ')
        .filter(|word| word.contains(".rs:") || !word.contains(|c: char| c.is_ascii_digit()))
        .collect()
}

fn report(
    arguments: &Arguments,
    findings: &Findings,
    cases: u64,
    time: Duration,
) -> Result<ExitCode> {
    let seconds = time.as_secs_f64();
    println!(
        "{cases} cases in {seconds:.0} s, {} findings",
        findings.len()
    );
    if findings.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let run = Run::load(arguments)?;
    for (what, (number, count)) in findings {
        let case = run.case(*number);
        let name = format!("{}-{number}", arguments.seed);
        let again = finding::save(case.target, &name, &case.image)?;
        println!(
            "{what}\n  {count} times, first case {number}, made of {}\n  again: {again}",
            case.name
        );
    }
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bug_is_one_finding() {
        let mut findings = Findings::new();
        let panic = |line: u32, number: u32| {
            format!("qcow2: panic: panicked at a.rs:{line}:5: index {number} out of 7")
        };
        note(&mut findings, 3, panic(10, 1));
        note(&mut findings, 9, panic(10, 2));
        note(&mut findings, 11, panic(20, 2));
        assert_eq!(findings[&panic(10, 1)], (3, 2));
        assert_eq!(findings[&panic(20, 2)], (11, 1));
    }
}
