//! Recognizes `Gelu` in the nodes that older exporters write: with `Erf`, or with `Tanh` as its
//! approximation.

use super::matching::{either, is_about, number, operands, operands_of, unrounded};
use crate::{
    ir::{Node, Site, ValueId},
    ops::{
        activation::Activation,
        binary::{ADD, DIV, MUL, Pow},
        unary::{ERF, TANH, Unary},
    },
};
use onnxc_runtime::kernels::epilogue;
use std::{
    f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2},
    rc::Rc,
};

/// Recognizes `1/2 · x · (1 + erf(x/√2))`, or the same with the tanh approximation, in any order of
/// the factors.
pub fn recognize_gelu(site: &mut Site<'_>, node: &Node) -> Option<Vec<Option<ValueId>>> {
    let [a, b] = operands_of(node, &MUL)?;
    let (x, f) = [(a, b), (b, a)].into_iter().find_map(|(one, other)| {
        let [c, d] = operands(site, other, &MUL)?;
        permutations([one, c, d]).into_iter().find_map(|[x, half, gate]| {
            let is_half = is_about(site.graph, half, 0.5);
            if is_half { Some((x, match_gate(site, gate, x)?)) } else { None }
        })
    })?;
    unrounded(site.graph, x)?;
    site.replace(node, Rc::new(Activation::of(f)?), vec![Some(x)])
}

/// Returns all permutations of three factors.
fn permutations([a, b, c]: [ValueId; 3]) -> [[ValueId; 3]; 6] {
    [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]]
}

/// Matches `1 + erf(x/√2)` or its tanh approximation and returns the form of `Gelu`.
fn match_gate(site: &Site<'_>, gate: ValueId, x: ValueId) -> Option<epilogue::Activation> {
    either(operands(site, gate, &ADD)?, |one, s| {
        if !is_about(site.graph, one, 1.0) {
            return None;
        }
        let s = site.producer(s)?;
        let (row, argument) = (*s.op.downcast::<&'static Unary>()?, s.input(0)?);
        if std::ptr::eq(row, &ERF) {
            match_over_root(site, argument, x)?;
            return Some(epilogue::Activation::Gelu);
        }
        if !std::ptr::eq(row, &TANH) {
            return None;
        }
        match_tanh_argument(site, argument, x)?;
        Some(epilogue::Activation::GeluTanh)
    })
}

/// Matches `x/√2`.
pub(super) fn match_over_root(site: &Site<'_>, value: ValueId, x: ValueId) -> Option<()> {
    if let Some([a, b]) = operands(site, value, &DIV) {
        return (a == x && is_about(site.graph, b, SQRT_2)).then_some(());
    }
    either(operands(site, value, &MUL)?, |a, b| {
        (a == x && is_about(site.graph, b, FRAC_1_SQRT_2)).then_some(())
    })
}

/// Matches `√(2/π) · (x + 0.044715 · x³)`.
fn match_tanh_argument(site: &Site<'_>, value: ValueId, x: ValueId) -> Option<()> {
    either(operands(site, value, &MUL)?, |root, sum| {
        if !is_about(site.graph, root, FRAC_2_SQRT_PI * FRAC_1_SQRT_2) {
            return None;
        }
        either(operands(site, sum, &ADD)?, |a, term| {
            let cubic = either(operands(site, term, &MUL)?, |c, power| {
                match_cube(site, power, x)?;
                is_about(site.graph, c, 0.044_715).then_some(())
            });
            if a == x { cubic } else { None }
        })
    })
}

/// Matches `x³`.
fn match_cube(site: &Site<'_>, value: ValueId, x: ValueId) -> Option<()> {
    let node = site.producer(value)?;
    if node.op.is::<Pow>() {
        let exponent = number(site.graph, node.input(1)?)?;
        return (node.input(0)? == x && exponent == 3.0).then_some(());
    }
    either(operands_of(node, &MUL)?, |a, square| {
        (a == x && operands(site, square, &MUL)? == [x, x]).then_some(())
    })
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    #[test]
    fn constants_may_have_a_higher_rank_than_x() {
        let text = r#"<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (y)
            <float root = {1.4142135}, float[1, 1] one = {1.0}, float half = {0.5}>
            {
                quotient = Div(x, root)
                error = Erf(quotient)
                gate = Add(error, one)
                product = Mul(x, gate)
                y = Mul(product, half)
            }"#;
        let plan = crate::Compiler::new(&Options::default())
            .plan(text.to_owned().into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let x = Value::Tensor(Tensor::from_floats(&[0.0, 1.0]));
        let made = interpreter::run(&plan, &[x]).expect("the input fits");
        let y = made[0].tensor().expect("a tensor");
        assert_eq!(y.shape, [1, 2]);
        assert!((y.floats().expect("floats")[1] - 0.841_344_7).abs() < 1e-6);
    }
}
