//! The shape of a mount configuration as a JSON Schema (draft 2020-12), for editors and for programs that write such files: TOML
//! and JSON have the same shapes as far as these files use them.
//!
//! A schema says which keys and values there are. What one key means to another, such as a rule that needs a parameter, it
//! does not say: `namegate config check` does.

use namegate_core::name::casefold::Fold;
use namegate_core::name::normalize::Form;
use namegate_core::policy::OnMismatch;
use namegate_core::policy::profile::{self, Profile};
use namegate_core::policy::rule::{RULES, Rule};
use serde_json::{Map, Value, json};

use super::file::{TABLES, of_table, to_toml};
use super::{Setting, SettingKind};

pub fn schema() -> Value {
    let mut properties = keys("");
    properties.insert("policy".into(), policy());
    for (name, description) in
        TABLES.into_iter().zip(["MountSettings of the mount.", "Audit log.", "Metrics."])
    {
        properties.insert(name.into(), table(description, keys(name).into()));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A mount configuration of namegate",
        "description": "Source, mount point, policy and settings of one mount.",
        "type": "object",
        "additionalProperties": false,
        "required": of_table("").map(|setting| setting.key.1).collect::<Vec<_>>(),
        "properties": properties,
    })
}

fn table(description: &str, properties: Value) -> Value {
    json!({
        "description": description,
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

fn keys(table: &str) -> Map<String, Value> {
    of_table(table).map(|setting| (setting.key.1.to_owned(), key(setting))).collect()
}

fn key(setting: &Setting) -> Value {
    let mut shape = match setting.kind {
        SettingKind::Flag => json!({ "type": "boolean" }),
        SettingKind::Choice { words, .. } => {
            let each = words().into_iter().map(|(word, help)| json!({ "const": word, "description": help }));
            json!({ "oneOf": each.collect::<Vec<_>>() })
        }
        SettingKind::Seconds => json!({ "type": "number", "minimum": setting.minimum }),
        SettingKind::Count => {
            json!({ "type": "integer", "minimum": setting.minimum as u32, "maximum": u32::MAX })
        }
        SettingKind::Path => json!({ "type": "string", "pattern": "^/" }),
        SettingKind::Text | SettingKind::Profiles => {
            json!({ "type": "string", "minLength": 1, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$" })
        }
        SettingKind::Address => json!({
            "type": "string", "pattern": r"^(\d+\.\d+\.\d+\.\d+|\[[0-9A-Fa-f:.]+(%\d+)?\]):\d{1,5}$",
        }),
    };
    shape["description"] = format!("{}.", setting.help).into();
    if let Some(default) = setting.default() {
        let toml = to_toml(setting.kind, &default);
        shape["default"] = serde_json::from_str(&toml).unwrap_or(Value::String(toml));
    }
    shape
}

fn policy() -> Value {
    let words = |profile: &&'static Profile| std::iter::once(profile.name).chain(profile.aliases());
    let profiles: Vec<&str> = profile::ALL.iter().flat_map(words).collect();
    let severity = |rule: &Rule| match rule.id.is_always_on() {
        true => json!({ "const": "error" }),
        false => json!({ "enum": ["error", "warn", "off"] }),
    };
    let rules: Map<String, Value> = RULES.iter().map(|rule| (rule.name.to_owned(), severity(rule))).collect();
    let limit = |description: &str| json!({ "description": description, "type": "integer", "minimum": 1, "maximum": isize::MAX });
    let name = r"^[^/\u0000]+$";
    table(
        "The rules that names are checked by; without this table, UTF-8 alone.",
        json!({
            "profiles": {
                "description": "What the policy is based on; [] is UTF-8 alone.",
                "type": "array", "items": { "enum": profiles }, "default": ["strict"],
            },
            "reserved-characters": {
                "description": "Characters that no name may hold, in addition to those of the profiles.",
                "type": "string", "pattern": r"^[^/\u0000]*$",
            },
            "reserved-names": {
                "description": "Whole names that are refused, in addition to those of the profiles.",
                "type": "array", "items": { "type": "string", "pattern": name },
            },
            "library-depth": {
                "description": "Directories above the entries of a document library's root: 0 if the tree is a library.",
                "type": "integer", "minimum": 0,
            },
            "rules": {
                "description": "The severity of a rule, whatever the profiles say.",
                "type": "object", "additionalProperties": false, "properties": rules,
            },
            "normalization": normalization(),
            "equal-names": table("Names that the target treats as one, in addition to those of the profiles.", json!({
                "case": { "description": "How it folds case.", "enum": Fold::ALL.map(Fold::as_str) },
                "form": { "description": "The form in which it compares names.", "enum": Form::ALL.map(Form::as_str) },
            })),
            "limits": table("The greatest lengths, in addition to those of the profiles.", json!({
                "name-bytes": limit("Bytes of a name."),
                "name-utf16": limit("UTF-16 code units of a name."),
                "path-bytes": limit("Bytes of a path."),
                "path-utf16": limit("UTF-16 code units of a path."),
                "reserve": limit("By how much every limit of names is lower, for programs that add to a name."),
            })),
        }),
    )
}

fn normalization() -> Value {
    let mut normalization = table(
        "The form that names should have.",
        json!({
            "form": { "enum": Form::ALL.map(Form::as_str) },
            "on-mismatch": {
                "description": "What happens to a name in another form.",
                "enum": OnMismatch::ALL.map(OnMismatch::as_str), "default": OnMismatch::Refuse.as_str(),
            },
        }),
    );
    normalization["dependentRequired"] = json!({ "on-mismatch": ["form"] });
    normalization
}
