//! A schema as it is published, and a stricter one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schema")
}

/// A schema in `schema/`.
pub struct Published {
    pub text: Value,
    /// The kinds of objects that it describes, each alone and without further fields.
    pub kinds: BTreeMap<String, Validator>,
    /// As it is published.
    pub open: Validator,
}

impl Published {
    pub fn named(name: &str) -> Self {
        let path = folder().join(format!("{name}.schema.json"));
        let text: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(text["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        let alternatives = text["oneOf"].as_array().cloned().unwrap_or_else(|| vec![text.clone()]);
        let kinds = alternatives.iter().filter_map(|kind| kind["$ref"].as_str());
        let kinds = kinds.map(|kind| {
            let mut alone = json!({ "$ref": kind, "$defs": text["$defs"] });
            forbid_unknown_fields(&mut alone);
            let name = kind.strip_prefix("#/$defs/").unwrap().to_owned();
            (name, jsonschema::validator_for(&alone).unwrap())
        });
        Self { kinds: kinds.collect(), open: jsonschema::validator_for(&text).unwrap(), text }
    }

    /// The kind of an object that fits the schema and has no other field.
    ///
    /// # Errors
    /// What is wrong with the object.
    pub fn kind_of(&self, value: &Value) -> Result<&str, String> {
        let kinds = self.kinds.iter().filter(|(_, validator)| validator.is_valid(value));
        match kinds.map(|(kind, _)| kind.as_str()).collect::<Vec<_>>()[..] {
            [kind] if self.open.is_valid(value) => Ok(kind),
            [] => {
                let meant = self.kinds.iter().filter(|(kind, _)| self.is_meant(kind, value));
                let errors = meant.flat_map(|(_, kind)| kind.iter_errors(value));
                let errors: Vec<_> =
                    errors.map(|error| format!("{error} at {}", error.instance_path())).collect();
                Err(format!("it is of no kind: {errors:?}"))
            }
            ref kinds => Err(format!("it is of the kinds {kinds:?}")),
        }
    }

    fn is_meant(&self, kind: &str, value: &Value) -> bool {
        let words = &self.text["$defs"][kind]["properties"]["type"];
        words["const"] == value["type"]
            || words["enum"].as_array().is_some_and(|words| words.contains(&value["type"]))
    }
}

/// Makes each object with listed fields have no others.
fn forbid_unknown_fields(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".into(), false.into());
            }
            // A condition describes a part of an object.
            let parts =
                fields.iter_mut().filter(|(key, _)| !["if", "then", "else", "not"].contains(&&***key));
            parts.for_each(|(_, part)| forbid_unknown_fields(part));
        }
        Value::Array(parts) => parts.iter_mut().for_each(forbid_unknown_fields),
        _ => {}
    }
}
