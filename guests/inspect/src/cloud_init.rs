//! cloud-init: its configuration and the result of its last run.

use serde::Serialize;
use serde_json::Value;

use super::files::Files;
use super::packages::Packages;
use super::yaml;

/// The program, as packages and pip install it.
const PROGRAMS: [&str; 2] = ["/usr/bin/cloud-init", "/usr/local/bin/cloud-init"];

const DISABLED: &str = "/etc/cloud/cloud-init.disabled";
const INSTANCE: &str = "/var/lib/cloud/data/instance-id";
const STATUS: &str = "/var/lib/cloud/data/status.json";
const SOURCES: &str = "/etc/cloud/cloud.cfg.d/90_dpkg.cfg";

/// The state of cloud-init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CloudInit {
    /// The version, from the package database.
    pub version: Option<String>,
    /// True if a file disables it.
    pub is_disabled: bool,
    /// The instance of the last run; `null` if it never ran.
    pub instance: Option<String>,
    /// The datasource of the last run, for example `DataSourceNoCloud [seed=/dev/sr0]`.
    pub datasource: Option<String>,
    /// The datasources that it searches, in this order.
    pub datasources: Vec<String>,
    /// The errors of the last run.
    pub errors: Vec<String>,
}

/// Reads the state of cloud-init, if it is installed.
pub(super) fn of(files: &Files<'_>, packages: &Packages) -> Option<CloudInit> {
    let program = PROGRAMS.iter().find(|path| files.exists(path))?;
    files.add_source("cloud_init", program, None);
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

/// Returns the datasource of the last run, and its errors.
fn last_run(files: &Files<'_>) -> Option<(Option<String>, Vec<String>)> {
    let text = files.text(STATUS)?;
    let status: Value = match serde_json::from_str(&text) {
        Ok(status) => status,
        Err(error) => {
            files.add_problem(STATUS, error.to_string());
            return None;
        }
    };
    files.add_source("cloud_init", STATUS, None);
    let run = status.get("v1")?;
    let stages = run.as_object()?.values();
    let errors = stages.flat_map(|stage| yaml::texts(stage, "errors"));
    Some((yaml::text(run, "datasource"), errors.collect()))
}

fn datasources(files: &Files<'_>) -> Vec<String> {
    let places = [SOURCES, "/etc/cloud/cloud.cfg"];
    let mut lists = places.iter().filter_map(|path| {
        // The main file is generated from a template and has hundreds of lines; a parse error in it
        // is not reported as a problem.
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
