//! Bills of materials in SPDX 2.3.

use serde_json::{Value, json};

use super::BillOfMaterials;
use crate::packages::Package;

/// The value of an unknown field.
const NO_ASSERTION: &str = "NOASSERTION";

const DOCUMENT: &str = "SPDXRef-DOCUMENT";
const SYSTEM: &str = "SPDXRef-OperatingSystem";

/// Returns the document.
pub(super) fn document(bill: &BillOfMaterials<'_>) -> Value {
    let ids: Vec<String> = (1..=bill.packages().count())
        .map(|number| format!("SPDXRef-Package-{number}"))
        .collect();
    let packages = ids
        .iter()
        .zip(bill.packages())
        .map(|(id, package)| installed(bill, id, package));
    let relationships = ids.iter().map(|id| relationship(SYSTEM, "CONTAINS", id));
    let packages: Vec<Value> = std::iter::once(system(bill)).chain(packages).collect();
    let relationships: Vec<Value> = std::iter::once(relationship(DOCUMENT, "DESCRIBES", SYSTEM))
        .chain(relationships)
        .collect();
    json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": DOCUMENT,
        "name": bill.name,
        "documentNamespace": format!("urn:uuid:{}", bill.uuid()),
        "creationInfo": {
            "created": bill.created,
            "creators": [concat!("Tool: diskfs-", env!("CARGO_PKG_VERSION"))],
        },
        "packages": packages,
        "relationships": relationships,
    })
}

fn relationship(from: &str, kind: &str, to: &str) -> Value {
    json!({
        "spdxElementId": from,
        "relationshipType": kind,
        "relatedSpdxElement": to,
    })
}

/// Returns the fields that all packages have, including the one for the system.
fn package(id: &str, name: &str, version: &str) -> Value {
    let mut package = json!({
        "SPDXID": id,
        "name": name,
        "downloadLocation": NO_ASSERTION,
        "filesAnalyzed": false,
        "licenseConcluded": NO_ASSERTION,
        "licenseDeclared": NO_ASSERTION,
        "copyrightText": NO_ASSERTION,
        "supplier": NO_ASSERTION,
    });
    if !version.is_empty() {
        package["versionInfo"] = version.into();
    }
    package
}

fn system(bill: &BillOfMaterials<'_>) -> Value {
    let (name, version) = bill.system();
    let mut system = package(SYSTEM, name, version);
    system["primaryPackagePurpose"] = "OPERATING-SYSTEM".into();
    if let Some(product) = &bill.report.release.product {
        system["summary"] = product.as_str().into();
    }
    system
}

fn installed(bill: &BillOfMaterials<'_>, id: &str, of: &Package) -> Value {
    let mut installed = package(id, &of.name, &of.version);
    if let Some(purl) = bill.purl(of) {
        installed["externalRefs"] = json!([{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": purl,
        }]);
    }
    installed
}
