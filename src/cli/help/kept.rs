//! Every help text and man page, as kept beside the tests: a change of their words is seen in review.

use std::fs;

use clap::Command;
use diskfs_fixtures::kept;

/// The folder of the kept texts, from the workspace's root.
const FOLDER: &str = "tests/help";

#[test]
fn help_texts_are_as_kept() {
    let mut program = super::command().term_width(100);
    program.build();
    let mut count = 0;
    check_help(&program, "diskfs", &mut count);
    assert!(count > 50, "{count} help texts are not all");
}

/// Compares the help of a command, short and long, and that of the commands below it.
fn check_help(command: &Command, name: &str, count: &mut usize) {
    if command.is_hide_set() && command.get_name() != "options" {
        return;
    }
    let long = command.clone().render_long_help();
    let short = command.clone().render_help();
    let text = format!("{name} -h\n\n{short}\n\n{name} --help\n\n{long}");
    kept(&format!("{FOLDER}/{}.txt", name.replace(' ', "-")), &text);
    *count += 1;
    let below = command
        .get_subcommands()
        .filter(|it| it.get_name() != "help");
    for subcommand in below {
        check_help(
            subcommand,
            &format!("{name} {}", subcommand.get_name()),
            count,
        );
    }
}

#[test]
fn man_pages_are_as_kept() {
    let made = tempfile::tempdir().expect("a directory");
    let directory = made.path().join("man1");
    crate::cli::man::write_pages(&directory).expect("pages are written");
    let mut count = 0;
    for section in ["man1", "man5", "man8"] {
        for entry in fs::read_dir(made.path().join(section)).expect("a section") {
            let path = entry.expect("an entry").path();
            let page = fs::read_to_string(&path).expect("a page is UTF-8");
            let name = path.file_name().and_then(|it| it.to_str()).expect("a name");
            kept(&format!("{FOLDER}/{section}/{name}"), &page);
            count += 1;
        }
    }
    assert!(count > 50, "{count} pages are not all");
}
