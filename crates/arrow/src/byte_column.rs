//! A column of bytes or text in any of Arrow's layouts, read as bytes.
//!
//! Text is never handled as `str`: engines pass on text that is not UTF-8, which is what namegate looks for.

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, GenericBinaryArray,
    GenericStringArray, LargeBinaryArray, OffsetSizeTrait,
};
use arrow_schema::{ArrowError, DataType};

pub(crate) enum ByteColumn {
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    View(BinaryViewArray),
    FixedSize(FixedSizeBinaryArray),
    /// The index of each value; `None` is null.
    Dictionary {
        values: Box<ByteColumn>,
        keys: Vec<Option<usize>>,
    },
    Null,
}

impl ByteColumn {
    /// Reads the column `name`.
    ///
    /// # Errors
    /// It is a column of something else.
    pub(crate) fn new(name: &str, column: &ArrayRef) -> Result<Self, ArrowError> {
        Ok(match column.data_type() {
            DataType::Binary => Self::Binary(column.as_binary().clone()),
            DataType::LargeBinary => Self::LargeBinary(column.as_binary().clone()),
            DataType::BinaryView => Self::View(column.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => Self::FixedSize(column.as_fixed_size_binary().clone()),
            DataType::Utf8 => Self::Binary(text_as_bytes(column.as_string())?),
            DataType::LargeUtf8 => Self::LargeBinary(text_as_bytes(column.as_string())?),
            DataType::Utf8View => Self::View(column.as_string_view().clone().to_binary_view()),
            DataType::Dictionary(_, _) => {
                let dictionary = column.as_any_dictionary();
                let keys = match dictionary.values().is_empty() {
                    true => vec![None; dictionary.len()],
                    false => {
                        let keys = dictionary.normalized_keys().into_iter().enumerate();
                        keys.map(|(at, key)| dictionary.keys().is_valid(at).then_some(key)).collect()
                    }
                };
                Self::Dictionary { values: Box::new(Self::new(name, dictionary.values())?), keys }
            }
            DataType::Null => Self::Null,
            other => {
                return Err(ArrowError::SchemaError(format!(
                    "cannot read names from column `{name}`: its type is {other}; cast it to BINARY or STRING"
                )));
            }
        })
    }

    /// The value in row `at`; `None` if it is null.
    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        match self {
            Self::Binary(column) => column.is_valid(at).then(|| column.value(at)),
            Self::LargeBinary(column) => column.is_valid(at).then(|| column.value(at)),
            Self::View(column) => column.is_valid(at).then(|| column.value(at)),
            Self::FixedSize(column) => column.is_valid(at).then(|| column.value(at)),
            Self::Dictionary { values, keys } => values.get(keys[at]?),
            Self::Null => None,
        }
    }
}

/// The same column without a claim that it is UTF-8.
fn text_as_bytes<O: OffsetSizeTrait>(
    text: &GenericStringArray<O>,
) -> Result<GenericBinaryArray<O>, ArrowError> {
    let (offsets, values, nulls) = text.clone().into_parts();
    GenericBinaryArray::try_new(offsets, values, nulls)
}
