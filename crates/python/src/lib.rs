//! The Python package `namegate`, over `namegate-arrow`: what its stub (`python/namegate/_namegate.pyi`) describes.
//!
//! Data comes in and goes out by Arrow's PyCapsules, so any library that knows them can be used, and none is needed.

mod convert;
mod policy;
mod streams;

use pyo3::prelude::*;
use pyo3_arrow::input::{AnyArray, AnyRecordBatch};

use convert::{decoding, encoding, error, min_severity, shape};
use namegate_arrow::{CheckSettings, DirectoryChecker, PairSettings, check_names};
use policy::{PolicyArgument, PyPolicy};
use streams::{Findings, PairReader, Pairs, PyCheckedNames, PySummary, the_column};

/// Checks each name of a column by itself.
#[pyfunction]
#[pyo3(signature = (names, profiles = None))]
fn check(py: Python<'_>, names: AnyArray, profiles: Option<PolicyArgument>) -> PyResult<PyCheckedNames> {
    let policy = PyPolicy::given(profiles)?.compiled;
    let names = names.into_reader()?;
    let chunks = py.detach(|| {
        names
            .map(|chunk| check_names(&the_column(chunk?)?, &policy))
            .collect::<Result<Vec<_>, _>>()
            .map_err(error)
    })?;
    Ok(PyCheckedNames::new(chunks))
}

/// Splits keys into pairs of a parent and a name.
#[pyfunction]
#[pyo3(signature = (keys, *, shape = "keys", decode = "none"))]
fn pairs(keys: AnyArray, shape: &str, decode: &str) -> PyResult<Pairs> {
    let settings = PairSettings { shape: self::shape(shape)?, decoding: decoding(decode)? };
    Ok(Pairs::new(PairReader::new(keys.into_reader()?, settings)))
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
    let mut settings = CheckSettings::new(PyPolicy::given(profiles)?.compiled);
    settings.prefix = prefix.unwrap_or_default();
    settings.encoding = encoding.map(self::encoding).transpose()?;
    settings.min_severity = self::min_severity(min_severity)?;
    settings.memory = memory.unwrap_or(settings.memory);
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
    module.add_function(wrap_pyfunction!(check_directories, module)?)
}
