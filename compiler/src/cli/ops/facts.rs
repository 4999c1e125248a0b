//! The versions of the operators of ONNX, and of those of ONNX Runtime that onnxc compiles.

use onnxc::{
    check::signature::{self, Parameter, Times},
    ir::Domain,
    ops,
};
use std::borrow::Cow;

/// One version of an operator.
pub struct Version {
    /// The operator set.
    pub domain: &'static str,
    /// The operator's name.
    pub name: &'static str,
    /// The version of the set that added it.
    pub since: i64,
    /// Whether that version removed the operator. The other fields are empty then.
    pub is_removal: bool,
    /// The inputs.
    pub inputs: &'static [Parameter],
    /// The outputs.
    pub outputs: &'static [Parameter],
    /// The type constraints: name and allowed types.
    pub constraints: Vec<(&'static str, Vec<&'static str>)>,
}

/// All versions, grouped by operator.
pub fn versions() -> Vec<Version> {
    let versions = signature::all().map(|(domain, name, since, form)| Version {
        domain: onnxc::domain::shown(domain),
        name,
        since,
        is_removal: form.is_none(),
        inputs: form.map_or(&[][..], |form| &form.inputs),
        outputs: form.map_or(&[][..], |form| &form.outputs),
        constraints: form.map_or_else(Vec::new, |form| {
            form.constraints.iter().map(|found| (found.name, found.types.clone())).collect()
        }),
    });
    versions.filter(Version::is_compiled).collect()
}

/// The domain of ONNX Runtime's operators.
const MICROSOFT: &str = "com.microsoft";

impl Version {
    /// Whether onnxc has code for the operator.
    fn is_compiled(&self) -> bool {
        let domain = Domain::from_name(self.domain);
        domain.is_some_and(|domain| ops::find(domain, self.name, self.since).is_some())
    }

    /// The name that the samples of the operator have.
    pub fn sample_name(&self) -> Cow<'static, str> {
        match self.domain {
            MICROSOFT => format!("{MICROSOFT}.{}", self.name).into(),
            _ => self.name.into(),
        }
    }

    /// Input `i`. The last input may be variadic.
    pub fn input(&self, i: usize) -> Option<&Parameter> {
        nth(self.inputs, i)
    }

    /// Output `i`. The last output may be variadic.
    pub fn output(&self, i: usize) -> Option<&Parameter> {
        nth(self.outputs, i)
    }
}

fn nth(parameters: &[Parameter], i: usize) -> Option<&Parameter> {
    let several = |last: &&Parameter| matches!(last.times, Times::AtLeast(_));
    parameters.get(i).or_else(|| parameters.last().filter(several))
}
