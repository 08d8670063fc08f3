//! The formats of lists of rules and profiles.

use clap::ValueEnum;

/// The format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ListingFormat {
    /// Text for people
    Text,
    /// JSON: one object on each line
    Json,
    /// Markdown, as in the documentation
    Markdown,
}

/// Text as a cell of a Markdown table, shown as it is.
pub(super) fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_shows_what_it_is_given() {
        assert_eq!(markdown(r#"< > : " \ | ? *"#), r#"\< \> : " \\ \| ? \*"#);
    }
}
