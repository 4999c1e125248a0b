//! Ways to compile and run a model that must agree.

use onnxc::{
    Compiler, Optimize, Options,
    dtype::DType,
    export,
    import::Size,
    interpreter,
    plan::{Plan, Step, TripCount},
    tensor::Tensor,
    value::Value,
};
use onnxc_proto::{Message, ModelProto, tensor_shape_proto::dimension, type_proto};

/// The largest arena of a model that is run, in bytes.
const LARGEST: usize = 1 << 24;

/// The largest number of iterations of a loop that is run.
const LONGEST: i64 = 1 << 16;

/// The size of a free dimension in a run.
const FREE_SIZE: i64 = 2;

/// Compiles a model for both goals, after optimizing it, and with fixed sizes. If it runs, all
/// results must agree.
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
    let fixed = fix_sizes(model);
    let Some(inputs) = inputs(&fast) else { return };
    let expected = run(&fast, &inputs);
    for (other, label) in [(Some(small), "size"), (again, "optimized"), (fixed, "fixed")] {
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

/// Plans a model; `None` if it is invalid.
pub fn plan(bytes: &[u8], optimize: Optimize) -> Option<Plan> {
    let mut options = Options::default();
    options.optimize = optimize;
    Compiler::new(&options).plan(bytes.to_vec().into()).ok()
}

/// Plans a model with the free dimensions of its inputs fixed; `None` if there are none, or if an
/// operator does not allow the size.
fn fix_sizes(model: &ModelProto) -> Option<Plan> {
    let inputs = model.graph.iter().flat_map(|graph| &graph.input);
    let dims = inputs.filter_map(|input| match &input.r#type.as_ref()?.value {
        Some(type_proto::Value::TensorType(ty)) => ty.shape.as_ref().map(|shape| &shape.dim),
        _ => None,
    });
    let mut options = Options::default();
    for dim in dims.flatten() {
        if let Some(dimension::Value::DimParam(name)) = &dim.value {
            options.settings.dims.insert(name.clone(), Size::Fixed(FREE_SIZE));
        }
    }
    if options.settings.dims.is_empty() {
        return None;
    }
    Compiler::new(&options).plan(model.encode_to_vec().into()).ok()
}

/// Runs a plan, unless it is large or has random numbers.
pub fn run(plan: &Plan, inputs: &[Value]) -> Option<Vec<Value>> {
    interpreter::run(plan, inputs).ok()
}

/// Returns an input of small numbers for each port; `None` if one is not a tensor of numbers, or
/// large.
fn inputs(plan: &Plan) -> Option<Vec<Value>> {
    inputs_of(plan, &|i| ((i * 7 + 3) % 11) as f64 / 4.0 - 1.0, &|_| 1)
}

/// Returns an input for each port, whose element `i` is `number(i)`, or `integer(i)` if its type
/// has no fractions; `None` if an input is not a tensor of numbers, or a run is large or long.
pub fn inputs_of(
    plan: &Plan,
    number: &dyn Fn(usize) -> f64,
    integer: &dyn Fn(usize) -> u8,
) -> Option<Vec<Value>> {
    if plan.arena_bytes > LARGEST || plan.weight_bytes > LARGEST || is_long(&plan.steps) {
        return None;
    }
    let mut inputs = Vec::new();
    for port in &plan.inputs {
        let ty = port.ty.as_tensor().filter(|ty| ty.dtype != DType::String)?;
        let shape: Vec<usize> = ty
            .shape
            .iter()
            .map(|dim| usize::try_from(dim.known().unwrap_or(FREE_SIZE)).ok())
            .collect::<Option<_>>()?;
        let count = shape.iter().try_fold(1, |n: usize, &size| n.checked_mul(size))?;
        let bytes = count.checked_mul(ty.dtype.bytes()).filter(|&bytes| bytes <= LARGEST)?;
        let numbers: Vec<f64> = (0..count).map(number).collect();
        let tensor = Tensor::from_numbers(ty.dtype, shape.clone(), &numbers).unwrap_or_else(|_| {
            // Only the first byte is not 0, whatever the width of the type.
            let width = ty.dtype.bytes().max(1);
            let byte = |i: usize| if i % width == 0 { integer(i / width) } else { 0 };
            Tensor::from_raw(ty.dtype, shape, (0..bytes).map(byte).collect::<Vec<u8>>().into())
        });
        inputs.push(Value::Tensor(tensor));
    }
    Some(inputs)
}

/// Returns whether a loop is known to take many iterations.
fn is_long(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Loop(inner) => {
            let most = match &inner.most {
                Some(TripCount::Size(most)) => most.known(),
                _ => None,
            };
            most.is_some_and(|most| most > LONGEST) || is_long(&inner.body.steps)
        }
        Step::If(inner) => inner.branches.iter().any(|branch| is_long(&branch.steps)),
        Step::Call(_) | Step::Check(_) => false,
    })
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
