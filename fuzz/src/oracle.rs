//! Ways to compile and run a model that must agree.

use onnxc::{
    Compiler, Optimize, Options, dtype::DType, export, interpreter, plan::Plan, tensor::Tensor,
    value::Value,
};
use onnxc_proto::{Message, ModelProto};

/// The largest arena of a model that is run, in bytes.
const LARGEST: usize = 1 << 24;

/// Compiles a model for both goals, and after optimizing it. If it runs, all results must agree.
pub fn compare(model: &ModelProto) {
    let bytes = model.encode_to_vec();
    for optimize in [Optimize::Speed, Optimize::Size] {
        crate::model::compile(&bytes, optimize);
    }
    let Some(fast) = plan(&bytes, Optimize::Speed) else { return };
    let small = plan(&bytes, Optimize::Size).expect("a model that compiles does for each goal");
    let optimized = Compiler::new(&Options::default()).optimize(bytes.clone().into());
    let written = optimized.ok().and_then(|graph| export::model(&graph).ok());
    let again = written.map(|model| {
        let plan = Compiler::new(&Options::default()).plan(model.encode_to_vec().into());
        plan.unwrap_or_else(|error| panic!("the optimized model is invalid: {error}"))
    });
    let Some(inputs) = inputs(&fast) else { return };
    let expected = run(&fast, &inputs);
    for (other, label) in [(Some(small), "size"), (again, "optimized")] {
        let Some(other) = other.filter(|plan| plan.inputs.len() == inputs.len()) else { continue };
        match (&expected, run(&other, &inputs)) {
            (Some(expected), Some(found)) => agree(expected, &found, label),
            (None, None) => {}
            (expected, found) => {
                panic!("{label}: {expected:?} for speed, but {found:?}")
            }
        }
    }
}

fn plan(bytes: &[u8], optimize: Optimize) -> Option<Plan> {
    let mut options = Options::default();
    options.optimize = optimize;
    Compiler::new(&options).plan(bytes.to_vec().into()).ok()
}

/// Runs a plan, unless it is large or has random numbers.
fn run(plan: &Plan, inputs: &[Value]) -> Option<Vec<Value>> {
    interpreter::run(plan, inputs).ok()
}

/// Returns an input for each port; `None` if one is not a tensor of numbers, or large.
fn inputs(plan: &Plan) -> Option<Vec<Value>> {
    if plan.arena_bytes > LARGEST || plan.weight_bytes > LARGEST {
        return None;
    }
    let mut inputs = Vec::new();
    for port in &plan.inputs {
        let ty = port.ty.as_tensor().filter(|ty| ty.dtype != DType::String)?;
        let shape: Vec<usize> = ty
            .shape
            .iter()
            .map(|dim| usize::try_from(dim.known().unwrap_or(2)).ok())
            .collect::<Option<_>>()?;
        let count = shape.iter().try_fold(1, |n: usize, &size| n.checked_mul(size))?;
        let bytes = count.checked_mul(ty.dtype.bytes()).filter(|&bytes| bytes <= LARGEST)?;
        let numbers: Vec<f64> = (0..count).map(|i| ((i * 7 + 3) % 11) as f64 / 4.0 - 1.0).collect();
        let tensor = Tensor::from_numbers(ty.dtype, shape.clone(), &numbers).unwrap_or_else(|_| {
            // Small integers, whatever the width of the type.
            let pattern = (0..bytes).map(|i| u8::from(i % ty.dtype.bytes().max(1) == 0));
            Tensor::from_raw(ty.dtype, shape, pattern.collect::<Vec<u8>>().into())
        });
        inputs.push(Value::Tensor(tensor));
    }
    Some(inputs)
}

/// Asserts that the results have the same types and sizes, and nearly the same numbers.
fn agree(expected: &[Value], found: &[Value], label: &str) {
    assert_eq!(expected.len(), found.len(), "{label}: the number of outputs");
    for (expected, found) in expected.iter().zip(found) {
        let (Some(expected), Some(found)) = (expected.tensor(), found.tensor()) else { continue };
        assert_eq!(expected.ty(), found.ty(), "{label}: the type of an output");
        let (Some(expected), Some(found)) = (expected.floats(), found.floats()) else { continue };
        for (&a, &b) in expected.iter().zip(&found) {
            let is_near = (a - b).abs() <= 1e-2 * (1.0 + a.abs()) || a == b;
            let is_wild = !a.is_finite() || !b.is_finite() || a.abs() > 1e6;
            assert!(is_near || is_wild, "{label}: {a}, but {b}");
        }
    }
}
