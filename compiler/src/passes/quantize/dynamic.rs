//! Fuses `MatMulInteger` of a dynamically quantized operand with the nodes that scale its result:
//! the form that ONNX Runtime's dynamic quantization writes.

use super::{
    super::recognize::either,
    Replaced,
    operand::{numbers, signed_bytes},
    sums::broadcasts_along_rows,
};
use crate::{
    dtype::DType,
    ir::{Node, Site},
    ops::{
        binary::{ADD, MUL},
        cast::Cast,
        matmul::integer::MatMulInteger,
        quantized::matmul::DynamicMatMul,
    },
    passes::fuse::is,
    tensor::Tensor,
};
use std::rc::Rc;

/// Replaces `Cast(MatMulInteger(x, w)) · (x_scale · w_scale)`, and a bias added to it.
pub fn replace_dynamic_product(site: &mut Site<'_>, node: &Node) -> Replaced {
    replace_scaled_product(site, node).or_else(|| fuse_bias(site, node))
}

/// Fuses the addition of a bias into a `DynamicMatMul` that nothing else uses.
fn fuse_bias(site: &mut Site<'_>, node: &Node) -> Replaced {
    if !is(node, &ADD) {
        return None;
    }
    let inputs = either([node.input(0)?, node.input(1)?], |product, bias| {
        let producer = site.producer(product).filter(|node| node.op.is::<DynamicMatMul>())?;
        let columns = site.graph[product].ty.as_tensor()?.shape.last()?.known()?;
        let ty = site.graph[bias].ty.as_tensor()?;
        let is_row = ty.shape.last()?.known()? == columns && ty.len().known()? == columns;
        let fits = ty.dtype == DType::F32 && producer.input(6).is_none();
        let (before, after) = producer.inputs.split_at(6);
        let after = after.get(1..).unwrap_or_default();
        (is_row && fits).then(|| [before, &[Some(bias)], after].concat())
    })?;
    let is_only_use = (0..2).filter(|&i| node.input(i) != inputs[6]).all(|i| site.uses(i) == 1);
    if is_only_use { site.replace(node, Rc::new(DynamicMatMul), inputs) } else { None }
}

fn replace_scaled_product(site: &mut Site<'_>, node: &Node) -> Replaced {
    if !is(node, &MUL) {
        return None;
    }
    let (product, x_scale, w_scale) = either([node.input(0)?, node.input(1)?], |sums, scales| {
        let cast = site.producer(sums)?;
        cast.op.downcast::<Cast>().filter(|cast| cast.to == DType::F32)?;
        let product = site.producer(cast.input(0)?)?;
        product.op.downcast::<MatMulInteger>()?;
        let scales = site.producer(scales).filter(|scales| is(scales, &MUL))?;
        let (x_scale, w_scale) = either([scales.input(0)?, scales.input(1)?], |x, w| {
            let one = site.graph[x].ty.as_tensor()?.len().known()? == 1;
            (one && broadcasts_along_rows(site, w)).then(|| Some((x, numbers(site.graph, w)?)))?
        })?;
        Some((product.clone(), x_scale, w_scale))
    })?;
    let (x, x_zero) = (product.input(0)?, product.input(2)?);
    let one = site.graph[x_zero].ty.as_tensor()?.len().known()? == 1;
    let bytes = site.graph[x].ty.as_tensor().filter(|ty| ty.dtype == DType::U8 && ty.rank() > 1);
    if !one || bytes.is_none() {
        return None;
    }
    let SignedWeights { shape, bytes, zero, sums } = SignedWeights::of(site, &product)?;
    let scales = match w_scale.as_slice() {
        &[scale] => vec![scale; shape[1]],
        _ => (w_scale.len() == shape[1]).then_some(w_scale)?,
    };
    let named = |part: &str| format!("{}_{part}", node.name);
    let g = &mut *site.graph;
    let mut inputs = vec![
        Some(x),
        Some(x_scale),
        Some(x_zero),
        Some(g.constant(&named("weights"), signed_bytes(shape, &bytes))),
        Some(g.constant(&named("scales"), Tensor::from_floats(&scales))),
        Some(g.constant(&named("sums"), Tensor::from_i32s(&sums))),
    ];
    if zero != 0 {
        let zero = g.constant(&named("zero_point"), signed_bytes(vec![], &[zero]));
        inputs.extend([None, Some(zero)]);
    }
    site.replace(node, Rc::new(DynamicMatMul), inputs)
}

/// Constant weights as signed bytes.
struct SignedWeights {
    shape: Vec<usize>,
    bytes: Vec<i8>,
    /// The zero point of the bytes.
    zero: i8,
    /// The sum of each column, without the zero point.
    sums: Vec<i64>,
}

impl SignedWeights {
    fn of(site: &Site<'_>, product: &Node) -> Option<SignedWeights> {
        let constant = site.graph[product.input(1)?].constant.as_ref()?;
        let &[rows, columns] = constant.shape.as_slice() else { return None };
        let zeros = match product.input(3) {
            Some(zero) => site.graph[zero].constant.as_ref()?.ints()?,
            None => vec![0],
        };
        if zeros.len() != 1 && zeros.len() != columns || rows == 0 {
            return None;
        }
        let ints = constant.ints()?;
        let centered = |(i, &x): (usize, &i64)| x - zeros[i % columns.min(zeros.len())];
        let mut sums = vec![0; columns];
        for (i, x) in ints.iter().enumerate().map(|at| (at.0, centered(at))) {
            sums[i % columns] += x;
        }
        // With the zero point subtracted, they need none. But a difference of two `u8` may not fit.
        let whole = ints.iter().enumerate().map(|at| i8::try_from(centered(at)).ok()).collect();
        let shift = if constant.dtype == DType::U8 { 128 } else { 0 };
        let shifted = |&x: &i64| i8::try_from(x - shift).ok();
        let (bytes, zero) = match whole {
            Some(bytes) => (bytes, 0),
            None if zeros.iter().all(|zero| *zero == zeros[0]) => {
                (ints.iter().map(shifted).collect::<Option<_>>()?, shifted(&zeros[0])?)
            }
            None => return None,
        };
        Some(SignedWeights { shape: constant.shape.clone(), bytes, zero, sums })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    #[test]
    fn row_scales_are_not_column_scales() {
        let found = |scales: &str| {
            let text = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]> g (float[2, 1] x) => (float[2, 2] y)
                 <int8[1, 2] w = {{1, 1}}, {scales} = {{1.0, 10.0}}>
                 {{
                     q, s, z = DynamicQuantizeLinear(x)
                     sums = MatMulInteger(q, w, z)
                     real = Cast<to = 1>(sums)
                     scale = Mul(s, scales)
                     y = Mul(real, scale)
                 }}"
            );
            let planned = crate::Compiler::new(&Options::default()).plan(text.into());
            let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            let x = Tensor { shape: vec![2, 1], ..Tensor::from_floats(&[255.0, 51.0]) };
            let made = interpreter::run(&plan, &[Value::Tensor(x)]).expect("the input fits");
            made[0].tensor().and_then(Tensor::floats).expect("floats")
        };
        assert_eq!(found("float[1, 2] scales"), [255.0, 2550.0, 51.0, 510.0]);
        assert_eq!(found("float[2, 1] scales"), [255.0, 255.0, 510.0, 510.0]);
    }

    #[test]
    fn weights_keep_a_zero_point_whose_differences_need_nine_bits() {
        let run = |zero: &str, y: &str| {
            let text = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]> g (float[2, 2] x) => (float[2, 3] y)
                 <uint8[2, 3] w = {{255, 0, 130, 3, 250, 7}}, uint8[1] z = {{{zero}}},
                  float[3] bias = {{1.0, 2.0, 3.0}}>
                 {{
                     q, s, x_zero = DynamicQuantizeLinear(x)
                     sums = MatMulInteger(q, w, x_zero, z)
                     real = Cast<to = 1>(sums)
                     w_scale = Constant<value = float[1] {{2.0}}>()
                     scale = Mul(s, w_scale)
                     product = Mul(real, scale)
                     y = {y}
                 }}"
            );
            let planned = crate::Compiler::new(&Options::default()).plan(text.into());
            let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            assert!(plan.to_string().contains("dynamic_matmul"), "{plan}");
            let x = Tensor { shape: vec![2, 2], ..Tensor::from_floats(&[0.0, 255.0, 51.0, 102.0]) };
            let made = interpreter::run(&plan, &[Value::Tensor(x)]).expect("the input fits");
            made[0].tensor().and_then(Tensor::floats).expect("floats")
        };
        for (zero, at) in [("100", 100.0), ("0", 0.0), ("255", 255.0), ("128", 128.0)] {
            let [a, b, c] = [[255.0, 3.0], [0.0, 250.0], [130.0, 7.0]].map(|w: [f64; 2]| {
                let [first, second] = w.map(|w| 2.0 * (w - at));
                [255.0 * second, 51.0 * first + 102.0 * second]
            });
            let wanted = [a[0], b[0], c[0], a[1], b[1], c[1]];
            assert_eq!(run(zero, "Identity(product)"), wanted, "{zero}");
            let wanted = [0, 1, 2, 3, 4, 5].map(|i| wanted[i] + (i % 3 + 1) as f64);
            assert_eq!(run(zero, "Add(product, bias)"), wanted, "{zero} with a bias");
        }
    }
}
