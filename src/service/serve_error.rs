//! Why a mount failed or has ended.

use std::fmt;

/// The reason why a mount failed or has ended.
#[derive(Debug)]
pub enum ServeError {
    /// What failed, on what and why.
    Message(String),
    /// The log or another process has reported the error.
    AlreadyReported,
}

impl ServeError {
    pub(super) fn new(message: impl fmt::Display) -> Self {
        Self::Message(message.to_string())
    }
}

/// The error for something that is not possible, with its reason.
pub(super) fn cannot<E: fmt::Display>(what: &str) -> impl FnOnce(E) -> ServeError {
    move |error| ServeError::new(format!("cannot {what}: {error}"))
}

impl From<String> for ServeError {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}
