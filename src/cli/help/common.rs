//! The options that many commands share: one line in each help text, and a text of their own, which
//! `diskfs help options` prints.

use clap::{Arg, Args, Command};
use diskfs::Result;

use crate::cli::options::SourceArgs;
use crate::cli::session::Session;
use crate::cli::target::WriteArgs;

/// Explain the options that many commands share
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct CommonOptions {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    write: WriteArgs,
}

/// The name of the text about common options, as in `diskfs help options`.
const TEXT: &str = "options";

/// The headings of option groups that many commands share, and their names in a summary.
const GROUPS: [(&str, &str); 6] = [
    ("Writing options", "Writing"),
    ("Image options", "Image"),
    ("Key options", "Key"),
    ("Volume options", "Volume"),
    ("MicroVM options", "MicroVM"),
    ("Output options", "Output"),
];

/// The widest line of a help text, in columns.
const MAX_COLUMNS: usize = 100;

/// Leaves the common options out of the help of each command, and adds a summary of them.
pub(super) fn summed_up(program: Command) -> Command {
    let output: Vec<Arg> = program
        .get_arguments()
        .filter(|it| is_common(it))
        .cloned()
        .collect();
    let program = program.mut_args(|argument| {
        let hidden = is_common(&argument);
        argument.hide_short_help(hidden).hide_long_help(hidden)
    });
    program.mut_subcommands(|command| {
        if command.get_name() == TEXT {
            return command
                .args(&output)
                .override_usage("diskfs COMMAND [COMMON OPTIONS] ...");
        }
        with_summary(command, &output)
    })
}

/// Returns the definition for the man pages: as [`summed_up`], which clap's generator of pages does
/// not know by itself.
pub(crate) fn for_pages(program: Command) -> Command {
    hide_common(program).mut_subcommands(|command| match command.get_name() {
        TEXT => command.hide(false),
        _ => hide_common(command).mut_subcommands(hide_common),
    })
}

fn hide_common(command: Command) -> Command {
    command.mut_args(|argument| {
        let hidden = is_common(&argument);
        argument.hide(hidden)
    })
}

/// Hides the common options of a command and of those below it, and appends the summary to its help.
fn with_summary(command: Command, output: &[Arg]) -> Command {
    let mut names: Vec<(&str, String)> = Vec::new();
    let own = output.iter().filter_map(summarised);
    let command = command.mut_args(|argument| {
        let hidden = is_common(&argument);
        names.extend(summarised(&argument));
        argument.hide_short_help(hidden).hide_long_help(hidden)
    });
    names.extend(own.filter(|it| !names.contains(it)).collect::<Vec<_>>());
    let command = command.mut_subcommands(|below| with_summary(below, output));
    let summary = summary(&names);
    let with = |text: Option<String>| match text {
        Some(text) if !text.is_empty() => format!("{text}\n\n{summary}"),
        _ => summary.clone(),
    };
    let short = command.get_after_help().map(ToString::to_string);
    let long = command.get_after_long_help().map(ToString::to_string);
    let has_long = long.is_some();
    let command = command.after_help(with(short));
    if has_long {
        command.after_long_help(with(long))
    } else {
        command
    }
}

/// Prints the text about common options.
pub(crate) fn print_common_options(_: &CommonOptions, _: &mut Session) -> Result<()> {
    let mut program = super::command();
    program.build();
    if let Some(options) = program.find_subcommand_mut(TEXT) {
        options.print_long_help()?;
    }
    Ok(())
}

/// Returns true if many commands share an option.
fn is_common(argument: &Arg) -> bool {
    group(argument).is_some()
}

/// Returns the name of the group of common options that an option belongs to.
fn group(argument: &Arg) -> Option<&'static str> {
    let heading = argument.get_help_heading()?;
    let found = GROUPS.iter().find(|(it, _)| *it == heading)?;
    Some(found.1)
}

/// Returns an option as the summary shows it, with its group.
fn summarised(argument: &Arg) -> Option<(&'static str, String)> {
    if argument.is_hide_set() {
        return None;
    }
    Some((group(argument)?, format!("--{}", argument.get_long()?)))
}

/// Returns one line for each group of options, or more where they do not fit.
fn summary(options: &[(&str, String)]) -> String {
    let mut text = "Common options (`diskfs help options` explains them):".to_owned();
    for (_, group) in GROUPS {
        let mut names = options.iter().filter(|(it, _)| *it == group).peekable();
        if names.peek().is_none() {
            continue;
        }
        let mut line = format!("  {group:<8}");
        for (_, name) in names {
            if line.len() + 1 + name.len() > MAX_COLUMNS {
                text.push('\n');
                text.push_str(&line);
                line = " ".repeat(10);
            }
            line.push(' ');
            line.push_str(name);
        }
        text.push('\n');
        text.push_str(&line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_explains_all_that_summaries_name() {
        let program = crate::cli::definition();
        let mut text = program.find_subcommand(TEXT).expect("the text").clone();
        let text = text.render_long_help().to_string();
        for command in program.get_subcommands().filter(|it| it.get_name() != TEXT) {
            for (_, name) in command.get_arguments().filter_map(summarised) {
                assert!(text.contains(&name), "{} {name}", command.get_name());
            }
        }
    }
}
