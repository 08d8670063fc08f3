use namegate_core::policy::Confidence;
use proptest::prelude::*;

use super::*;
use crate::plan::tests::{header, lines, rename, retarget, skipped};
use crate::plan::{PlanLine, PlanParser, Rename};

/// The table of a plan with the rename `old` to `new`, among lines of all types.
fn table(old: &[u8], new: &str) -> Vec<u8> {
    let mut table = Vec::new();
    let mut writer = PlanTableWriter::new(&mut table).unwrap();
    let rename = rename(3, b"/srv/caf\xE9/sub", old, new);
    for line in [header().to_line(), rename.to_line(), skipped().to_line(), retarget().to_line()] {
        writer.write_line(&line).unwrap();
    }
    writer.finish().unwrap();
    table
}

/// The lines of the plan in a table, or its errors with their lines.
fn read(table: &[u8]) -> Result<Vec<PlanLine>, Vec<String>> {
    let (mut parser, mut lines) = (PlanParser::default(), Vec::new());
    let table = table.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(table);
    let mut reader = PlanTableReader::open(table).unwrap().ok_or_else(|| vec!["no table".to_owned()])?;
    while let Some((number, line)) = reader.next_line().unwrap() {
        lines.extend(parser.parse_row(number, line));
    }
    parser.finish().map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok(lines)
}

/// The only rename of the plan in a table, or the errors.
fn read_rename(table: &[u8]) -> Result<Rename, Vec<String>> {
    let mut renames = read(table)?.into_iter().filter_map(|line| match line {
        PlanLine::Rename(rename) => Some(rename),
        _ => None,
    });
    Ok(renames.next().unwrap())
}

/// The table as a program writes it that has read its cells and changed them by `edit`: row, column, cell.
fn rewritten(table: &[u8], delimiter: u8, edit: impl Fn(usize, usize, &[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut rows = ReaderBuilder::new().has_headers(false).from_reader(&table[3..]);
    let mut out = WriterBuilder::new()
        .delimiter(delimiter)
        .quote_style(csv::QuoteStyle::Always)
        .from_writer(Vec::new());
    for (number, row) in rows.byte_records().enumerate() {
        let row = row.unwrap();
        let cells = row.iter().enumerate().map(|(column, cell)| edit(number, column, cell));
        out.write_record(cells).unwrap();
    }
    out.into_inner().unwrap()
}

fn edited(table: &[u8], row: usize, column: usize, cell: &str) -> Vec<u8> {
    rewritten(table, b',', |at, there, old| match (at, there) == (row, column) {
        true => cell.as_bytes().to_vec(),
        false => old.to_vec(),
    })
}

#[test]
fn a_table_reads_back_as_it_was_written_whatever_program_wrote_it_again() {
    let table = table(b"caf\xE9.", "café");
    assert!(table.starts_with(b"\xEF\xBB\xBFtype,directory,old,new,"));
    let expected = lines();
    assert_eq!(read(&table).unwrap(), expected);
    for delimiter in [b',', b';', b'\t'] {
        assert_eq!(read(&rewritten(&table, delimiter, |_, _, cell| cell.to_vec())).unwrap(), expected);
    }
    // Empty rows, and a column of the user.
    let mut wider = rewritten(&table, b',', |_, _, cell| cell.to_vec());
    wider.extend_from_slice(b",,,\r\n\r\n\"\"\r\n");
    assert_eq!(read(&wider).unwrap(), expected);
}

#[test]
fn names_and_confidences_are_edited_and_nothing_else() {
    let table = table(b"caf\xE9.", "café");
    let new_name = |cell: &str| read_rename(&edited(&table, 2, NEW, cell)).map(|rename| rename.new);
    for (cell, name) in [
        ("Café", "Café"),
        ("'=1+1", "=1+1"),
        ("''tis", "'tis"),
        ("a, \"b\"", "a, \"b\""),
        (r"a\\b\u{2009}c", "a\\b\u{2009}c"),
    ] {
        assert_eq!(new_name(cell).as_deref(), Ok(name));
    }
    let rename = read_rename(&edited(&table, 2, CONFIDENCE, "certain")).unwrap();
    assert_eq!(rename.confidence, Confidence::Certain);
    let errors =
        |row: usize, column: usize, cell: &str| read(&edited(&table, row, column, cell)).unwrap_err();
    for (row, column, cell, expected) in [
        (2, NEW, "a/b", "line 3: the new name `a/b` contains a `/`"),
        (2, NEW, "", "line 3: the new name `` is empty"),
        (2, NEW, r"a\xE9", r"line 3: column `new`: `\\xE9` is no escape"),
        (2, NEW, r"a\", r"line 3: column `new`: `\\` is no escape"),
        (2, NEW, r"a\u{D800}", r"line 3: column `new`: `\\u{D8` is no escape"),
        (2, CONFIDENCE, "maybe", "line 3: column `confidence`: must be one of certain, likely, guess"),
        (2, OLD, "cafe", "line 3: column `old`: differs from the column `record`"),
        (2, 0, "skipped", "line 3: column `type`: differs"),
        (3, NEW, "x", "line 4: column `new`: differs"),
        (4, NEW, "x", "line 5: column `new`: differs"),
        (2, RECORD_AT, "", "line 3: column `record`: EOF"),
        (2, RECORD_AT, "[\"rename\"]", "line 3: column `record`: "),
        (2, RECORD_AT, "\u{1B}[2J", "line 3: column `record`: expected value"),
        (0, RECORD_AT, "x", "no table"),
    ] {
        let found = errors(row, column, cell);
        assert!(found[0].starts_with(expected), "{cell:?}: {found:?}");
        assert!(!found.iter().any(|line| line.contains(char::is_control)), "{found:?}");
    }
    // An array is no line, also if it has an edit.
    let mut array = edited(&table, 2, RECORD_AT, r#"["rename","","a",null,"b"]"#);
    array = [b"\xEF\xBB\xBF".to_vec(), array].concat();
    assert!(read(&edited(&array, 2, NEW, "edited")).is_err());
    let latin = rewritten(&table, b',', |row, column, cell| match (row, column) {
        (2, NEW) => b"caf\xE9".to_vec(),
        _ => cell.to_vec(),
    });
    assert_eq!(read(&latin).unwrap_err(), ["line 3: column `new`: is not UTF-8; save the table in UTF-8"]);
}

#[test]
fn no_name_is_a_formula_a_number_or_a_date() {
    for name in
        ["=1", "+1", "-1", "@a", "1.2", "007", "1e5", "2-3", "Jan 2", "MARCH1", "true", "FALSE", "'a", "＝1"]
    {
        assert_eq!(inert(name), format!("'{name}"));
        let table = table(b"x", name);
        assert!(String::from_utf8_lossy(&table).contains(&format!("'{name}")));
        assert_eq!(read_rename(&table).unwrap().new, name);
    }
    for name in ["", "a", "Report 2019.pdf", "2004.txt", "IMG_1234", "(1) x", "#1", "é", "日本"] {
        assert_eq!(inert(name), name);
    }
}

#[test]
fn a_row_that_is_too_long_ends_the_input() {
    let mut long = b"type,record\nrename,\"".to_vec();
    long.resize(usize::try_from(MAX_ROW_BYTES).unwrap() + (1 << 16), b'x');
    let mut reader = PlanTableReader::open(&*long).unwrap().unwrap();
    assert!(reader.next_line().unwrap_err().to_string().contains("a row has more than"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_name_comes_through(
        old in prop::collection::vec(1..=255_u8, 1..24).prop_filter("a name", |name| !name.contains(&b'/') && name != b"." && name != b".."),
        new in "[^/\u{0}]{1,12}".prop_filter("a name", |name| name != "." && name != ".."),
    ) {
        prop_assume!(old != new.as_bytes());
        let table = table(&old, &new);
        let plan = read(&table).unwrap();
        let rename = read_rename(&table).unwrap();
        prop_assert_eq!((&rename.old, &rename.new), (&old, &new));
        prop_assert_eq!(unescape(&display(new.as_bytes()).to_string()), Ok(new));
        let again = read(&rewritten(&table, b';', |_, _, cell| cell.to_vec())).unwrap();
        prop_assert_eq!(again, plan);
    }

    #[test]
    fn any_bytes_are_a_table_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), row in 0..5_usize, column in 0..COLUMNS.len()) {
        let _ = read(&bytes);
        let _ = read(&rewritten(&table(b"x\xFF", "x"), b',', |at, there, cell| if (at, there) == (row, column) { bytes.clone() } else { cell.to_vec() }));
    }
}
