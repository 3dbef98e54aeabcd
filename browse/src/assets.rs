//! The files of the page, which are built into the program.

macro_rules! assets {
    ($($name:literal,)*) => {
        /// The names and contents of the files.
        const ASSETS: &[(&str, &[u8])] = &[$(($name, include_bytes!(concat!("../web/", $name)))),*];
    };
}

assets! {
    "api.js",
    "app.js",
    "base.css",
    "breadcrumbs.js",
    "change-panel.js",
    "change-tree.js",
    "changes-view.js",
    "chart.js",
    "comparison.js",
    "context.js",
    "diff-parse.js",
    "diff-view.js",
    "disk-details.js",
    "disk-layout.js",
    "disk-map.js",
    "disk-view.js",
    "dom.js",
    "early.js",
    "file-details.js",
    "file-list.js",
    "file-tree.js",
    "files-view.js",
    "format.js",
    "guest-report.js",
    "guest-view.js",
    "hex.js",
    "icon.svg",
    "index.html",
    "json-check.js",
    "logs.js",
    "messages.js",
    "packages.js",
    "paths.js",
    "plan-editor.js",
    "preview.js",
    "router.js",
    "schema-check.js",
    "search.js",
    "space-tree.js",
    "space-view.js",
    "step-list.js",
    "sunburst.js",
    "table.js",
    "tabs.js",
    "treemap.js",
    "views.css",
    "virtual-list.js",
}

/// Returns the contents and the media type of a file.
pub(crate) fn named(name: &str) -> Option<(&'static [u8], &'static str)> {
    let (name, bytes) = ASSETS.iter().find(|(asset, _)| *asset == name)?;
    let media_type = match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    };
    Some((bytes, media_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_built_in() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/web");
        let files = std::fs::read_dir(directory).unwrap();
        for file in files {
            let name = file.unwrap().file_name().into_string().unwrap();
            let (_, media_type) = named(&name).unwrap_or_else(|| panic!("missing {name}"));
            assert_ne!(media_type, "application/octet-stream", "{name}");
        }
        assert!(named("../Cargo.toml").is_none());
    }
}
