//! Chooses the inputs for which a model is timed.

use super::labels::Labels;
use crate::cli::{
    inputs,
    test::{folder, learning},
};
use onnxc::{
    diag::{Code, Diagnostic, Diagnostics, quoted},
    dim::Symbol,
    dtype::DType,
    import,
    plan::{Plan, Port},
    tensor::Tensor,
    ty::Type,
    value::Value,
};
use std::{collections::BTreeMap, path::Path};

/// Returns the given inputs, or those of the first data set beside the model, or generated ones.
pub fn of(model: &Path, given: &[String], plan: &Plan) -> Result<Vec<Value>, Diagnostics> {
    if !given.is_empty() {
        return from_files(model, given, plan);
    }
    let recorded = match folder::first_inputs(model, plan)? {
        None => learning::inputs_beside(model, plan, "infer/in")?,
        found => found,
    };
    // Ones are valid sizes, indices and masks for most models.
    recorded.map_or_else(|| generate_inputs(plan, &|_| Some(Whole::One)), Ok)
}

/// Returns the inputs of a training step in the same order of preference.
pub fn of_step(
    model: &Path,
    given: &[String],
    plan: &Plan,
    labels: &Labels,
) -> Result<Vec<Value>, Diagnostics> {
    if !given.is_empty() {
        return from_files(model, given, plan);
    }
    let recorded = learning::inputs_beside(model, plan, "step00/in")?;
    recorded
        .map_or_else(|| generate_inputs(plan, &|input| labels.classes(input).map(Whole::Below)), Ok)
}

/// The integers of a generated input.
enum Whole {
    One,
    Below(usize),
}

impl Whole {
    fn draw(&self, random: &mut Random) -> u128 {
        match self {
            Whole::One => 1,
            Whole::Below(count) => (random.next() * *count as f64) as u128,
        }
    }
}

fn from_files(model: &Path, given: &[String], plan: &Plan) -> Result<Vec<Value>, Diagnostics> {
    let proto = import::decode(crate::cli::files::bytes(model)?)?;
    let runs = inputs::runs(inputs::read(given, proto.graph.as_ref())?)?;
    inputs::in_order(plan, &runs[0])
}

fn generate_inputs(
    plan: &Plan,
    whole: &dyn Fn(&str) -> Option<Whole>,
) -> Result<Vec<Value>, Diagnostics> {
    let free = free_sizes(plan);
    if !free.is_empty() {
        let options: Vec<String> = free.iter().map(|name| format!("--dim {name}=N")).collect();
        let names: Vec<String> = free.iter().map(|name| quoted(name)).collect();
        let message = format!("the sizes {} of the inputs are free", names.join(", "));
        let help = format!(
            "set `{}`, or give a file for each input: `--input NAME=FILE`",
            options.join(" ")
        );
        return Err(Diagnostic::new(Code::BadOption, message).help(help).into());
    }
    let mut random = Random(1);
    let made = plan.inputs.iter().map(|port| generate_input(port, whole(&port.name), &mut random));
    Ok(made.collect::<Result<Vec<Value>, Diagnostic>>()?)
}

/// Returns the names of the free dimensions of the inputs that need a value, each once.
pub fn free_sizes(plan: &Plan) -> Vec<String> {
    let ports = plan.inputs.iter().filter(|port| port.default.is_none());
    let mut names: Vec<String> = Vec::new();
    for dim in ports.flat_map(|port| port.shape()) {
        let Some(symbol) = dim.as_symbol() else { continue };
        let name = plan.symbols.get(symbol).map_or(&**symbol, |size| &size.label);
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Returns the sizes of the inputs that the plan leaves free, by their symbols.
pub fn sizes(plan: &Plan, values: &[Value]) -> BTreeMap<Symbol, i64> {
    let mut sizes = BTreeMap::new();
    for (port, value) in plan.inputs.iter().zip(values) {
        let Some(tensor) = value.tensor() else { continue };
        for (dim, &size) in port.shape().iter().zip(&tensor.shape) {
            if let (Some(symbol), Ok(size)) = (dim.as_symbol(), i64::try_from(size)) {
                sizes.insert(symbol.clone(), size);
            }
        }
    }
    sizes
}

/// Generates floating-point numbers from 0 to 1, or integers if it is known which ones are valid.
fn generate_input(
    port: &Port,
    whole: Option<Whole>,
    random: &mut Random,
) -> Result<Value, Diagnostic> {
    let refused = |what: &str| {
        let message = format!("the input {} {what}", quoted(&port.name));
        Diagnostic::new(Code::BadOption, message)
            .help(format!("set `--dim NAME=N` or `--input {}=FILE`", port.name))
    };
    if port.default.is_some() {
        return Ok(Value::Optional(None));
    }
    let Type::Tensor(ty) = &port.ty else {
        return Err(refused("is not a tensor, and no file is given"));
    };
    let shape = ty.known_shape().ok_or_else(|| refused("has free sizes, and no file is given"))?;
    let len = shape.iter().product();
    if ty.dtype == DType::String {
        let strings = Tensor::from_strings(vec![String::new(); len]);
        return Ok(Value::Tensor(Tensor { shape, ..strings }));
    }
    if ty.dtype.is_float() {
        let numbers: Vec<f64> = (0..len).map(|_| random.next()).collect();
        return Ok(Value::Tensor(Tensor::from_numbers(ty.dtype, shape, &numbers)?));
    }
    let whole = whole.or((ty.dtype == DType::Bool).then_some(Whole::One));
    let whole =
        whole.ok_or_else(|| refused("has integers, and no loss determines which are valid"))?;
    // In little-endian order, the first bytes are those of a narrower type.
    let number = |_| whole.draw(random).to_le_bytes().into_iter().take(ty.dtype.bytes());
    let bytes = (0..len).flat_map(number).collect();
    Ok(Value::Tensor(Tensor::from_raw(ty.dtype, shape, bytes)))
}

/// A generator of numbers from 0 to less than 1, with the same numbers in every run (Marsaglia's
/// xorshift).
struct Random(u32);

impl Random {
    fn next(&mut self) -> f64 {
        for (left, by) in [(true, 13), (false, 17), (true, 5)] {
            self.0 ^= if left { self.0 << by } else { self.0 >> by };
        }
        f64::from(self.0) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_free_sizes_are_named_at_once() {
        let text = "<ir_version: 8, opset_import: [\"\": 21]>
            g (float[batch, n] x, float[n, 3] y) => (float[batch, 3] z) { z = MatMul(x, y) }";
        let planned = onnxc::Compiler::new(&onnxc::Options::default()).plan(text.into());
        let plan = planned.expect("the model is valid");
        let refused = generate_inputs(&plan, &|_| None).expect_err("no size is known").to_string();
        assert!(refused.contains("--dim batch=N --dim n=N"), "{refused}");
        let values = [vec![2, 5], vec![5, 3]].map(|shape| {
            let len = shape.iter().product();
            Value::Tensor(Tensor { shape, ..Tensor::from_floats(&vec![1.0; len]) })
        });
        assert_eq!(plan.macs_of(&sizes(&plan, &values)), 2 * 5 * 3);
    }

    #[test]
    fn labels_are_drawn_from_the_classes_and_other_integers_are_required() {
        let text = "<ir_version: 8, opset_import: [\"\": 21]>
            g (float[40, 3] x, int64[40] label) => (float y) {
                y = SoftmaxCrossEntropyLoss(x, label)
            }";
        let planned = onnxc::Compiler::new(&onnxc::Options::default()).plan(text.into());
        let plan = planned.expect("the model is valid");
        let made = generate_inputs(&plan, &|_| Some(Whole::Below(3)))
            .expect("every input can be generated");
        let drawn = made[1].tensor().and_then(Tensor::ints).expect("a label is an integer");
        assert!((0..3).all(|class| drawn.contains(&class)), "{drawn:?}");
        assert!(drawn.iter().all(|label| (0..3).contains(label)), "{drawn:?}");
        let refused = generate_inputs(&plan, &|_| None)
            .expect_err("the classes of the label are unknown")
            .to_string();
        assert!(refused.contains("--input label=FILE"), "{refused}");
    }
}
