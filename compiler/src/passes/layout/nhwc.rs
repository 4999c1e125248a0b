//! Stores images of bytes in NHWC where convolutions gain by it.
//!
//! A quantized convolution becomes one with a result in NHWC, followed by `ToNchw`. The next node
//! takes the input of that `ToNchw`, if it can, and is followed by a `ToNchw` itself.

use crate::{
    dtype::{DType, INT8S},
    ir::{Node, Op, Rule, Site, ValueId},
    ops::{
        concat::Concat,
        nhwc::{
            self, ToNchw, ToNhwc,
            conv::{Added, NhwcConv},
            pool::NhwcPool,
            to_unsigned, unsigned_offset,
        },
        quantized::{
            binary::{Form, QuantizedBinary},
            conv::{MAX_AXES, QuantizedConv},
            pool::QuantizedAveragePool,
            requantize::Requantization,
            table::QuantizedTable,
        },
    },
    passes::fuse::{Replaced, tensor},
    tensor::Tensor,
};
use onnxc_runtime::kernels::quantized::{Blend, Requantize};
use std::rc::Rc;

/// The rules that spread NHWC, in order.
pub const RULES: &[Rule<'_>] = &[&conv, &binary, &table, &pool, &concat];

/// The rules that undo a conversion which gains nothing.
pub const RESTORE: &[Rule<'_>] = &[&restore];

/// The NHWC value that `ToNchw` converts to `value`.
fn nhwc_source(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let first = site.producer(value).filter(|node| node.op.is::<ToNchw>())?;
    first.input(0)
}

/// `value` in NHWC. Adds a `ToNhwc` if no such value exists yet.
fn to_nhwc(site: &mut Site<'_>, node: &Node, value: ValueId) -> Option<ValueId> {
    match nhwc_source(site, value) {
        Some(value) => Some(value),
        None => site.before(node, Rc::new(ToNhwc), vec![Some(value)]),
    }
}

/// The element type and the number of channels of a value of bytes.
fn bytes(site: &Site<'_>, value: ValueId) -> Option<(DType, i64)> {
    let ty = tensor(site.graph, value).filter(|ty| INT8S.contains(&ty.dtype))?;
    Some((ty.dtype, ty.shape.get(1)?.known()?))
}

/// Replaces `node` by `op` on inputs in NHWC, followed by `ToNchw`. The result has this element
/// type and this number of channels.
fn replace(
    site: &mut Site<'_>,
    node: &Node,
    op: Rc<dyn Op>,
    inputs: Vec<Option<ValueId>>,
    (dtype, channels): (DType, i64),
) -> Replaced {
    let result = site.before(node, op, inputs)?;
    site.replace(node, Rc::new(ToNchw { channels, dtype }), vec![Some(result)])
}

/// Converts a convolution of one group, or a depthwise convolution.
fn conv(site: &mut Site<'_>, node: &Node) -> Replaced {
    let QuantizedConv { window, group, to } = node.op.downcast()?;
    let (x, w) = (node.input(0)?, node.input(1)?);
    let (dtype, channels) = bytes(site, x)?;
    let weights = &tensor(site.graph, w)?.shape;
    let (filters, depth) = (weights[0].known()?, weights[1].known()?);
    // The depthwise kernel reads four channels at once.
    let is_depthwise =
        depth == 1 && filters == *group && filters > 3 && nhwc_source(site, x).is_some();
    let fits = (*group == 1 && channels > 0 || is_depthwise) && weights.len() <= 2 + MAX_AXES;
    // The kernels of channels last take weights without a zero point.
    if !fits || filters == 0 || node.input(5).is_some() {
        return None;
    }
    let to_last = to_unsigned(*to, dtype);
    let conv = NhwcConv { window: window.clone(), group: *group, to: to_last, added: None };
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(to_nhwc(site, node, x)?);
    replace(site, node, Rc::new(conv), inputs, (to.dtype, filters))
}

/// Converts the sum or the product of two images, of an image and a number, or of an image and one
/// number for each channel.
fn binary(site: &mut Site<'_>, node: &Node) -> Replaced {
    let QuantizedBinary { form, of, to } = node.op.downcast()?;
    let given = [node.input(0)?, node.input(1)?];
    if given.iter().all(|&id| nhwc_source(site, id).is_none()) {
        return None;
    }
    let channels = bytes(site, given[0])?.1;
    let [a, b] = given.map(|id| tensor(site.graph, id));
    let (a, b) = (a?, b?);
    let (alike, one) = (a.shape == b.shape, b.len().known() == Some(1));
    if !one && (a.rank() < 3 || a.shape[1] != b.shape[1]) {
        return None;
    }
    let (mut of, mut inputs) = (*of, Vec::new());
    for (i, id) in given.into_iter().enumerate() {
        if i > 0 && one && !alike {
            inputs.push(Some(id));
            continue;
        }
        of.zeros[i] += unsigned_offset(bytes(site, id)?.0);
        inputs.push(Some(to_nhwc(site, node, id)?));
    }
    let made = to_unsigned(*to, DType::U8);
    if let (Form::Add, true, &[Some(a), Some(b)]) = (form, alike, &inputs[..])
        && let Some((op, inputs)) = fuse_into_conv(site, [a, b], of, made)
    {
        return replace(site, node, Rc::new(op), inputs, (to.dtype, channels));
    }
    let op = QuantizedBinary { form: *form, of, to: made };
    replace(site, node, Rc::new(op), inputs, (to.dtype, channels))
}

/// Fuses a sum into the convolution that computes one of its operands, if nothing else uses that
/// operand. Of two such convolutions, the later one.
fn fuse_into_conv(
    site: &Site<'_>,
    operands: [ValueId; 2],
    of: Blend,
    to: Requantization,
) -> Option<(NhwcConv, Vec<Option<ValueId>>)> {
    let convolution = |i: usize| {
        let sum = site.producer(operands[i])?;
        let conv = sum.op.downcast::<NhwcConv>()?;
        (site.uses(i) == 1 && conv.group == 1 && conv.added.is_none()).then_some((conv, sum))
    };
    let producer = |i: usize| site.graph[operands[i]].producer;
    let order = if producer(0) > producer(1) { [0, 1] } else { [1, 0] };
    let (i, (conv, sum)) = order.into_iter().find_map(|i| Some((i, convolution(i)?)))?;
    let [a, b] = [i, 1 - i];
    let of =
        Blend { zeros: [of.zeros[a], of.zeros[b]], scales: [of.scales[a], of.scales[b]], ..of };
    let mut inputs = sum.inputs.clone();
    inputs.resize(5, None);
    inputs.push(Some(operands[b]));
    let added = Some(Added { of, to: Requantize { x_zero: 0, ..to.to } });
    let window = conv.window.clone();
    Some((NhwcConv { window, group: 1, to: conv.to, added }, inputs))
}

/// Converts a function of each byte.
fn table(site: &mut Site<'_>, node: &Node) -> Replaced {
    node.op.downcast::<QuantizedTable>()?;
    let (x, (_, channels)) = (nhwc_source(site, node.input(0)?)?, bytes(site, node.input(0)?)?);
    let constant = site.graph[node.input(1)?].constant.as_ref()?;
    let dtype = constant.dtype;
    let offset = i64::from(unsigned_offset(dtype));
    let entries = constant.ints()?.into_iter().map(|y| (y + offset) as u8);
    let entries: Vec<u8> = entries.collect();
    let table = Tensor::from_raw(DType::U8, vec![entries.len()], entries.into());
    let table = site.graph.constant(&format!("{}_table", node.name), table);
    replace(site, node, Rc::new(QuantizedTable), vec![Some(x), Some(table)], (dtype, channels))
}

/// Converts pools.
fn pool(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (x, (dtype, channels)) = (nhwc_source(site, node.input(0)?)?, bytes(site, node.input(0)?)?);
    let pool = NhwcPool::from_op(&*node.op, dtype)?;
    if node.output(1).is_some() {
        return None;
    }
    let mean = node.op.downcast::<QuantizedAveragePool>();
    let dtype = mean.map_or(dtype, |mean| mean.to.dtype);
    replace(site, node, Rc::new(pool), vec![Some(x)], (dtype, channels))
}

/// Converts a concatenation of channels. All operands but the last must have whole quads of
/// channels.
fn concat(site: &mut Site<'_>, node: &Node) -> Replaced {
    let axis = node.op.downcast::<Concat>()?.axis;
    let rank = i64::try_from(tensor(site.graph, node.input(0)?)?.rank()).ok()?;
    if axis.checked_rem_euclid(rank)? != 1 {
        return None;
    }
    let (mut inputs, mut all, mut dtype) = (Vec::new(), 0, DType::U8);
    for (i, id) in node.inputs.iter().enumerate() {
        let (of, channels) = bytes(site, (*id)?)?;
        let is_last = i + 1 == node.inputs.len();
        if !nhwc::can_concat(channels, is_last) {
            return None;
        }
        inputs.push(Some(nhwc_source(site, (*id)?)?));
        (all, dtype) = (all + channels, of);
    }
    replace(site, node, Rc::new(Concat { axis: rank - 1 }), inputs, (dtype, all))
}

/// Restores a convolution whose neighbors are in NCHW.
fn restore(site: &mut Site<'_>, node: &Node) -> Replaced {
    let ToNchw { dtype, .. } = *node.op.downcast()?;
    let sum = site.producer(node.input(0)?)?;
    let NhwcConv { window, group, to, added: None } = sum.op.downcast()? else {
        return None;
    };
    let x = site.producer(sum.input(0)?).filter(|node| node.op.is::<ToNhwc>())?.input(0)?;
    if site.uses(0) > 1 {
        return None;
    }
    let (from, y) = (unsigned_offset(tensor(site.graph, x)?.dtype), unsigned_offset(dtype));
    let mut to = *to;
    to.dtype = dtype;
    to.to.x_zero -= from;
    to.to.y_zero -= y;
    to.to.low -= y;
    to.to.high -= y;
    let op = QuantizedConv { window: window.clone(), group: *group, to };
    let mut inputs = sum.inputs.clone();
    inputs[0] = Some(x);
    site.replace(node, Rc::new(op), inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dim::Dim,
        ir::Graph,
        ops::window::{AutoPad, Window},
        passes::layout::spread,
        ty::Type,
    };

    const TO: Requantization = Requantization {
        to: Requantize { x_zero: 3, y_zero: -2, low: -128, high: 99 },
        dtype: DType::I8,
    };

    fn conv(graph: &mut Graph, x: ValueId, [filters, depth]: [usize; 2], group: i64) -> ValueId {
        let window = Window {
            auto_pad: AutoPad::SameUpper,
            kernel_shape: Vec::new(),
            strides: Vec::new(),
            pads: Vec::new(),
            dilations: Vec::new(),
        };
        let weights = vec![1; filters * depth * 9];
        let weights = Tensor::from_raw(DType::I8, vec![filters, depth, 3, 3], weights.into());
        let inputs = [
            x,
            graph.constant("w", weights),
            graph.constant("starts", Tensor::from_i32s(&vec![1; filters])),
            graph.constant("factors", Tensor::from_floats(&vec![1.0; filters])),
        ];
        let op = QuantizedConv { window, group, to: TO };
        graph
            .add(graph.body, "conv", op, &inputs)
            .expect("the inputs have the sizes of the operator")
    }

    /// The graph of `build` with one input of this many channels, after the pass.
    fn after_layout(channels: usize, build: impl Fn(&mut Graph, ValueId) -> ValueId) -> Graph {
        let mut graph = Graph::new(Rc::default());
        let sizes = [Dim::symbol("n"), channels.into(), 9.into(), 9.into()];
        let x = graph.input(graph.body, "x", Type::tensor(DType::I8, sizes));
        let y = build(&mut graph, x);
        graph.set_outputs(graph.body, vec![y]);
        spread(graph, RULES, RESTORE).expect("the rules keep the graph valid")
    }

    fn names(graph: &Graph) -> String {
        let nodes = graph[graph.body].nodes.iter();
        nodes.map(|&id| graph[id].op.name()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn channels_move_to_the_last_axis_and_back_once() {
        let graph = after_layout(5, |graph, x| {
            let a = conv(graph, x, [24, 5], 1);
            let b = conv(graph, a, [24, 1], 24);
            let of =
                Blend { zeros: [1, 2], scales: [0.5; 2], scale: 0.25, one: false, factors: None };
            let op = QuantizedBinary { form: Form::Add, of, to: TO };
            graph.add(graph.body, "sum", op, &[a, b]).expect("the operands broadcast")
        });
        let found = "ToNhwc NhwcConv NhwcConv QuantizedAdd ToNchw";
        assert_eq!(names(&graph), found);
        let sum = graph.nodes().find_map(|(_, node)| node.op.downcast::<QuantizedBinary>());
        let sum = sum.expect("the names list the operator");
        assert_eq!(sum.of.zeros, [129, 130]);
        let moved = Requantize { x_zero: 3, y_zero: 126, low: 0, high: 227 };
        assert_eq!(sum.to, Requantization { to: moved, dtype: DType::U8 });
        let output = graph[graph.body].outputs[0];
        assert_eq!(graph[output].ty.to_string(), "int8[n, 24, 9, 9]");
    }

    #[test]
    fn the_later_convolution_fuses_an_addition() {
        let of =
            Blend { zeros: [1, 2], scales: [0.5, 0.125], scale: 0.25, one: false, factors: None };
        let of_both = |swapped: bool| {
            after_layout(8, move |graph, x| {
                let mut both = [conv(graph, x, [8, 8], 1), conv(graph, x, [8, 8], 1)];
                if swapped {
                    both.swap(0, 1);
                }
                let op = QuantizedBinary { form: Form::Add, of, to: TO };
                graph.add(graph.body, "sum", op, &both).expect("the operands broadcast")
            })
        };
        for (swapped, zeros, scales) in
            [(false, [130, 129], [0.125, 0.5]), (true, [129, 130], [0.5, 0.125])]
        {
            let graph = of_both(swapped);
            let found = "ToNhwc NhwcConv NhwcConv ToNchw";
            assert_eq!(names(&graph), found);
            let mut convs =
                graph.nodes().filter_map(|(_, node)| Some((node.op.downcast::<NhwcConv>()?, node)));
            let (first, last) = (
                convs.next().expect("the graph has two convolutions"),
                convs.next().expect("the graph has two convolutions"),
            );
            assert_eq!(first.0.added, None);
            let to = Requantize { x_zero: 0, y_zero: 126, low: 0, high: 227 };
            assert_eq!(last.0.added, Some(Added { of: Blend { zeros, scales, ..of }, to }));
            assert_eq!(last.1.input(5), first.1.outputs[0]);
        }
    }

    #[test]
    fn a_convolution_alone_stays() {
        let graph = after_layout(8, |graph, x| conv(graph, x, [16, 8], 1));
        assert_eq!(names(&graph), "QuantizedConv");
        let op = graph.nodes().find_map(|(_, node)| node.op.downcast::<QuantizedConv>());
        assert_eq!(op.expect("the names list the operator").to, TO);
        assert_eq!(names(&after_layout(8, |graph, x| conv(graph, x, [8, 1], 8))), "QuantizedConv");
    }
}
