//! The description of the API, as a document in the format of `OpenAPI`.

use serde_json::{Map, Value, json};

use crate::endpoints::{Becomes, ENDPOINTS, Endpoint, Form, Operand, Parameter};

/// Returns the document. `schema` returns the JSON Schema of what a command prints.
pub(crate) fn document(schema: fn(&str) -> Option<Value>) -> Value {
    let mut paths = Map::new();
    paths.insert("/api/images".to_owned(), images());
    for endpoint in ENDPOINTS {
        let path = format!("/api/{}", endpoint.name);
        paths.insert(path, json!({ "get": operation(endpoint) }));
    }
    paths.insert("/api/deploy".to_owned(), json!({ "post": deploy() }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "diskfs browse",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Each answer is what the command prints with --json. All paths are below the random token of the server.",
        },
        "paths": paths,
        "components": { "schemas": schemas(schema) },
    })
}

/// Returns the schemas of the commands, with their definitions beside them as `COMMAND.NAME`: tools
/// for `OpenAPI` resolve references in the whole document only.
fn schemas(schema: fn(&str) -> Option<Value>) -> Map<String, Value> {
    let commands = ENDPOINTS.iter().map(Endpoint::command);
    let mut schemas = Map::new();
    for command in commands.chain(["deploy", "error"]) {
        let Some(Value::Object(mut whole)) = schema(command) else {
            continue;
        };
        whole.remove("$schema");
        if let Some(Value::Object(definitions)) = whole.remove("$defs") {
            for (name, mut definition) in definitions {
                move_references(&mut definition, command);
                schemas.insert(format!("{command}.{name}"), definition);
            }
        }
        let mut whole = Value::Object(whole);
        move_references(&mut whole, command);
        schemas.insert(command.to_owned(), whole);
    }
    schemas
}

/// Changes the references to definitions of a command's schema.
fn move_references(schema: &mut Value, command: &str) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str().and_then(|it| it.strip_prefix("#/$defs/")) {
                    Some(definition) if name == "$ref" => {
                        *value = format!("#/components/schemas/{command}.{definition}").into();
                    }
                    _ => move_references(value, command),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                move_references(item, command);
            }
        }
        _ => {}
    }
}

fn reference(name: &str) -> Value {
    json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } })
}

fn operation(endpoint: &Endpoint) -> Value {
    let mut parameters = Vec::new();
    if endpoint.operand != Operand::None {
        parameters.push(image());
    }
    if endpoint.operand == Operand::Path {
        parameters.extend(path());
    }
    parameters.extend(endpoint.parameters().map(parameter));
    json!({
        "operationId": endpoint.name,
        "summary": endpoint.about,
        "parameters": parameters,
        "responses": responses(&content(endpoint)),
    })
}

fn content(endpoint: &Endpoint) -> Value {
    let of_command = || reference(endpoint.command());
    match endpoint.form {
        Form::Json if endpoint.operand == Operand::None => json!({ "application/json": {} }),
        Form::Json => json!({ "application/json": of_command() }),
        Form::JsonLines => json!({ "application/jsonl": of_command() }),
        Form::Bytes => json!({ "application/octet-stream": {} }),
        Form::Attachment(".tar") => json!({ "application/x-tar": {} }),
        Form::Attachment(_) => json!({ "application/json": {} }),
    }
}

fn responses(content: &Value) -> Value {
    let failure = |about: &str| {
        json!({
            "description": about,
            "content": { "application/json": reference("error") },
        })
    };
    json!({
        "200": { "description": "The output of the command.", "content": content },
        "400": failure("A parameter is invalid."),
        "403": failure("The server is read-only."),
        "404": failure("The image has no such file."),
        "409": failure("The image is locked, or access was denied."),
        "422": failure("The image is corrupt."),
        "500": failure("The command failed otherwise."),
        "501": failure("diskfs does not support a feature of the image."),
    })
}

fn parameter(parameter: &Parameter) -> Value {
    let schema = match parameter.becomes {
        Becomes::Switch(_) | Becomes::Preview | Becomes::Download => json!({ "enum": ["0", "1"] }),
        Becomes::OtherImage => json!({ "type": "integer", "minimum": 0 }),
        Becomes::Option(_) | Becomes::Test(_) => json!({ "type": "string" }),
    };
    query(parameter.name, parameter.about, &schema)
}

fn image() -> Value {
    let schema = json!({ "type": "integer", "minimum": 0, "default": 0 });
    query("image", "The index of the image.", &schema)
}

fn path() -> [Value; 2] {
    let text = json!({ "type": "string", "pattern": "^/", "default": "/" });
    let bytes = json!({ "type": "string", "contentEncoding": "base64" });
    [
        query("path", "The path in the image.", &text),
        query(
            "path_base64",
            "The path as bytes, instead of `path`.",
            &bytes,
        ),
    ]
}

fn query(name: &str, about: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "description": about, "schema": schema })
}

fn images() -> Value {
    let answer = json!({
        "description": "The images, and whether the page can change them.",
        "content": { "application/json": { "schema": {
            "type": "object",
            "required": ["diskfs", "images", "writable", "version"],
            "properties": {
                "diskfs": { "type": "object" },
                "images": { "type": "array", "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": { "name": { "type": "string" } },
                } },
                "writable": { "type": "boolean" },
                "version": { "type": "string" },
            },
        } } },
    });
    json!({ "get": {
        "operationId": "images",
        "summary": "Returns the images that the server was started with.",
        "responses": { "200": answer },
    } })
}

fn deploy() -> Value {
    let dry_run = json!({ "enum": ["0", "1"] });
    json!({
        "operationId": "deploy",
        "summary": "Applies a plan to the image, or tries it in a temporary overlay.",
        "parameters": [
            image(),
            query("dry_run", "1 to try the plan. `diff?preview=1` then returns its changes.", &dry_run),
        ],
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": { "type": "object" } } },
        },
        "responses": responses(&json!({ "application/json": reference("deploy") })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_to_definitions_beside_the_schemas() {
        let schema = |command: &str| {
            (command == "ls").then(|| {
                json!({
                    "$schema": "x",
                    "$defs": { "A": { "items": [{ "$ref": "#/$defs/A" }] } },
                    "$ref": "#/$defs/A",
                    "description": "#/$defs/A",
                })
            })
        };
        let reference = json!({ "$ref": "#/components/schemas/ls.A" });
        let expected = json!({
            "ls": { "$ref": reference["$ref"], "description": "#/$defs/A" },
            "ls.A": { "items": [reference] },
        });
        assert_eq!(document(schema)["components"]["schemas"], expected);
    }

    #[test]
    fn every_request_is_described() {
        let document = document(|command| Some(json!({ "title": command })));
        for endpoint in ENDPOINTS {
            let operation = &document["paths"][format!("/api/{}", endpoint.name)]["get"];
            assert_eq!(operation["operationId"], endpoint.name);
            let names = operation["parameters"].as_array().unwrap();
            for parameter in endpoint.parameters() {
                assert!(
                    names.iter().any(|it| it["name"] == parameter.name),
                    "{}",
                    parameter.name
                );
            }
        }
    }
}
