//! Rows of a batch as text, to compare them in any order.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

/// The value in row `at`: bytes escaped, lists in brackets.
pub fn value(column: &ArrayRef, at: usize) -> String {
    if column.is_null(at) {
        return "null".to_owned();
    }
    match column.data_type() {
        DataType::Binary => format!("\"{}\"", column.as_binary::<i32>().value(at).escape_ascii()),
        DataType::Utf8 => column.as_string::<i32>().value(at).to_owned(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(at).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(at).to_string(),
        DataType::List(_) => {
            let words = column.as_list::<i32>().value(at);
            format!("[{}]", (0..words.len()).map(|at| value(&words, at)).collect::<Vec<_>>().join(" "))
        }
        other => panic!("no column of the tables has the type {other}"),
    }
}

/// All rows of all batches, sorted.
pub fn sorted(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = batches
        .iter()
        .flat_map(|batch| {
            let row = |at| batch.columns().iter().map(|column| value(column, at)).collect();
            (0..batch.num_rows()).map(row)
        })
        .collect();
    rows.sort_unstable();
    rows
}
