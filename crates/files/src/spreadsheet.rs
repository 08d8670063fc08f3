//! Tables that people open in a spreadsheet as they are.
//!
//! A spreadsheet runs a cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return as a formula, and a name can begin with
//! these characters. Such a cell gets an apostrophe in front, which spreadsheets read as "this is text". Where a cell is read back, one
//! that a spreadsheet would take for a number, a date or a truth value, and save as another text, gets one too. No other cell does.

use std::borrow::Cow;

/// The start of a table: without it Excel does not read UTF-8.
pub const BYTE_ORDER_MARK: &str = "\u{FEFF}";

/// The cell in a form that no spreadsheet runs.
pub fn inert(cell: &str) -> Cow<'_, str> {
    // Full-width forms too: some spreadsheets fold them first.
    let runs = cell.starts_with(['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠']);
    if runs { format!("'{cell}").into() } else { cell.into() }
}

/// How the names of months begin in English and in the languages in which spreadsheets are used most.
const MONTHS: [&str; 34] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", // English
    "mär", "mai", "okt", "dez", // German
    "fév", "avr", "jui", "aoû", "déc", // French
    "ene", "abr", "ago", "dic", // Spanish
    "gen", "mag", "giu", "lug", "set", "ott", // Italian
    "fev", "out", // Portuguese
    "mei", // Dutch
];

/// Reports whether a spreadsheet may take the cell for a number, a date, a time or a truth value, and save it as another text.
pub fn is_converted(cell: &str) -> bool {
    let lower = cell.to_lowercase();
    if matches!(&*lower, "true" | "false") {
        return true;
    }
    let is_value = |c: char| c.is_alphanumeric() || " -/.,:+()%$€£¥'".contains(c);
    let mut words = lower.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    let is_of_value = |word: &str| {
        matches!(word, "e" | "a" | "p" | "am" | "pm") || MONTHS.iter().any(|month| word.starts_with(month))
    };
    cell.contains(|c: char| c.is_ascii_digit()) && cell.chars().all(is_value) && words.all(is_of_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_and_no_other_cell_changes() {
        for cell in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r1", "＝1"] {
            assert_eq!(inert(cell), format!("'{cell}"));
        }
        for cell in [
            "1.2",
            "007",
            "1e5",
            "2-3",
            "Jan 2",
            "MARCH1",
            "5 Dezember 2004",
            "12:30 pm",
            "true",
            "50%",
            "(1)",
        ] {
            assert!(is_converted(cell), "{cell}");
            assert_eq!(inert(cell), cell);
        }
        for cell in ["2004.txt", "3 Rechnungen", "IMG_1234", "Kapitel 3", "v1.0", "Mai", "é", "日本", "x", ""]
        {
            assert!(!is_converted(cell), "{cell}");
        }
        for cell in ["", "a=1", "'=1", "1", "2024-01.txt", "(1) x", "#a", ".b", "日本"] {
            assert_eq!(inert(cell), cell);
        }
    }
}
