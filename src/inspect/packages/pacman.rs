//! pacman's database: a directory a package, with a file `desc` (libalpm).

use super::{MAX_PACKAGES, Package};
use crate::inspect::files::Files;

const LOCAL: &str = "/var/lib/pacman/local";

pub(super) fn installed(files: &Files<'_>) -> Option<Result<Vec<Package>, ()>> {
    if !files.exists(LOCAL) {
        return None;
    }
    files.came_from("packages", LOCAL, None);
    let names = files.names(LOCAL);
    let descriptions = names
        .iter()
        .take(MAX_PACKAGES)
        .filter_map(|name| files.text(&format!("{LOCAL}/{name}/desc")));
    Some(Ok(descriptions.filter_map(|text| parse(&text)).collect()))
}

/// A line with a name between percent signs, then its values, then an empty line.
fn parse(text: &str) -> Option<Package> {
    let value = |name: &str| {
        let mut lines = text.lines().skip_while(|line| *line != name).skip(1);
        lines.next().map(str::to_owned)
    };
    Some(Package {
        name: value("%NAME%")?,
        version: value("%VERSION%")?,
        architecture: value("%ARCH%").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_their_names() {
        let package = parse("%NAME%\nbash\n\n%VERSION%\n5.2.026-2\n\n%ARCH%\nx86_64\n\n").unwrap();
        assert_eq!(
            (&*package.name, &*package.version, &*package.architecture),
            ("bash", "5.2.026-2", "x86_64")
        );
        assert_eq!(parse("%NAME%\nbash\n"), None);
    }
}
