//! cloud-init: whether it runs, and what it did.

use serde::Serialize;
use serde_json::Value;

use super::files::Files;
use super::packages::Packages;
use super::yaml;

/// Its program: of packages, and of those who install it with pip.
const PROGRAMS: [&str; 2] = ["/usr/bin/cloud-init", "/usr/local/bin/cloud-init"];

const DISABLED: &str = "/etc/cloud/cloud-init.disabled";
const INSTANCE: &str = "/var/lib/cloud/data/instance-id";
const STATUS: &str = "/var/lib/cloud/data/status.json";
const SOURCES: &str = "/etc/cloud/cloud.cfg.d/90_dpkg.cfg";

/// cloud-init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CloudInit {
    /// The version, where its package says it.
    pub version: Option<String>,
    /// Whether it is kept from running by a file.
    pub is_disabled: bool,
    /// The instance that it last ran for; `None` where it never ran.
    pub instance: Option<String>,
    /// Where it last had its answers from, as `DataSourceNoCloud [seed=/dev/sr0]`.
    pub datasource: Option<String>,
    /// Where it looks for them, in this order.
    pub datasources: Vec<String>,
    /// What went wrong when it last ran.
    pub errors: Vec<String>,
}

/// What there is of it.
pub(super) fn of(files: &Files<'_>, packages: &Packages) -> Option<CloudInit> {
    let program = PROGRAMS.iter().find(|path| files.exists(path))?;
    files.came_from("cloud_init", program, None);
    let (datasource, errors) = last_run(files).unwrap_or_default();
    Some(CloudInit {
        version: packages.version_of("cloud-init"),
        is_disabled: files.exists(DISABLED),
        instance: files.text(INSTANCE).map(|text| text.trim().to_owned()),
        datasource,
        datasources: datasources(files),
        errors,
    })
}

/// Where it had its answers from, and its errors.
fn last_run(files: &Files<'_>) -> Option<(Option<String>, Vec<String>)> {
    let text = files.text(STATUS)?;
    let status: Value = match serde_json::from_str(&text) {
        Ok(status) => status,
        Err(error) => {
            files.complain(STATUS, error.to_string());
            return None;
        }
    };
    files.came_from("cloud_init", STATUS, None);
    let run = status.get("v1")?;
    let stages = run.as_object()?.values();
    let errors = stages.flat_map(|stage| yaml::texts(stage, "errors"));
    Some((yaml::text(run, "datasource"), errors.collect()))
}

fn datasources(files: &Files<'_>) -> Vec<String> {
    let places = [SOURCES, "/etc/cloud/cloud.cfg"];
    let mut lists = places.iter().filter_map(|path| {
        // The main file is a template's result of hundreds of lines; as YAML it is whole or nothing.
        let document = yaml::parse(&files.text(path)?).ok()?;
        Some(yaml::texts(&document, "datasource_list"))
    });
    lists.find(|list| !list.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn what_it_did() {
        let tree = guest(&[
            (PROGRAMS[0], ""),
            (INSTANCE, "i-1\n"),
            (SOURCES, "datasource_list: [ NoCloud, None ]\n"),
            (
                STATUS,
                "{\"v1\":{\"datasource\":\"DataSourceNoCloud [seed=/dev/sr0]\",\"init\":{\"errors\":[\"x\"]},\"stage\":null}}",
            ),
        ]);
        let found = of(&Files::new(&tree), &Packages::default()).unwrap();
        assert_eq!(found.instance.as_deref(), Some("i-1"));
        assert_eq!(found.datasources, ["NoCloud", "None"]);
        assert_eq!(found.errors, ["x"]);
        assert!(!found.is_disabled && found.version.is_none());
        assert!(of(&Files::new(&guest(&[])), &Packages::default()).is_none());
    }
}
