//! Fuses `MatMulInteger` and `ConvInteger` of a dynamically quantized operand with the nodes that
//! scale the result: the form that ONNX Runtime's dynamic quantization writes.

use super::{
    super::recognize::either,
    Replaced,
    operand::{numbers, signed_bytes},
    signed_bytes::SignedBytes,
};
use crate::{
    dtype::DType,
    ir::{Node, Op, Site, ValueId},
    ops::{
        binary::{ADD, MUL},
        cast::Cast,
        conv::integer::ConvInteger,
        matmul::integer::MatMulInteger,
        quantized::{conv::MAX_AXES, dynamic_conv::DynamicConv, matmul::DynamicMatMul},
    },
    passes::fuse::is,
    tensor::Tensor,
};
use std::rc::Rc;

/// Replaces `Cast(product(x, w)) · (x_scale · w_scale)`, and a bias added to it.
pub fn replace_dynamic_product(site: &mut Site<'_>, node: &Node) -> Replaced {
    replace_scaled_product(site, node).or_else(|| fuse_bias(site, node))
}

/// Returns the axis of the channels in the weights, and in a result of `rank` axes; `None` if the
/// operator is no product.
fn channel_axes(op: &dyn Op, rank: usize) -> Option<[usize; 2]> {
    if op.is::<MatMulInteger>() || op.is::<DynamicMatMul>() {
        return Some([1, rank.checked_sub(1)?]);
    }
    (op.is::<ConvInteger>() || op.is::<DynamicConv>()).then_some([0, 1])
}

/// Returns whether a value that is broadcast to `rank` axes has all its elements along `axis`.
fn runs_along(site: &Site<'_>, value: ValueId, axis: usize, rank: usize) -> bool {
    let Some(ty) = site.graph[value].ty.as_tensor() else { return false };
    let mut axes = ty.shape.iter().zip(rank.saturating_sub(ty.rank())..);
    ty.rank() <= rank && axes.all(|(size, at)| at == axis || size.known() == Some(1))
}

/// Fuses the addition of a bias into a product that nothing else uses.
fn fuse_bias(site: &mut Site<'_>, node: &Node) -> Replaced {
    if !is(node, &ADD) {
        return None;
    }
    let (producer, bias) = either([node.input(0)?, node.input(1)?], |product, bias| {
        let producer = site.producer(product)?;
        let is_dynamic = producer.op.is::<DynamicMatMul>() || producer.op.is::<DynamicConv>();
        let shape = &site.graph[product].ty.as_tensor().filter(|_| is_dynamic)?.shape;
        let [_, axis] = channel_axes(&*producer.op, shape.len())?;
        let ty = site.graph[bias].ty.as_tensor()?;
        let is_whole = ty.len().known()? == shape[axis].known()? && ty.dtype == DType::F32;
        let fits = is_whole && runs_along(site, bias, axis, shape.len());
        (fits && producer.input(6).is_none()).then(|| (producer.clone(), bias))
    })?;
    let is_only_use = (0..2).filter(|&i| node.input(i) != Some(bias)).all(|i| site.uses(i) == 1);
    let mut inputs = producer.inputs;
    inputs.resize(inputs.len().max(7), None);
    inputs[6] = Some(bias);
    if is_only_use { site.replace(node, producer.op, inputs) } else { None }
}

fn replace_scaled_product(site: &mut Site<'_>, node: &Node) -> Replaced {
    if !is(node, &MUL) {
        return None;
    }
    let (product, added, scales) = either([node.input(0)?, node.input(1)?], |sums, scales| {
        let cast = site.producer(sums)?;
        cast.op.downcast::<Cast>().filter(|cast| cast.to == DType::F32)?;
        let rank = site.graph[sums].ty.as_tensor()?.rank();
        let (product, added) = integer_product(site, cast.input(0)?, rank)?;
        let [_, axis] = channel_axes(&*product.op, rank)?;
        Some((product.clone(), added, Scales::of(site, scales, axis, rank)?))
    })?;
    let op = dynamic(&*product.op)?;
    let (x, x_zero) = (product.input(0)?, product.input(2)?);
    let one = site.graph[x_zero].ty.as_tensor()?.len().known()? == 1;
    let ty = site.graph[x].ty.as_tensor().filter(|ty| ty.dtype == DType::U8 && ty.rank() > 1)?;
    if !one || op.is::<DynamicConv>() && ty.rank() > 2 + MAX_AXES {
        return None;
    }
    let [axis, _] = channel_axes(&*product.op, ty.rank())?;
    let (shape, SignedBytes { bytes, zeros, sums, .. }) = weights(site, &product, axis)?;
    let Scales { x: x_scale, w } = scales;
    let scales = by_channel(w, shape[axis])?;
    let bias = match added {
        // Only constant scales tell the bias.
        Some(_) if x_scale.is_some() => return None,
        Some(added) => {
            let added = by_channel(added, shape[axis])?.into_iter();
            Some(scales.iter().zip(added).map(|(scale, n)| scale * n as f32).collect::<Vec<_>>())
        }
        None => None,
    };
    let named = |part: &str| format!("{}_{part}", node.name);
    let g = &mut *site.graph;
    let x_scale =
        x_scale.unwrap_or_else(|| g.constant(&named("scale"), Tensor::from_floats(&[1.0])));
    let mut inputs = vec![
        Some(x),
        Some(x_scale),
        Some(x_zero),
        Some(g.constant(&named("weights"), signed_bytes(shape, &bytes))),
        Some(g.constant(&named("scales"), Tensor::from_floats(&scales))),
        Some(g.constant(&named("sums"), Tensor::from_i32s(&sums))),
    ];
    inputs.push(bias.map(|bias| g.constant(&named("bias"), Tensor::from_floats(&bias))));
    if zeros.iter().any(|&zero| zero != 0) {
        inputs.push(Some(g.constant(&named("zero_points"), Tensor::from_i32s(&zeros))));
    }
    site.replace(node, op, inputs)
}

/// The scales of a product of integers.
struct Scales {
    /// The scale of the left operand; 1 if the scales of the weights contain it.
    x: Option<ValueId>,
    /// The scales of the weights, for each channel or for all.
    w: Vec<f32>,
}

impl Scales {
    /// Returns the scales that `scales` multiplies, or contains as a constant. `axis` is that of
    /// the channels in the result, of `rank` axes.
    fn of(site: &Site<'_>, scales: ValueId, axis: usize, rank: usize) -> Option<Scales> {
        let weights = |w: ValueId| {
            let runs = runs_along(site, w, axis, rank);
            if runs { numbers(site.graph, w) } else { None }
        };
        if let Some(w) = weights(scales) {
            return Some(Scales { x: None, w });
        }
        let scales = site.producer(scales).filter(|scales| is(scales, &MUL))?;
        either([scales.input(0)?, scales.input(1)?], |x, w| {
            let one = site.graph[x].ty.as_tensor()?.len().known()? == 1;
            Some(Scales { x: one.then_some(x), w: weights(w)? }).filter(|_| one)
        })
    }
}

/// Returns a number for each channel, of one for each or for all.
fn by_channel<T: Copy>(numbers: Vec<T>, channels: usize) -> Option<Vec<T>> {
    match numbers.as_slice() {
        &[number] => Some(vec![number; channels]),
        _ => (numbers.len() == channels).then_some(numbers),
    }
}

/// Returns the product of integers that computes `value`, of `rank` axes, and the constants by
/// channel that are added to it.
fn integer_product<'s>(
    site: &'s Site<'_>,
    value: ValueId,
    rank: usize,
) -> Option<(&'s Node, Option<Vec<i64>>)> {
    let product = |value: ValueId| {
        let node = site.producer(value)?;
        (node.op.is::<MatMulInteger>() || node.op.is::<ConvInteger>()).then_some(node)
    };
    if let Some(product) = product(value) {
        return Some((product, None));
    }
    let sum = site.producer(value).filter(|node| is(node, &ADD))?;
    either([sum.input(0)?, sum.input(1)?], |sums, added| {
        let product = product(sums)?;
        let [_, axis] = channel_axes(&*product.op, rank)?;
        let added = Some(added).filter(|&added| runs_along(site, added, axis, rank))?;
        let added = site.graph[added].constant.as_ref()?.ints()?;
        Some((product, Some(added)))
    })
}

/// Returns the operator that scales the results of an integer product.
fn dynamic(op: &dyn Op) -> Option<Rc<dyn Op>> {
    match op.downcast::<ConvInteger>() {
        Some(conv) => Some(Rc::new(DynamicConv { window: conv.window.clone(), group: conv.group })),
        None => Some(Rc::new(DynamicMatMul)),
    }
}

/// Returns the shape and the bytes of the constant weights of a product, whose channels lie along
/// `axis`.
fn weights(site: &Site<'_>, product: &Node, axis: usize) -> Option<(Vec<usize>, SignedBytes)> {
    let constant = site.graph[product.input(1)?].constant.as_ref()?;
    let shape = constant.shape.clone();
    let is_matrix = shape.len() == 2 || product.op.is::<ConvInteger>();
    let &channels = shape.get(axis)?;
    let zeros = match product.input(3) {
        Some(zero) => site.graph[zero].constant.as_ref()?.ints()?,
        None => vec![0],
    };
    let zeros = by_channel(zeros, channels)?;
    if !is_matrix || constant.is_empty() {
        return None;
    }
    Some((shape, SignedBytes::of(constant, axis, &zeros)?))
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
    fn constant_scales_and_integers_added_to_the_sums_are_one_kernel() {
        let text =
            "<ir_version: 10, opset_import: [\"\" : 21]> g (uint8[2, 2] q) => (float[2, 3] y)
             <int8[2, 3] w = {1, -2, 3, 4, 5, -6}, uint8 z = {3}, int32[3] c = {10, 0, -7},
              float[3] scales = {0.5, 2.0, 4.0}>
             {
                 product = MatMulInteger(q, w, z)
                 sums = Add(product, c)
                 real = Cast<to = 1>(sums)
                 y = Mul(real, scales)
             }";
        let planned = crate::Compiler::new(&Options::default()).plan(text.into());
        let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let text = plan.to_string();
        assert!(text.contains("dynamic_matmul") && !text.contains("binary"), "{text}");
        let x = Tensor { shape: vec![2, 2], ..Tensor::from_bytes(&[4, 13, 0, 3]) };
        let made = interpreter::run(&plan, &[Value::Tensor(x)]).expect("the input fits");
        let found = made[0].tensor().and_then(Tensor::floats).expect("floats");
        assert_eq!(found, [25.5, 96.0, -256.0, 3.5, 12.0, -64.0]);
    }

    #[test]
    fn filters_keep_zero_points_of_their_own() {
        let run = |zeros: &str, bias: &str| {
            let text = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]>
                 g (float[1, 1, 2, 2] x) => (float[1, 2, 2, 2] y)
                 <uint8[2, 1, 1, 2] w = {{255, 0, 130, 7}}, uint8[2] z = {{{zeros}}},
                  float[{bias}] bias = {{1.0, 2.0}}>
                 {{
                     q, s, x_zero = DynamicQuantizeLinear(x)
                     sums = ConvInteger<pads = [0, 0, 0, 1]>(q, w, x_zero, z)
                     real = Cast<to = 1>(sums)
                     w_scale = Constant<value = float {{2.0}}>()
                     scale = Mul(s, w_scale)
                     product = Mul(real, scale)
                     y = Add(product, bias)
                 }}"
            );
            let planned = crate::Compiler::new(&Options::default()).plan(text.into());
            let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            let x = Tensor::from_floats(&[0.0, 255.0, 51.0, 102.0]);
            let x = Tensor { shape: vec![1, 1, 2, 2], ..x };
            let made = interpreter::run(&plan, &[Value::Tensor(x)]).expect("the input fits");
            (made[0].tensor().and_then(Tensor::floats).expect("floats"), plan.to_string())
        };
        let lines = [[0.0, 255.0], [255.0, 0.0], [51.0, 102.0], [102.0, 0.0]];
        for zeros in [[100.0, 3.0], [0.0, 255.0], [128.0, 128.0]] {
            let of = |[a, b]: [f64; 2], zero: f64, bias: f64| {
                lines.map(|[x, y]| 2.0 * (x * (a - zero) + y * (b - zero)) + bias)
            };
            let wanted =
                [of([255.0, 0.0], zeros[0], 1.0), of([130.0, 7.0], zeros[1], 2.0)].concat();
            let (found, plan) = run(&zeros.map(|zero| zero.to_string()).join(", "), "1, 2, 1, 1");
            assert_eq!(found, wanted);
            assert!(plan.contains("dynamic_conv") && !plan.contains("binary"), "{plan}");
        }
        // A bias along the columns of the image is no bias of filters.
        let (found, plan) = run("128, 128", "1, 1, 1, 2");
        assert_eq!(found[0], 2.0 * 255.0 * -128.0 + 1.0);
        assert!(plan.contains("binary"), "{plan}");
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
