//! What a model is timed on.

use crate::cli::{run, test::folder};
use onnxc::{
    diag::{Code, Diagnostic, Diagnostics, quoted},
    dtype::DType,
    import,
    plan::{Plan, Port},
    tensor::Tensor,
    ty::Type,
    value::Value,
};
use std::path::Path;

/// The inputs that are given, or those of the first data set beside the model, or made up.
pub fn of(model: &Path, given: &[String], plan: &Plan) -> Result<Vec<Value>, Diagnostics> {
    if !given.is_empty() {
        let proto = import::decode(crate::cli::files::bytes(model)?)?;
        let runs = run::runs(run::inputs(given, proto.graph.as_ref())?)?;
        return run::in_order(plan, &runs[0]);
    }
    if let Some(inputs) = folder::first_inputs(model, plan)? {
        return Ok(inputs);
    }
    let mut random = Random(1);
    let made = plan.inputs.iter().map(|port| make(port, &mut random));
    let findings = |finding| Diagnostics::from(finding);
    made.collect::<Result<Vec<Value>, Diagnostic>>().map_err(findings)
}

/// Random numbers from 0 to 1; ones where integers are wanted, which are sizes, indices and masks
/// of most models.
fn make(port: &Port, random: &mut Random) -> Result<Value, Diagnostic> {
    let refused = |what: &str| {
        let message = format!("the input {} {what}", quoted(&port.name));
        Diagnostic::new(Code::BadOption, message)
            .help(format!("say `--dim NAME=N`, or `--input {}=FILE`", port.name))
    };
    if port.default.is_some() {
        return Ok(Value::Optional(None));
    }
    let Type::Tensor(ty) = &port.ty else {
        return Err(refused("is no tensor, and is not given"));
    };
    let shape = ty.known_shape().ok_or_else(|| refused("has free sizes, and is not given"))?;
    let len = shape.iter().product();
    if ty.dtype == DType::String {
        let strings = Tensor::from_strings(vec![String::new(); len]);
        return Ok(Value::Tensor(Tensor { shape, ..strings }));
    }
    let numbers: Vec<f64> =
        (0..len).map(|_| if ty.dtype.is_float() { random.next() } else { 1.0 }).collect();
    Ok(Value::Tensor(Tensor::from_numbers(ty.dtype, shape, &numbers)?))
}

/// Numbers that look random, the same in every run (Marsaglia's xorshift).
struct Random(u32);

impl Random {
    fn next(&mut self) -> f64 {
        for (left, by) in [(true, 13), (false, 17), (true, 5)] {
            self.0 ^= if left { self.0 << by } else { self.0 >> by };
        }
        f64::from(self.0) / f64::from(u32::MAX)
    }
}
