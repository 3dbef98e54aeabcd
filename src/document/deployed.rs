//! The document of `diskfs deploy`.

use std::ffi::OsStr;

use diskfs_deploy::StepReport;
use serde_json::{Map, Value, json};

/// The result of deploying a guest, or of a dry run.
#[derive(Debug)]
pub struct Deployed {
    /// The reports of the steps.
    pub steps: Vec<StepReport>,
    /// The changes as a diff, in a dry run.
    pub diff: Option<Vec<u8>>,
    /// True if the changes were not one transaction, so a crash could have left a part of them.
    pub in_parts: bool,
}

impl Deployed {
    /// Returns the result as a member of the document, or as a line of a fleet.
    pub fn document(&self, image: &OsStr) -> Value {
        let mut document = Map::new();
        document.insert("image".to_owned(), image.to_string_lossy().into());
        document.insert("steps".to_owned(), json!(self.steps));
        if let Some(diff) = &self.diff {
            document.insert("diff".to_owned(), String::from_utf8_lossy(diff).into());
        }
        if self.in_parts {
            document.insert("in_parts".to_owned(), true.into());
        }
        Value::Object(document)
    }
}

/// Returns the body of the document: the results of all guests, each a [`Deployed::document`].
pub fn deployed(is_dry_run: bool, guests: &[Value]) -> Value {
    json!({ "dry_run": is_dry_run, "guests": guests })
}
