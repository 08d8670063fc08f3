//! Words and errors.

use arrow_schema::ArrowError;
use namegate_core::name::reading::Encoding;
use namegate_core::policy::rule::Severity;
use namegate_findings::decode::Decoding;
use namegate_findings::split::Shape;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};

/// The Python exception for an error of Arrow.
pub(crate) fn error(error: ArrowError) -> PyErr {
    match error {
        ArrowError::SchemaError(message) => PyTypeError::new_err(message),
        ArrowError::IoError(message, _) => PyOSError::new_err(message),
        other => PyRuntimeError::new_err(other.to_string()),
    }
}

/// The value of a parameter that takes one of a few words.
fn word<T: Copy>(parameter: &str, given: &str, words: &[(&str, T)]) -> Result<T, PyErr> {
    words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<String> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
        PyValueError::new_err(format!("{parameter} is '{given}'; it can be {}", known.join(", ")))
    })
}

/// The words of `scan --list-as`.
pub(crate) fn shape(given: &str) -> Result<Shape, PyErr> {
    word(
        "shape",
        given,
        &[("keys", Shape::Key), ("paths", Shape::Path), ("files", Shape::File), ("names", Shape::Name)],
    )
}

/// The words of `scan --decode`.
pub(crate) fn decoding(given: &str) -> Result<Decoding, PyErr> {
    let words = [
        ("none", Decoding::None),
        ("percent", Decoding::Percent),
        ("form", Decoding::Form),
        ("base64", Decoding::Base64),
    ];
    word("decode", given, &words)
}

pub(crate) fn min_severity(given: &str) -> Result<Severity, PyErr> {
    word("min_severity", given, &[("warn", Severity::Warn), ("error", Severity::Error)])
}

pub(crate) fn encoding(label: &str) -> Result<Encoding, PyErr> {
    label.parse().map_err(|error| PyValueError::new_err(format!("encoding '{label}': {error}")))
}
