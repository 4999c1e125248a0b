//! The versions of ONNX's operators, as they are tried one by one.

use onnxc::check::signature::{self, Parameter, Times};

/// One version of an operator.
pub struct Version {
    /// The operator set.
    pub domain: &'static str,
    /// The operator's name.
    pub name: &'static str,
    /// The version of the set that brought it.
    pub since: i64,
    /// Whether that version removed it. Then there is no more to say.
    pub is_removal: bool,
    /// What it takes.
    pub inputs: &'static [Parameter],
    /// What it gives.
    pub outputs: &'static [Parameter],
    /// The types that stand for several, each with those allowed.
    pub constraints: Vec<(&'static str, Vec<&'static str>)>,
}

/// All versions, those of one operator one after the other.
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
    versions.collect()
}

impl Version {
    /// Input `i`: the last one may stand for several.
    pub fn input(&self, i: usize) -> Option<&Parameter> {
        nth(self.inputs, i)
    }

    /// Output `i`, likewise.
    pub fn output(&self, i: usize) -> Option<&Parameter> {
        nth(self.outputs, i)
    }
}

fn nth(parameters: &[Parameter], i: usize) -> Option<&Parameter> {
    let several = |last: &&Parameter| matches!(last.times, Times::AtLeast(_));
    parameters.get(i).or_else(|| parameters.last().filter(several))
}
