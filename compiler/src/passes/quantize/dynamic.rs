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
        let fits = ty.dtype == DType::F32 && producer.inputs.len() == 6;
        (is_row && fits).then(|| [producer.inputs.as_slice(), &[Some(bias)]].concat())
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
    let CenteredWeights { shape, bytes, sums } = CenteredWeights::of(site, &product)?;
    let scales = match w_scale.as_slice() {
        &[scale] => vec![scale; shape[1]],
        _ => (w_scale.len() == shape[1]).then_some(w_scale)?,
    };
    let named = |part: &str| format!("{}_{part}", node.name);
    let g = &mut *site.graph;
    let inputs = vec![
        Some(x),
        Some(x_scale),
        Some(x_zero),
        Some(g.constant(&named("weights"), signed_bytes(shape, &bytes))),
        Some(g.constant(&named("scales"), Tensor::from_floats(&scales))),
        Some(g.constant(&named("sums"), Tensor::from_i32s(&sums))),
    ];
    site.replace(node, Rc::new(DynamicMatMul), inputs)
}

/// Constant weights with their zero point subtracted.
struct CenteredWeights {
    shape: Vec<usize>,
    bytes: Vec<i8>,
    /// The sum of each column.
    sums: Vec<i64>,
}

impl CenteredWeights {
    fn of(site: &Site<'_>, product: &Node) -> Option<CenteredWeights> {
        let constant = site.graph[product.input(1)?].constant.as_ref()?;
        let &[rows, columns] = constant.shape.as_slice() else { return None };
        let zeros = match product.input(3) {
            Some(zero) => site.graph[zero].constant.as_ref()?.ints()?,
            None => vec![0],
        };
        if zeros.len() != 1 && zeros.len() != columns || rows == 0 {
            return None;
        }
        let (mut bytes, mut sums) = (Vec::with_capacity(constant.len()), vec![0; columns]);
        for (i, x) in constant.ints()?.into_iter().enumerate() {
            let column = i % columns;
            let x = i8::try_from(x - zeros[column.min(zeros.len() - 1)]).ok()?;
            sums[column] += i64::from(x);
            bytes.push(x);
        }
        Some(CenteredWeights { shape: constant.shape.clone(), bytes, sums })
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
}
