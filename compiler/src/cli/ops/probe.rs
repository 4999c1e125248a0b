//! Tests which operators the compiler accepts, by compiling samples.

use super::{
    facts::Version,
    sample::{Sample, Types},
};
use onnxc::{
    Options,
    ops::{self, Reading},
    plan::{Operand, Plan, Step},
    ty::Type,
};

/// The result for one version.
pub struct Found {
    /// The implementation, or `None` if no sample compiles.
    pub implementation: Option<&'static str>,
    /// The result for each constraint.
    pub constraints: Vec<Constraint>,
}

/// The result for one constraint.
pub struct Constraint {
    /// Its name.
    pub name: &'static str,
    /// The types that compile.
    pub accepted: Vec<&'static str>,
    /// The types that do not compile, each with the compiler's message.
    pub refused: Vec<(&'static str, String)>,
}

/// The implementation of a sample for which no code is generated.
const NO_CODE: &str = "no code";

/// The types with which a constraint is first tested, in order of preference.
const USUAL: [&str; 8] =
    ["float", "int64", "bool", "uint8", "int8", "string", "seq(float)", "optional(float)"];

/// Tests a version.
pub fn probe(version: &Version, samples: &[Sample]) -> Found {
    if version.is_removal {
        return Found { implementation: None, constraints: Vec::new() };
    }
    let samples = Sample::of(samples, version);
    let usual = usual_types(version);
    let mut implementation =
        first_implementation(&samples, version, std::slice::from_ref(&usual)).ok();
    let constraint = |&(name, ref types): &(&'static str, Vec<&'static str>)| {
        let mut found = Constraint { name, accepted: Vec::new(), refused: Vec::new() };
        for &ty in types {
            match first_implementation(
                &samples,
                version,
                &type_combinations(version, &usual, name, ty),
            ) {
                Ok(done) => {
                    // For some types there may be no code, such as a cast to the same type.
                    implementation =
                        implementation.filter(|&found| found != NO_CODE).or(Some(done));
                    found.accepted.push(ty);
                }
                Err(reason) => found.refused.push((ty, reason)),
            }
        }
        found
    };
    let constraints = version.constraints.iter().map(constraint).collect();
    Found { implementation, constraints }
}

/// The usual type of each constraint.
fn usual_types(version: &Version) -> Types<'static> {
    let one = |(name, types): &(&'static str, Vec<&'static str>)| {
        let usual = USUAL.iter().find(|ty| types.contains(ty));
        (*name, *usual.unwrap_or(&types[0]))
    };
    version.constraints.iter().map(one).collect()
}

/// The combinations of types in which `ty` is tested for the constraint `name`: with the usual
/// types of the others, with `ty` for the others if that is allowed, or with any other type for one
/// of them.
fn type_combinations(
    version: &Version,
    usual: &Types<'static>,
    name: &'static str,
    ty: &'static str,
) -> Vec<Types<'static>> {
    let mut all = usual.clone();
    for (other, types) in &version.constraints {
        if types.contains(&ty) {
            all.insert(other, ty);
        }
    }
    let mut base = usual.clone();
    base.insert(name, ty);
    let mut tries = vec![base.clone(), all];
    for (other, types) in version.constraints.iter().filter(|(other, _)| *other != name) {
        for &change in types {
            let mut types = base.clone();
            types.insert(other, change);
            tries.push(types);
        }
    }
    tries
}

/// The implementation of the first combination and sample that compile, or else the message for the
/// very first.
fn first_implementation(
    samples: &[&Sample],
    version: &Version,
    tries: &[Types<'static>],
) -> Result<&'static str, String> {
    let mut reason = None;
    for types in tries {
        for sample in samples {
            match compile(sample, version, types) {
                Ok(plan) => return Ok(implementation(version, &plan)),
                Err(found) => drop(reason.get_or_insert(found)),
            }
        }
    }
    Err(reason.unwrap_or_else(|| "the operator has no sample".to_owned()))
}

/// Compiles a sample, and compares the types of its outputs with those of ONNX.
fn compile(sample: &Sample, version: &Version, types: &Types<'_>) -> Result<Plan, String> {
    let text = sample.model(version, types);
    let options = Options::default();
    let plan = onnxc::Compiler::new(&options).plan(text.into_bytes().into());
    let plan = plan.map_err(|all| match all.0.into_iter().next() {
        Some(diagnostic) => diagnostic.message,
        None => String::new(),
    })?;
    for (i, port) in plan.outputs.iter().enumerate() {
        let Some(value) = version.output(i).filter(|value| !value.is_mixed) else { continue };
        let wanted = types.get(value.ty).copied().unwrap_or(value.ty);
        let found = type_name(&port.ty);
        if found != wanted {
            return Err(format!("output {i} is {found}, not {wanted}"));
        }
    }
    Ok(plan)
}

/// The spelling of a type without sizes.
fn type_name(ty: &Type) -> String {
    match ty {
        Type::Tensor(ty) => ty.dtype.to_string(),
        Type::Unranked(dtype) | Type::Never(dtype) => dtype.to_string(),
        Type::Sequence(ty) => format!("seq({})", type_name(ty)),
        Type::Optional(ty) => format!("optional({})", type_name(ty)),
        Type::Map(key, ty) => format!("map({key},{})", type_name(ty)),
        Type::Sparse(ty) => format!("sparse_tensor({})", ty.dtype),
        Type::Unknown => "unknown".to_owned(),
    }
}

/// Returns whether a step does more than copy an existing value to an output, as for an output that
/// is a view of an input.
fn is_work(plan: &Plan, step: &Step) -> bool {
    let Step::Call(call) = step else { return false };
    let is_output = |written: &Operand| {
        plan.outputs.iter().any(|port| port.operands().any(|output| output == written))
    };
    !(call.is_copy() && call.writes().all(is_output))
}

/// The implementation of a version.
fn implementation(version: &Version, plan: &Plan) -> &'static str {
    let domain = onnxc::ir::Domain::from_name(version.domain);
    let entry = domain.and_then(|domain| ops::find(domain, version.name, version.since));
    match entry.map(|entry| entry.reading) {
        Some(Reading::Body(_) | Reading::Function(_)) => "function",
        Some(Reading::Nodes(_)) => "other nodes",
        _ if plan.steps.iter().any(|step| matches!(step, Step::If(_) | Step::Loop(_))) => {
            "control flow"
        }
        _ if plan.steps.iter().any(|step| is_work(plan, step)) => "kernel",
        _ => NO_CODE,
    }
}
