//! Bills of materials in `CycloneDX` 1.6.

use serde_json::{Value, json};

use super::BillOfMaterials;
use crate::packages::Package;

const SYSTEM: &str = "operating-system";

/// Returns the document.
pub(super) fn document(bill: &BillOfMaterials<'_>) -> Value {
    let components: Vec<Value> = (1..)
        .zip(bill.packages())
        .map(|(number, package)| component(bill, number, package))
        .collect();
    let references: Vec<&Value> = components.iter().map(|it| &it["bom-ref"]).collect();
    let dependencies = json!([{ "ref": SYSTEM, "dependsOn": references }]);
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": format!("urn:uuid:{}", bill.uuid()),
        "version": 1,
        "metadata": {
            "timestamp": bill.created,
            "tools": {
                "components": [{
                    "type": "application",
                    "name": "diskfs",
                    "version": env!("CARGO_PKG_VERSION"),
                }],
            },
            "component": system(bill),
        },
        "components": components,
        "dependencies": dependencies,
    })
}

fn system(bill: &BillOfMaterials<'_>) -> Value {
    let (name, version) = bill.system();
    let mut system = json!({
        "type": "operating-system",
        "bom-ref": SYSTEM,
        "name": name,
        "properties": [{ "name": "diskfs:image", "value": bill.name }],
    });
    if !version.is_empty() {
        system["version"] = version.into();
    }
    if let Some(product) = &bill.report.release.product {
        system["description"] = product.as_str().into();
    }
    system
}

/// Returns the component of a package. Its reference is a number, because a name and version can
/// exist for two architectures, and even twice.
fn component(bill: &BillOfMaterials<'_>, number: usize, package: &Package) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": format!("package-{number}"),
        "name": package.name,
        "version": package.version,
    });
    if let Some(purl) = bill.purl(package) {
        component["purl"] = purl.into();
    }
    component
}
