//! What functions return: objects that hand their data on by Arrow's PyCapsules.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, Field, FieldRef, SchemaRef};
use namegate_arrow::{FindingsReader, TaskSummary, schema};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::error::PyArrowResult;
use pyo3_arrow::ffi::{ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule};

type Capsule<'py> = PyArrowResult<Bound<'py, PyCapsule>>;

/// Batches as Arrow passes them between libraries: as structs.
fn struct_field(schema: &SchemaRef) -> FieldRef {
    Arc::new(Field::new_struct("", schema.fields().clone(), false).with_metadata(schema.metadata().clone()))
}

fn stream<'py>(
    py: Python<'py>,
    reader: impl RecordBatchReader + Send + 'static,
    requested: Option<Bound<'py, PyCapsule>>,
) -> Capsule<'py> {
    let field = struct_field(&reader.schema());
    let arrays = reader.map(|batch| batch.map(|batch| Arc::new(StructArray::from(batch)) as ArrayRef));
    to_stream_pycapsule(py, Box::new(ArrayIterator::new(arrays, field)), requested)
}

/// A stream that can be read once.
struct Once<T>(Mutex<Option<T>>);

impl<T> Once<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(Some(value)))
    }

    fn take(&self) -> PyResult<T> {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or_else(|| PyValueError::new_err("these rows have been read already: they can be read once"))
    }
}

/// The results of `check`.
#[pyclass(module = "namegate", name = "CheckedNames", frozen)]
pub(crate) struct PyCheckedNames {
    chunks: Vec<StructArray>,
    field: FieldRef,
}

impl PyCheckedNames {
    pub(crate) fn new(chunks: Vec<StructArray>) -> Self {
        Self { chunks, field: Arc::new(Field::new_struct("", schema::checked_name(), true)) }
    }
}

#[pymethods]
impl PyCheckedNames {
    fn __len__(&self) -> usize {
        self.chunks.iter().map(Array::len).sum()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Capsule<'py> {
        to_schema_pycapsule(py, self.field.as_ref())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyTuple>> {
        let chunks: Vec<&dyn Array> = self.chunks.iter().map(|chunk| chunk as &dyn Array).collect();
        let whole = match chunks[..] {
            [] => Arc::new(StructArray::new_null(schema::checked_name(), 0)) as ArrayRef,
            _ => arrow_select::concat::concat(&chunks)?,
        };
        to_array_pycapsules(py, Arc::clone(&self.field), &whole, requested_schema)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> Capsule<'py> {
        let chunks = self.chunks.clone().into_iter().map(|chunk| Ok(Arc::new(chunk) as ArrayRef));
        to_stream_pycapsule(
            py,
            Box::new(ArrayIterator::new(chunks, Arc::clone(&self.field))),
            requested_schema,
        )
    }
}

/// The column of a chunk: itself, or the one column of a table.
pub(crate) fn the_column(chunk: ArrayRef) -> Result<ArrayRef, ArrowError> {
    match chunk.as_struct_opt().map(StructArray::columns) {
        None => Ok(chunk),
        Some([column]) => Ok(Arc::clone(column)),
        Some(columns) => Err(ArrowError::SchemaError(format!(
            "a table of {} columns where one column was expected: select the column of keys or names",
            columns.len()
        ))),
    }
}

/// Pairs, made while they are read.
#[pyclass(module = "namegate", frozen)]
pub(crate) struct Pairs(Once<Box<dyn RecordBatchReader + Send>>);

impl Pairs {
    pub(crate) fn new(reader: impl RecordBatchReader + Send + 'static) -> Self {
        Self(Once::new(Box::new(reader)))
    }
}

#[pymethods]
impl Pairs {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Capsule<'py> {
        to_schema_pycapsule(py, schema::pairs().as_ref())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> Capsule<'py> {
        stream(py, self.0.take()?, requested_schema)
    }
}

/// Makes batches of each part of an input as they are asked for.
pub(crate) struct StepReader<I, S> {
    input: I,
    step: S,
    schema: SchemaRef,
    /// The batches of the last part, the next one last.
    ready: Vec<RecordBatch>,
}

impl<T, I, S> StepReader<I, S>
where
    I: Iterator<Item = Result<T, ArrowError>>,
    S: FnMut(T, &mut dyn FnMut(RecordBatch)) -> Result<(), ArrowError>,
{
    /// `step` hands the batches of a part on; they have the columns of `schema`.
    pub(crate) fn new(input: I, schema: SchemaRef, step: S) -> Self {
        Self { input, step, schema, ready: Vec::new() }
    }
}

impl<T, I, S> Iterator for StepReader<I, S>
where
    I: Iterator<Item = Result<T, ArrowError>>,
    S: FnMut(T, &mut dyn FnMut(RecordBatch)) -> Result<(), ArrowError>,
{
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            let Self { input, step, ready, .. } = self;
            let made = input.next()?.and_then(|part| step(part, &mut |batch| ready.push(batch)));
            if let Err(error) = made {
                return Some(Err(error));
            }
            ready.reverse();
        }
        self.ready.pop().map(Ok)
    }
}

impl<T, I, S> RecordBatchReader for StepReader<I, S>
where
    I: Iterator<Item = Result<T, ArrowError>>,
    S: FnMut(T, &mut dyn FnMut(RecordBatch)) -> Result<(), ArrowError>,
{
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Batches of any table, made while they are read.
#[pyclass(module = "namegate", frozen)]
pub(crate) struct Batches {
    schema: SchemaRef,
    reader: Once<Box<dyn RecordBatchReader + Send>>,
}

impl Batches {
    pub(crate) fn new(reader: impl RecordBatchReader + Send + 'static) -> Self {
        Self { schema: reader.schema(), reader: Once::new(Box::new(reader)) }
    }
}

#[pymethods]
impl Batches {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Capsule<'py> {
        to_schema_pycapsule(py, self.schema.as_ref())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> Capsule<'py> {
        stream(py, self.reader.take()?, requested_schema)
    }
}

/// The findings of a task, made while they are read.
#[pyclass(module = "namegate", frozen)]
pub(crate) struct Findings {
    reader: Once<SummingReader>,
    summary: Arc<Mutex<Option<TaskSummary>>>,
}

impl Findings {
    pub(crate) fn new(faults: Vec<RecordBatch>, checked: FindingsReader) -> Self {
        let summary = Arc::default();
        let reader = SummingReader { faults: faults.into_iter(), checked, summary: Arc::clone(&summary) };
        Self { reader: Once::new(reader), summary }
    }
}

#[pymethods]
impl Findings {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Capsule<'py> {
        to_schema_pycapsule(py, schema::findings().as_ref())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> Capsule<'py> {
        stream(py, self.reader.take()?, requested_schema)
    }

    /// One row of counts, as a record batch.
    #[pyo3(signature = (task = ""))]
    fn summary(&self, task: &str) -> PyResult<PySummary> {
        let summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        let summary = summary.as_ref().ok_or_else(|| {
            PyRuntimeError::new_err("the summary counts while the findings are read: read all of them first")
        })?;
        Ok(PySummary(summary.to_batch(task)))
    }
}

/// Keeps the summary once all findings have been read.
struct SummingReader {
    faults: std::vec::IntoIter<RecordBatch>,
    checked: FindingsReader,
    summary: Arc<Mutex<Option<TaskSummary>>>,
}

impl Iterator for SummingReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.faults.next().map(Ok).or_else(|| self.checked.next());
        if next.is_none() {
            let summary = self.checked.summary().clone();
            *self.summary.lock().unwrap_or_else(PoisonError::into_inner) = Some(summary);
        }
        next
    }
}

impl RecordBatchReader for SummingReader {
    fn schema(&self) -> SchemaRef {
        schema::findings()
    }
}

/// The summary of a task: a record batch of one row.
#[pyclass(module = "namegate", name = "Summary", frozen)]
pub(crate) struct PySummary(pub(crate) RecordBatch);

#[pymethods]
impl PySummary {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Capsule<'py> {
        to_schema_pycapsule(py, self.0.schema_ref().as_ref())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyTuple>> {
        let row = StructArray::from(self.0.clone());
        to_array_pycapsules(py, struct_field(self.0.schema_ref()), &row, requested_schema)
    }
}
