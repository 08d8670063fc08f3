//! The columns of all tables. New columns are added at the end.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

fn schema(fields: impl Into<Fields>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

fn list_of_words(name: &str) -> Field {
    Field::new(name, DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))), true)
}

/// The pairs that a shuffle brings together: `parent` and `name`; or a key that cannot be checked in `name`, if it is not null,
/// and the reason in `fault`. In `entry` is `file` or `directory`, or null if the kind of the entry is unknown, as in other tables.
pub fn pairs() -> SchemaRef {
    static PAIRS: LazyLock<SchemaRef> = LazyLock::new(|| {
        schema(vec![
            Field::new("parent", DataType::Binary, true),
            Field::new("name", DataType::Binary, true),
            Field::new("fault", DataType::Utf8, true),
            Field::new("entry", DataType::Utf8, true),
        ])
    });
    Arc::clone(&PAIRS)
}

/// The names of cut directories on the way to those that have the same number: one row for each number of a name.
pub fn numbered() -> SchemaRef {
    static NUMBERED: LazyLock<SchemaRef> = LazyLock::new(|| {
        schema(vec![
            Field::new("parent", DataType::Binary, true),
            Field::new("name", DataType::Binary, true),
            Field::new("number", DataType::Int64, true),
            Field::new("suspect", DataType::Boolean, true),
            Field::new("first", DataType::Boolean, true),
            Field::new("entry", DataType::Utf8, true),
        ])
    });
    Arc::clone(&NUMBERED)
}

/// What is known of cut directories, for the task that checks each: names by their `kind`, and numbers.
pub fn candidates() -> SchemaRef {
    static CANDIDATES: LazyLock<SchemaRef> = LazyLock::new(|| {
        schema(vec![
            Field::new("parent", DataType::Binary, true),
            Field::new("kind", DataType::Utf8, true),
            Field::new("name", DataType::Binary, true),
            Field::new("number", DataType::Int64, true),
            Field::new("entry", DataType::Utf8, true),
        ])
    });
    Arc::clone(&CANDIDATES)
}

/// The findings: one row for each violation of a name, and for each key that could not be checked.
pub fn findings() -> SchemaRef {
    static FINDINGS: LazyLock<SchemaRef> = LazyLock::new(|| {
        let text = |name| Field::new(name, DataType::Utf8, true);
        schema(vec![
            Field::new("directory", DataType::Binary, true),
            Field::new("name", DataType::Binary, true),
            text("path_encoded"),
            text("verdict"),
            text("rule"),
            text("concern"),
            text("severity"),
            Field::new("start", DataType::Int32, true),
            Field::new("end", DataType::Int32, true),
            text("message"),
            list_of_words("profiles"),
            list_of_words("refused_by"),
            text("group"),
            text("repair"),
            text("repair_confidence"),
            text("reading"),
            text("reading_confidence"),
            text("certain"),
        ])
    });
    Arc::clone(&FINDINGS)
}

/// A name checked by itself: a struct. All fields are null for a name that is null.
pub fn checked_name() -> Fields {
    let text = |name| Field::new(name, DataType::Utf8, true);
    vec![text("verdict"), list_of_words("rules"), text("message"), text("repair"), text("repair_confidence")]
        .into()
}

/// The summaries: one row for each task.
pub fn summary() -> SchemaRef {
    static SUMMARY: LazyLock<SchemaRef> = LazyLock::new(|| {
        let [text, count] =
            [DataType::Utf8, DataType::Int64].map(|of| move |name: &str| Field::new(name, of.clone(), true));
        schema(vec![
            text("task"),
            count("names"),
            count("directories"),
            count("collisions"),
            count("faults"),
            text("policy"),
            text("unicode"),
            text("namegate"),
            list_of_words("profiles"),
            count("findings"),
            text("min_severity"),
        ])
    });
    Arc::clone(&SUMMARY)
}
