//! The shape of an instance file as a JSON Schema (draft 2020-12), for editors and for programs that write such files: TOML
//! and JSON have the same shapes as far as these files use them.
//!
//! A schema says which keys and words there are. What one key means to another, such as a rule that needs a parameter, it
//! does not say: `namegate config check` does.

use serde_json::{Map, Value, json};

use super::{Choice, ERRNOS, EXISTING, MODES};
use crate::name::normalize::Form;
use crate::policy::OnMismatch;
use crate::policy::profile;
use crate::policy::rule::RULES;
use crate::telemetry::audit::{BYTES_PER_SECOND, MIN_BYTES_PER_SECOND};

/// The schema.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An instance file of namegate",
        "description": "What one mount is: source, mount point, policy and settings.",
        "type": "object",
        "additionalProperties": false,
        "required": ["source", "mountpoint"],
        "properties": {
            "source": path("The directory that is served."),
            "mountpoint": path("Where it is mounted."),
            "policy": policy(),
            "mount": mount(),
            "audit": table("Where refusals are recorded.", json!({
                "file": path("A line of JSON is appended for each name that is refused or let through."),
                "group": {
                    "description": "The group that the file belongs to, which may read it.", "type": "string",
                },
                "log": {
                    "description": "Whether refusals go to the log too.", "type": "boolean", "default": true,
                },
                "rate": {
                    "description": "At most this many records per user and second; the rest are only counted.",
                    "type": "integer", "minimum": 1, "maximum": u32::MAX, "default": 100,
                },
                "bytes": {
                    "description": "At most this many bytes of records per user and second, in the log and the file together.",
                    "type": "integer", "minimum": MIN_BYTES_PER_SECOND, "maximum": u32::MAX, "default": BYTES_PER_SECOND,
                },
            })),
            "metrics": table("Where counters can be read.", json!({
                "textfile": path("The file that node_exporter's collector of text files reads."),
                "interval": {
                    "description": "How often that is written, in seconds.", "type": "number", "minimum": 0.1, "default": 15,
                },
                "listen": {
                    "description": "Address and port where a scraper of Prometheus can ask.",
                    "type": "string", "pattern": r"^(\d+\.\d+\.\d+\.\d+|\[[0-9A-Fa-f:.]+(%\d+)?\]):\d{1,5}$",
                },
            })),
        },
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

fn path(description: &str) -> Value {
    json!({ "description": description, "type": "string", "pattern": "^/" })
}

fn flag(description: &str) -> Value {
    json!({ "description": description, "type": "boolean", "default": false })
}

fn seconds(description: &str) -> Value {
    json!({ "description": description, "type": "number", "minimum": 0, "default": 1 })
}

fn words<T>(description: &str, choices: &[Choice<T>]) -> Value {
    let each = choices.iter().map(|choice| json!({ "const": choice.word, "description": choice.help }));
    let default = choices.first().map(|choice| choice.word);
    json!({ "description": description, "oneOf": each.collect::<Vec<_>>(), "default": default })
}

fn mount() -> Value {
    table(
        "How it is mounted and judged.",
        json!({
            "mode": words("What happens when a name that breaks the policy is to be created.", MODES),
            "existing": words("How names that are there and not UTF-8 are seen.", EXISTING),
            "errno": words("The error that a refused name gets.", ERRNOS),
            "check-targets": flag("The targets of new symbolic links are judged too."),
            "entry-timeout": seconds("For how many seconds a name that was looked up is taken for granted."),
            "attr-timeout": seconds("The same for attributes."),
            "read-only": flag("Nothing can be changed through the mount."),
            "noexec": flag("Nothing can be executed."),
            "noatime": flag("Reading leaves no access times."),
            "suid": flag("Set-id bits have their effect; for root alone."),
            "dev": flag("Devices have their effect; for root alone."),
            "allow-other": flag("Users other than the one who mounts have access; always so for root."),
            "sandbox": {
                "description": "Privileges that serving does not need are given up, and system calls are filtered.",
                "type": "boolean", "default": true,
            },
            "fsname": {
                "description": "What the mount table shows as the source.",
                "type": "string", "minLength": 1, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$",
            },
        }),
    )
}

fn policy() -> Value {
    let names = |list: &mut dyn Iterator<Item = &'static str>| Value::from(list.collect::<Vec<_>>());
    let profiles = names(&mut profile::ALL.iter().map(|profile| profile.name));
    let severities = json!(["error", "warn", "off"]);
    let rules: Map<String, Value> = RULES
        .iter()
        .map(|rule| {
            let severity = match rule.id.is_always_on() {
                true => json!({ "const": "error" }),
                false => json!({ "enum": severities }),
            };
            (rule.name.to_owned(), severity)
        })
        .collect();
    let limit = |description: &str| json!({ "description": description, "type": "integer", "minimum": 1, "maximum": isize::MAX });
    let forms = names(&mut Form::ALL.into_iter().map(Form::as_str));
    let reactions = names(&mut OnMismatch::ALL.into_iter().map(OnMismatch::as_str));
    let mut normalization = table(
        "The form that names should have.",
        json!({
            "form": { "enum": forms },
            "on-mismatch": {
                "description": "What happens to a name in another form.",
                "enum": reactions, "default": OnMismatch::Refuse.as_str(),
            },
        }),
    );
    normalization["dependentRequired"] = json!({ "on-mismatch": ["form"] });
    let name = r"^[^/\u0000]+$";
    table(
        "The rules by which names are judged; without this table, UTF-8 alone.",
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
            "rules": {
                "description": "The severity of a rule, whatever the profiles say.",
                "type": "object", "additionalProperties": false, "properties": rules,
            },
            "normalization": normalization,
            "limits": table("The greatest lengths, in addition to those of the profiles.", json!({
                "name-bytes": limit("Bytes of a name."),
                "name-utf16": limit("UTF-16 code units of a name."),
                "path-bytes": limit("Bytes of a path."),
                "path-utf16": limit("UTF-16 code units of a path."),
            })),
        }),
    )
}
