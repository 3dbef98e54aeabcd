//! apk's database (apk-tools, "Installed database").

use super::{LIMIT_BYTES, Package, Paragraph, paragraphs};
use crate::files::Files;

const PLACES: [&str; 2] = ["/lib/apk/db/installed", "/usr/lib/apk/db/installed"];

pub(super) fn installed(files: &Files<'_>) -> Option<Result<Vec<Package>, ()>> {
    let database = PLACES.into_iter().find(|path| files.exists(path))?;
    let Some(bytes) = files.bytes(database, LIMIT_BYTES) else {
        return Some(Err(()));
    };
    files.add_source("packages", database, None);
    Some(Ok(parse(&String::from_utf8_lossy(&bytes))))
}

fn parse(text: &str) -> Vec<Package> {
    let begin = || Paragraph {
        is_installed: true,
        ..Paragraph::default()
    };
    paragraphs(text, begin, |paragraph, line| match line.split_once(':') {
        Some(("P", value)) => paragraph.name = Some(value),
        Some(("V", value)) => paragraph.version = Some(value),
        Some(("A", value)) => paragraph.architecture = Some(value),
        Some(("o", value)) => paragraph.source = Some(value),
        Some(("T", value)) => paragraph.summary = Some(value),
        Some(("U", value)) => paragraph.url = Some(value),
        _ => {}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_one_letter() {
        let found = parse(
            "C:Q1x=\nP:musl\nV:1.2.4-r2\nA:x86_64\nF:lib\nR:x\n\nP:busybox\nV:1.36.1-r15\nA:x86_64\n\n",
        );
        assert_eq!(found.len(), 2);
        assert_eq!((&*found[0].name, &*found[0].version), ("musl", "1.2.4-r2"));
    }
}
