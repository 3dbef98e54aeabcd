//! pacman's database: one directory per package, with a file `desc` (libalpm).

use super::{MAX_PACKAGES, Package};
use crate::files::Files;

const LOCAL: &str = "/var/lib/pacman/local";

pub(super) fn installed(files: &Files<'_>) -> Option<Result<Vec<Package>, ()>> {
    if !files.exists(LOCAL) {
        return None;
    }
    files.add_source("packages", LOCAL, None);
    let names = files.names(LOCAL);
    let descriptions = names
        .iter()
        .take(MAX_PACKAGES)
        .filter_map(|name| files.text(&format!("{LOCAL}/{name}/desc")));
    Some(Ok(descriptions.filter_map(|text| parse(&text)).collect()))
}

/// Parses `desc`: a line with a name between percent signs, then its values, then an empty line.
fn parse(text: &str) -> Option<Package> {
    let value = |name: &str| {
        let mut lines = text.lines().skip_while(|line| *line != name).skip(1);
        lines.next().map(str::to_owned)
    };
    let name = value("%NAME%")?;
    Some(Package {
        version: value("%VERSION%")?,
        architecture: value("%ARCH%").unwrap_or_default(),
        source: value("%BASE%"),
        summary: value("%DESC%"),
        url: value("%URL%"),
        description: None,
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::guest;

    #[test]
    fn values_follow_their_names() {
        let package = parse("%NAME%\nbash\n\n%VERSION%\n5.2.026-2\n\n%ARCH%\nx86_64\n\n").unwrap();
        assert_eq!(
            (&*package.name, &*package.version, &*package.architecture),
            ("bash", "5.2.026-2", "x86_64")
        );
        assert_eq!(parse("%NAME%\nbash\n"), None);
    }

    #[test]
    fn each_directory_is_a_package() {
        let tree = guest(&[
            ("/var/lib/pacman/local/ALPM_DB_VERSION", "9\n"),
            (
                "/var/lib/pacman/local/b-2-1/desc",
                "%NAME%\nb\n\n%VERSION%\n2-1\n",
            ),
            (
                "/var/lib/pacman/local/a-1-1/desc",
                "%NAME%\na\n\n%VERSION%\n1-1\n",
            ),
        ]);
        let files = Files::new(&tree);
        let names = installed(&files).unwrap().unwrap().into_iter();
        let names: Vec<String> = names.map(|package| package.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(files.finish().1, []);
    }
}
