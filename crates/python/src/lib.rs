//! The Python package `namegate`, over `namegate-arrow`: what its stub (`python/namegate/_namegate.pyi`) describes.
//!
//! Data comes in and goes out by Arrow's PyCapsules, so any library that knows them can be used, and none is needed.

mod convert;
mod policy;
mod streams;

use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use pyo3_arrow::input::{AnyArray, AnyRecordBatch};

use convert::{decoding, encoding, error, min_severity, shape};
use namegate_arrow::{
    CandidateChecker, CandidateFinder, CheckSettings, DirectoryChecker, PairSettings, PairSplitter,
    check_names, schema,
};
use policy::{PolicyArgument, PyPolicy};
use streams::{Batches, Findings, Pairs, PyCheckedNames, PySummary, StepReader, the_column};

/// Checks each name, key or path of a column by itself.
#[pyfunction]
#[pyo3(signature = (names, profiles = None, *, shape = "names"))]
fn check(
    py: Python<'_>,
    names: AnyArray,
    profiles: Option<PolicyArgument>,
    shape: &str,
) -> PyResult<PyCheckedNames> {
    let (policy, shape) = (PyPolicy::given(profiles)?.compiled, self::shape(shape)?);
    let names = names.into_reader()?;
    let chunks = py.detach(|| {
        names
            .map(|chunk| check_names(&the_column(chunk?)?, shape, &policy))
            .collect::<Result<Vec<_>, _>>()
            .map_err(error)
    })?;
    let (given, paths) = chunks.iter().fold((0, 0), |sum, chunk| (sum.0 + chunk.given, sum.1 + chunk.paths));
    // A name with a `/` is a finding; a column of them is another column than was meant.
    if paths > 0 && paths * 2 >= given {
        let text = format!(
            "{paths} of {given} names have a `/`, which no name can have: check keys of objects with shape=\"keys\", and other \
             paths with shape=\"paths\" (in DuckDB ng_check_key and ng_check_path)"
        );
        py.import("warnings")?.call_method1("warn", (text,))?;
    }
    Ok(PyCheckedNames::new(chunks.into_iter().map(|chunk| chunk.rows).collect()))
}

/// Splits keys into pairs of a parent and a name.
#[pyfunction]
#[pyo3(signature = (keys, *, shape = "keys", decode = "none"))]
fn pairs(keys: AnyArray, shape: &str, decode: &str) -> PyResult<Pairs> {
    let settings = PairSettings { shape: self::shape(shape)?, decoding: decoding(decode)? };
    let mut splitter = PairSplitter::new(settings);
    let split = move |keys, emit: &mut dyn FnMut(RecordBatch)| splitter.split(&the_column(keys)?, emit);
    Ok(Pairs::new(StepReader::new(keys.into_reader()?, schema::pairs(), split)))
}

/// Checks whole directories.
#[pyfunction]
#[pyo3(signature = (pairs, profiles = None, *, prefix = None, encoding = None, min_severity = "warn", memory = None))]
fn check_directories(
    py: Python<'_>,
    pairs: AnyRecordBatch,
    profiles: Option<PolicyArgument>,
    prefix: Option<Vec<u8>>,
    encoding: Option<&str>,
    min_severity: &str,
    memory: Option<usize>,
) -> PyResult<Findings> {
    let settings = settings(profiles, prefix, encoding, min_severity, memory)?;
    let pairs = pairs.into_reader()?;
    py.detach(|| {
        let (mut checker, mut faults) = (DirectoryChecker::new(settings), Vec::new());
        for batch in pairs {
            faults.extend(checker.add(&batch?)?);
        }
        Ok(Findings::new(faults, checker.finish()?))
    })
    .map_err(error)
}

fn settings(
    profiles: Option<PolicyArgument>,
    prefix: Option<Vec<u8>>,
    encoding: Option<&str>,
    min_severity: &str,
    memory: Option<usize>,
) -> PyResult<CheckSettings> {
    let mut settings = CheckSettings::new(PyPolicy::given(profiles)?.compiled);
    settings.prefix = prefix.unwrap_or_default();
    settings.encoding = encoding.map(self::encoding).transpose()?;
    settings.min_severity = self::min_severity(min_severity)?;
    settings.memory = memory.unwrap_or(settings.memory);
    Ok(settings)
}

/// Numbers the names of cut directories.
#[pyfunction]
#[pyo3(signature = (pairs, profiles = None, *, prefix = None))]
fn number_names(
    pairs: AnyRecordBatch,
    profiles: Option<PolicyArgument>,
    prefix: Option<Vec<u8>>,
) -> PyResult<Batches> {
    let settings = settings(profiles, prefix, None, "warn", None)?;
    let number = move |pairs: RecordBatch, emit: &mut dyn FnMut(RecordBatch)| {
        namegate_arrow::number_names(&pairs, &settings, emit)
    };
    Ok(Batches::new(StepReader::new(pairs.into_reader()?, schema::numbered(), number)))
}

/// Finds the candidates among numbered names, and counts the names.
#[pyfunction]
#[pyo3(signature = (numbered, profiles = None, *, prefix = None, encoding = None, min_severity = "warn", memory = None, task = ""))]
#[allow(clippy::too_many_arguments, reason = "Python names them")]
fn find_candidates(
    py: Python<'_>,
    numbered: AnyRecordBatch,
    profiles: Option<PolicyArgument>,
    prefix: Option<Vec<u8>>,
    encoding: Option<&str>,
    min_severity: &str,
    memory: Option<usize>,
    task: &str,
) -> PyResult<(Batches, PySummary)> {
    let settings = settings(profiles, prefix, encoding, min_severity, memory)?;
    let numbered = numbered.into_reader()?;
    let (rows, summary) = py
        .detach(|| {
            let (mut finder, mut rows) = (CandidateFinder::new(settings), Vec::new());
            for batch in numbered {
                finder.add(&batch?)?;
            }
            let summary = finder.finish(&mut |batch| rows.push(batch))?;
            Ok((rows, summary))
        })
        .map_err(error)?;
    Ok((candidates(rows), PySummary(summary.to_batch(task))))
}

/// The numbers whose names are not known yet.
#[pyfunction]
#[pyo3(signature = (candidates, profiles = None, *, prefix = None, encoding = None, min_severity = "warn", memory = None))]
fn wanted_numbers(
    py: Python<'_>,
    candidates: AnyRecordBatch,
    profiles: Option<PolicyArgument>,
    prefix: Option<Vec<u8>>,
    encoding: Option<&str>,
    min_severity: &str,
    memory: Option<usize>,
) -> PyResult<Batches> {
    let settings = settings(profiles, prefix, encoding, min_severity, memory)?;
    let rows = candidates.into_reader()?;
    let wanted = py.detach(|| {
        let mut wanted = Vec::new();
        candidate_checker(settings, rows)?.wanted(&mut |batch| wanted.push(batch))?;
        Ok(wanted)
    });
    wanted.map(self::candidates).map_err(error)
}

/// Checks cut directories by what is known of them.
#[pyfunction]
#[pyo3(signature = (candidates, profiles = None, *, prefix = None, encoding = None, min_severity = "warn", memory = None))]
fn check_candidates(
    py: Python<'_>,
    candidates: AnyRecordBatch,
    profiles: Option<PolicyArgument>,
    prefix: Option<Vec<u8>>,
    encoding: Option<&str>,
    min_severity: &str,
    memory: Option<usize>,
) -> PyResult<Findings> {
    let settings = settings(profiles, prefix, encoding, min_severity, memory)?;
    let rows = candidates.into_reader()?;
    py.detach(|| Ok(Findings::new(Vec::new(), candidate_checker(settings, rows)?.finish()?))).map_err(error)
}

fn candidate_checker(
    settings: CheckSettings,
    rows: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
) -> Result<CandidateChecker, ArrowError> {
    let mut checker = CandidateChecker::new(settings);
    for batch in rows {
        checker.add(&batch?)?;
    }
    Ok(checker)
}

fn candidates(rows: Vec<RecordBatch>) -> Batches {
    Batches::new(RecordBatchIterator::new(rows.into_iter().map(Ok), schema::candidates()))
}

/// The module of compiled code behind the package `namegate`.
#[pymodule]
fn _namegate(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<PyPolicy>()?;
    module.add_class::<PyCheckedNames>()?;
    module.add_class::<Pairs>()?;
    module.add_class::<Findings>()?;
    module.add_class::<PySummary>()?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(pairs, module)?)?;
    module.add_class::<Batches>()?;
    module.add_function(wrap_pyfunction!(check_directories, module)?)?;
    module.add_function(wrap_pyfunction!(number_names, module)?)?;
    module.add_function(wrap_pyfunction!(find_candidates, module)?)?;
    module.add_function(wrap_pyfunction!(wanted_numbers, module)?)?;
    module.add_function(wrap_pyfunction!(check_candidates, module)?)
}
