//! Limits the number of axes to [`MAX_RANK`], the number of elements to [`MAX_ELEMENTS`], and the
//! length of size expressions. Elements whose expressions are together longer than
//! [`Dim::LONGEST`] become named parts. Those whose parts are nested too deeply are computed at run
//! time; axes and memory of such sizes are errors.

use super::{Inferred, infer::Finds};
use crate::{
    arena::Arena,
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    plan::{Buffer, BufferId, Step},
    ty::{MAX_RANK, Type},
};

/// The largest number of elements of a tensor, in the widest type more than any address space has.
const MAX_ELEMENTS: i64 = 1 << 59;

/// Returns the inferred types, without known elements whose expressions are too long. A size of an
/// axis or a check that is too long is an error.
pub(super) fn cut(inferred: Inferred, finds: &mut Finds) -> Inferred {
    for (_, known) in finds.known.iter_mut().filter(|(_, known)| Dim::are_too_long(known)) {
        known.iter_mut().for_each(|dim| *dim = dim.as_operand());
    }
    finds.known.retain(|(i, known)| {
        let is_short = !Dim::are_too_long(known);
        if !is_short {
            let one = |dim: &Dim| Some(dim.clone()).filter(|dim| !dim.is_too_long());
            finds.partly.push((*i, known.iter().map(one).collect()));
        }
        is_short
    });
    finds.partly.retain(|(_, partly)| !Dim::are_too_long(partly.iter().flatten()));
    let types = inferred.and_then(limit_rank)?;
    for (i, ty) in types.iter().enumerate() {
        limit_elements(&format!("output {i}"), ty)?;
    }
    for (i, ty) in types.iter().enumerate() {
        let sizes = ty.sizes();
        if sizes.iter().any(Dim::is_too_long) || sizes.iter().product::<Dim>().is_too_long() {
            return Err(too_long(&format!("the sizes of output {i}")).into());
        }
    }
    for check in &finds.checks {
        if check.condition.sizes().into_iter().any(Dim::is_too_long) {
            return Err(too_long("the sizes that must fit together").into());
        }
    }
    Ok(types)
}

/// Rejects types with more axes than [`MAX_RANK`].
fn limit_rank(types: Vec<Type>) -> Inferred {
    match types.iter().position(|ty| ty.sizes().len() > MAX_RANK) {
        None => Ok(types),
        Some(i) => {
            let rank = types[i].sizes().len();
            let message = format!("output {i} has {rank} axes; a tensor has at most {MAX_RANK}");
            Err(Diagnostic::new(Code::TooLarge, message).into())
        }
    }
}

/// Rejects tensors of more than [`MAX_ELEMENTS`], not counting empty axes and axes of unknown size,
/// so that no product of a few sizes overflows.
pub(super) fn limit_elements(name: &str, ty: &Type) -> Result {
    let sizes = ty.sizes().iter().filter_map(Dim::known).filter(|&size| size > 0);
    if sizes.fold(1, i64::saturating_mul) <= MAX_ELEMENTS {
        return Ok(());
    }
    let message = format!("{name} has more than 2^59 elements, which fit no address space");
    Err(Diagnostic::new(Code::TooLarge, message))
}

/// Rejects steps, and buffers after the first `before`, with sizes that are too long.
pub(super) fn lowered(steps: &[Step], buffers: &Arena<BufferId, Buffer>, before: usize) -> Result {
    let mut is_long = false;
    let mut see = |size: &Dim| is_long |= size.is_too_long();
    steps.iter().for_each(|step| step.sizes(&mut see));
    let new = buffers.iter().rev().take(buffers.len() - before);
    new.for_each(|(_, buffer)| see(&buffer.len));
    if is_long { Err(too_long("the sizes that it works with")) } else { Ok(()) }
}

fn too_long(what: &str) -> Diagnostic {
    let message = format!("{what} are too long an expression: their parts are nested too deeply");
    Diagnostic::new(Code::TooLarge, message)
        .help("give the dimensions that they are made of as numbers: `--dim NAME=N`")
}

#[cfg(test)]
mod tests {
    use crate::{
        Options,
        diag::{Code, Diagnostics},
        dtype::DType,
        interpreter,
        plan::Plan,
        tensor::Tensor,
        value::Value,
    };

    fn plan(graph: &str) -> Result<Plan, Diagnostics> {
        let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> g {graph}");
        crate::Compiler::new(&Options::default()).plan(text.into_bytes().into())
    }

    #[test]
    fn elements_that_are_too_long_are_computed_when_the_model_runs() {
        let steps: [fn(usize, usize) -> String; 2] = [
            |i, j| format!("p{j} = Mul(p{i}, p{i})\n"),
            |i, j| format!("t{i} = Div(p{i}, a)\n p{j} = Sub(p{i}, t{i})\n"),
        ];
        for (step, len) in steps.into_iter().zip([1, 0]) {
            let steps: String = (0..40).map(|i| step(i, i + 1)).collect();
            let planned = plan(&format!(
                "(float[a, b] x, float[1] z) => (y) <int64[1] zero = {{0}}, int64[1] one = {{1}}> {{
                    sizes = Shape(x)
                    a = Gather(sizes, zero)
                    b = Gather(sizes, one)
                    p0 = Add(a, b)
                    {steps}
                    y = Expand(z, p40)
                }}"
            ));
            let x = Tensor::from_numbers(DType::F32, vec![1, 0], &[])
                .expect("zero elements fit the shape");
            let inputs = [x, Tensor::from_floats(&[1.0])].map(Value::Tensor);
            let found =
                interpreter::run(&planned.expect("the sizes are within the limits"), &inputs)
                    .expect("the inputs fit the model");
            assert_eq!(found[0].tensor().map(Tensor::len), Some(len));
        }
    }

    #[test]
    fn long_sizes_are_named_parts() {
        let axes: Vec<String> = (0..16).map(|i| format!("n{i}")).collect();
        let ones = vec!["1"; 32].join(", ");
        let plan = plan(&format!(
            "(float[{}] x) => (y) <int64[32] ones = {{{ones}}}> {{ y = Pad(x, ones) }}",
            axes.join(", ")
        ));
        let x = Tensor::from_numbers(DType::F32, vec![0; 16], &[]).expect("there are no elements");
        let plan = plan.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let found = interpreter::run(&plan, &[x.into()]).expect("the input fits the model");
        assert_eq!(found[0].tensor().map(Tensor::len), Some(1 << 16));
    }

    /// Returns the plan of a chain of pools, each of which halves the size.
    fn pools(count: usize) -> Result<Plan, Diagnostics> {
        let pool =
            |i: usize| format!("x{} = MaxPool<kernel_shape = [2], strides = [2]>(x{i})", i + 1);
        let pools: Vec<String> = (0..count).map(pool).collect();
        plan(&format!("(float[1, 1, n] x0) => (x{count}) {{ {} }}", pools.join("\n")))
    }

    #[test]
    fn a_long_chain_of_quotients_compiles() {
        for count in [60, 250] {
            let planned = pools(count);
            assert!(planned.is_ok(), "{}", planned.err().expect("the result is an error"));
        }
    }

    #[test]
    fn a_size_whose_parts_are_too_deep_is_an_error_at_its_node() {
        let found = pools(2000).err().expect("the size is too long").0;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].code, Code::TooLarge);
        assert!(found[0].at.last().is_some_and(|at| at.contains("(MaxPool), number")));
    }
}
