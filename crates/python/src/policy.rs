//! The class `Policy`.

use std::sync::Arc;

use namegate_core::policy;
use namegate_core::policy::config::Config;
use namegate_core::policy::profile;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The rules that names are checked by.
#[pyclass(module = "namegate", name = "Policy", frozen, from_py_object)]
#[derive(Clone)]
pub(crate) struct PyPolicy {
    pub(crate) compiled: Arc<policy::Policy>,
    /// What it was made of, for pickle.
    made_of: (Option<Vec<String>>, Option<String>),
}

#[pymethods]
impl PyPolicy {
    #[new]
    #[pyo3(signature = (profiles = None, *, config = None))]
    fn new(profiles: Option<ProfileNames>, config: Option<String>) -> PyResult<Self> {
        let profiles = profiles.map(ProfileNames::into_list);
        let mut read = Config::parse(config.as_deref().unwrap_or_default())
            .map_err(|errors| PyValueError::new_err(format!("config: {errors}")))?;
        if let Some(names) = &profiles {
            let known = names.iter().map(|name| profile::by_name(name)).collect::<Result<Vec<_>, _>>();
            read.profiles = Some(known.map_err(|error| PyValueError::new_err(error.to_string()))?);
        }
        let compiled = read.policy().map_err(|errors| PyValueError::new_err(format!("config: {errors}")))?;
        Ok(Self { compiled: Arc::new(compiled), made_of: (profiles, config) })
    }

    /// The profiles.
    #[getter]
    fn profiles(&self) -> Vec<&'static str> {
        self.compiled.profile_set().names().collect()
    }

    fn __repr__(&self) -> String {
        format!("namegate.Policy({:?})", self.profiles())
    }

    /// Engines send policies to their workers.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Made, Made))> {
        let rebuild = slf.py().import("namegate")?.getattr("_policy")?;
        let (profiles, config) = &slf.get().made_of;
        Ok((rebuild, (Made::Profiles(profiles.clone()), Made::Config(config.clone()))))
    }
}

/// A part of what a policy was made of.
#[derive(IntoPyObject)]
enum Made {
    Profiles(Option<Vec<String>>),
    Config(Option<String>),
}

/// One profile, or several.
#[derive(FromPyObject)]
pub(crate) enum ProfileNames {
    One(String),
    Several(Vec<String>),
}

impl ProfileNames {
    fn into_list(self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name],
            Self::Several(names) => names,
        }
    }
}

/// What functions take as a policy.
#[derive(FromPyObject)]
pub(crate) enum PolicyArgument {
    /// A policy.
    Compiled(PyPolicy),
    /// The names of its profiles.
    Profiles(ProfileNames),
}

impl PyPolicy {
    /// The policy of an argument; by default that of a configuration without profiles.
    pub(crate) fn given(argument: Option<PolicyArgument>) -> PyResult<Self> {
        match argument {
            Some(PolicyArgument::Compiled(policy)) => Ok(policy),
            Some(PolicyArgument::Profiles(names)) => Self::new(Some(names), None),
            None => Self::new(None, None),
        }
    }
}
