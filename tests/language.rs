//! Holds the worst forms of unclear language out of the sources and the pages. The rules are a plain text search:
//! they find what no reader understands alone, not everything that could be said better.

use std::fs;
use std::path::{Path, PathBuf};

/// Words that a documentation comment does not begin with: alone, in an index or an editor, such a sentence has no
/// subject. A function's first word is a verb, a type's or a field's sentence begins with its noun.
const NAME_NOTHING: &[&str] = &[
    "As", "It", "Its", "Nobody", "None", "Nothing", "Ones", "That", "These", "Those", "What",
    "How", "Is", "Are", "There", "When", "Where", "Whether", "Which", "Who", "Whoever", "Whom",
    "Whose", "Why",
];

/// Forms that a message does not have, and what it says instead.
const MESSAGES: &[(&str, &str)] = &[
    ("is no ", "`invalid X`, `not a X`"),
    ("are no ", "`invalid X`, `not X`"),
    (
        "there is no ",
        "`no such X`, `missing X`, `X is not installed`",
    ),
    ("there are no ", "`no X`, `missing X`"),
];

/// The widest line of a page outside of tables and code, in characters.
const MAX_COLUMNS: usize = 100;

/// The longest paragraph of a page, in lines.
const MAX_PARAGRAPH: usize = 5;

#[test]
fn sources_and_pages_are_in_plain_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(root, &mut files);
    assert!(files.len() > 1000, "{} files are not all", files.len());
    let mut findings = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a source is UTF-8");
        let found = match file.extension() {
            Some(it) if it == "md" => check_page(&text),
            _ => check_source(&text),
        };
        let name = file.strip_prefix(root).unwrap_or(file).display();
        findings.extend(found.iter().map(|it| format!("{name}:{it}")));
    }
    let list = findings.join("\n");
    assert!(
        findings.is_empty(),
        "{} lines are not in plain words:\n{list}",
        findings.len()
    );
}

/// Collects the Rust sources and the pages below a directory, without foreign code and built files.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default();
        let is_ours = !["target", "vendor", ".git"].iter().any(|it| name == *it);
        if path.is_dir() && is_ours {
            collect(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs" || it == "md") {
            // This file quotes what it forbids.
            if !path.ends_with("tests/language.rs") {
                files.push(path);
            }
        }
    }
    files.sort();
}

/// Returns what is unclear in a source: the number of the line, and the reason.
fn check_source(text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut in_doc = false;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
        if let Some(first) = doc.filter(|_| !in_doc).and_then(unclear_start) {
            findings.push(format!("{number}: documentation begins with `{first}`"));
        }
        in_doc = doc.is_some();
        if line.starts_with("//") {
            continue;
        }
        // Every second part is between quotes, but for escaped ones, which are rare enough.
        for message in line.split('"').skip(1).step_by(2) {
            if let Some((form, instead)) = unclear_message(message) {
                findings.push(format!("{number}: `{form}` in a message; write {instead}"));
            }
        }
    }
    findings
}

/// Returns the beginning of a documentation comment if it names nothing.
fn unclear_start(sentence: &str) -> Option<&str> {
    let sentence = sentence.trim();
    let first = sentence.split([' ', ',', '.', ':']).next()?;
    let names_nothing = NAME_NOTHING.contains(&first) || sentence.starts_with("The same");
    names_nothing.then_some(first)
}

/// Returns the unclear form that a message has, and what to write instead.
fn unclear_message(message: &str) -> Option<(&'static str, &'static str)> {
    // "is no longer" is plain.
    let message = message.replace("no longer", "");
    let lower = message.to_lowercase();
    let found = MESSAGES.iter().find(|(form, _)| lower.contains(form));
    found.copied()
}

/// Returns the lines and paragraphs of a page that are too long, outside of tables and code. What is
/// indented by four columns is code, or goes on in an item of a list.
fn check_page(text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut in_code = false;
    let mut paragraph = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            in_code = !in_code;
            paragraph = 0;
            continue;
        }
        if in_code || trimmed.starts_with('|') || line.starts_with("    ") {
            paragraph = 0;
            continue;
        }
        paragraph = match () {
            () if trimmed.is_empty() || trimmed.starts_with('#') => 0,
            () if begins_item(trimmed) => 1,
            () => paragraph + 1,
        };
        if paragraph == MAX_PARAGRAPH + 1 {
            findings.push(format!(
                "{number}: a paragraph of more than {MAX_PARAGRAPH} lines"
            ));
        }
        if line.chars().count() > MAX_COLUMNS && !trimmed.contains("](http") {
            findings.push(format!(
                "{number}: a line of more than {MAX_COLUMNS} columns"
            ));
        }
    }
    findings
}

/// Returns true if a line begins an item of a list.
fn begins_item(line: &str) -> bool {
    let digits = line.trim_start_matches(|it: char| it.is_ascii_digit());
    ["* ", "- "].iter().any(|it| line.starts_with(it))
        || (digits.len() < line.len() && digits.starts_with(". "))
}

#[test]
fn unclear_sources_are_found() {
    let source = "/// What it holds.\n/// That goes on.\nfn f() {\n    fail(\"`{x}` is no depth\");\n    \
                  fail(\"it is no longer mounted\");\n}\n/// The number of blocks.\n/// Whether is read.\n";
    let found = check_source(source);
    assert_eq!(
        found,
        [
            "1: documentation begins with `What`",
            "4: `is no ` in a message; write `invalid X`, `not a X`"
        ]
    );
}

#[test]
fn unclear_pages_are_found() {
    let long = "x".repeat(101);
    let page = format!("{long}\n\n| {long} |\n\n```\n{long}\n```\na\nb\nc\nd\ne\nf\n* g\n");
    assert_eq!(
        check_page(&page),
        [
            "1: a line of more than 100 columns",
            "13: a paragraph of more than 5 lines"
        ]
    );
}
