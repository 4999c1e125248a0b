//! The gradients of control flow: the same control flow, backward.

use super::{If, loop_op::Loop, scan::Scan};
use crate::{
    diag::Result,
    ir::{Expr, Gradient, Graph, Node, RegionId, Tape, ValueId, is_differentiable},
    ops::random::Dropout,
    tensor::Tensor,
    ty::Type,
};
use std::rc::Rc;

/// Returns whether a value can have a gradient.
fn is_float(value: Expr<'_>) -> bool {
    value.tape.look(|graph| is_differentiable(&graph[value.id].ty))
}

fn ty(value: Expr<'_>) -> Type {
    value.tape.look(|graph| graph[value.id].ty.clone())
}

/// Sets the gradients of the captures of an `If`: another `If` recomputes each branch and evaluates
/// it backward. Both branches return the gradients of all captures.
pub fn differentiate_if(g: &mut Gradient<'_>) -> Result {
    let (tape, captures) = (g.tape(), g.captures());
    let mut regions = Vec::new();
    for (i, name) in ["then", "else"].into_iter().enumerate() {
        let from = g.node().regions[i];
        regions.push(tape.region(name, &[], |region, _| {
            let results = tape.inline(from, &[]);
            let seeds = results.iter().enumerate();
            let seeds: Vec<_> = seeds.filter_map(|(i, &y)| Some((y, g.dy(i)?))).collect();
            let gradients = g.within_region(region, &seeds, &captures)?;
            let gradients = captures.iter().zip(gradients);
            Ok(gradients.map(|(&x, dx)| or_zeros(tape.expr(x), dx)).collect())
        })?);
    }
    let gradients =
        tape.node_around(Rc::new(If::default()), &[g.optional(0)], captures.len(), regions);
    for (&x, dx) in captures.iter().zip(gradients) {
        g.set_capture(x, dx);
    }
    Ok(())
}

/// The gradient `dx` of `x`, or zeros if there is none, since a region must define its results.
fn or_zeros<'t>(x: Expr<'t>, dx: Option<Expr<'t>>) -> Expr<'t> {
    dx.map_or_else(|| x.zeros_like(), |dx| dx.fit(x))
}

/// Returns whether a region draws random numbers.
fn is_random(graph: &Graph, region: RegionId) -> bool {
    let draws = |node: &Node| {
        let is_off = node.op.is::<Dropout>() && is_off(graph, node);
        node.op.is_random() && !is_off || node.regions.iter().any(|&body| is_random(graph, body))
    };
    graph[region].nodes.iter().any(|&id| draws(&graph[id]))
}

/// Returns whether a `Dropout` is known not to train, which makes it the identity.
fn is_off(graph: &Graph, dropout: &Node) -> bool {
    let Some(mode) = dropout.input(2) else { return true };
    let mode = graph[mode].constant.as_ref().and_then(Tensor::floats);
    mode.is_some_and(|mode| mode == [0.0])
}

/// The values of one input of the body in all iterations, stacked along an axis.
#[derive(Clone, Copy)]
struct StackedInput<'t> {
    all: Expr<'t>,
    axis: i64,
    reversed: bool,
}

/// The iterations of a loop, to be differentiated.
struct Iterations<'t> {
    /// The inputs of the body.
    inputs: Vec<StackedInput<'t>>,
    /// The number of loop-carried values.
    carried: usize,
    /// The number of inputs and of results of the body before the loop-carried values.
    head: [usize; 2],
    /// The gradients of the loop-carried values after the last iteration.
    d_last: Vec<Expr<'t>>,
    /// The gradients of the scan outputs, with the index of the body's result.
    d_stacked: Vec<(usize, StackedInput<'t>)>,
}

impl<'t> Iterations<'t> {
    /// Adds a `Scan` that evaluates the iterations backward, and sets the gradients of the
    /// captures. Returns the gradients of the node's inputs that correspond to the body's inputs:
    /// the initial values of loop-carried values, and the scan inputs.
    fn differentiate(self, g: &mut Gradient<'t>) -> Result<Vec<Option<Expr<'t>>>> {
        let (tape, captures, from) = (g.tape(), g.captures(), g.node().regions[0]);
        // Backward, the numbers would be drawn again, and in another order.
        if tape.look(|graph| is_random(graph, from)) {
            return Err(g.unsupported("for iterations that draw random numbers"));
        }
        let [head, results_head] = self.head;
        let is_carried = |i: &usize| (head..head + self.carried).contains(i);
        let floats: Vec<usize> =
            (head..head + self.carried).filter(|&i| is_float(self.d_last[i - head])).collect();
        let scan_inputs: Vec<usize> = (0..self.inputs.len())
            .filter(|i| !is_carried(i) && is_float(self.inputs[*i].all))
            .collect();
        let states: Vec<Expr<'t>> = floats
            .iter()
            .map(|&i| self.d_last[i - head])
            .chain(captures.iter().map(|&x| tape.expr(x).zeros_like()))
            .collect();
        let scanned: Vec<StackedInput<'t>> =
            self.inputs.iter().copied().chain(self.d_stacked.iter().map(|(_, dy)| *dy)).collect();
        let mut types: Vec<Type> = states.iter().map(|&state| ty(state)).collect();
        for input in &scanned {
            let mut slice_ty = input.all.ty();
            slice_ty.shape.remove(g.axis(input.axis, slice_ty.shape.len()));
            types.push(slice_ty.into());
        }
        let region = tape.region("backward", &types, |region, inputs| {
            let (states, inputs) = inputs.split_at(states.len());
            let (inputs, d_stacked) = inputs.split_at(self.inputs.len());
            let results = tape.inline(from, inputs);
            let carried_result = |&i: &usize| results[results_head + i - head];
            let mut seeds: Vec<_> =
                floats.iter().map(carried_result).zip(states.iter().copied()).collect();
            seeds.extend(
                self.d_stacked.iter().zip(d_stacked).map(|((i, _), &dy)| (results[*i], dy)),
            );
            let xs = floats.iter().chain(&scan_inputs).map(|&i| inputs[i].id);
            let xs: Vec<ValueId> = xs.chain(captures.iter().copied()).collect();
            let gradients = g.within_region(region, &seeds, &xs)?;
            let gradients = xs.iter().zip(gradients).map(|(&x, dx)| or_zeros(tape.expr(x), dx));
            let gradients: Vec<Expr<'t>> = gradients.collect();
            let (d_carried, rest) = gradients.split_at(floats.len());
            let (d_slices, d_captures) = rest.split_at(scan_inputs.len());
            let sums = states[floats.len()..].iter().zip(d_captures).map(|(&sum, &dx)| sum + dx);
            Ok(d_carried.iter().copied().chain(sums).chain(d_slices.iter().copied()).collect())
        })?;
        let scan = Scan {
            scanned: scanned.len(),
            axes: scanned.iter().map(|input| input.axis).collect(),
            reversed: scanned.iter().map(|input| !input.reversed).collect(),
            output_axes: scan_inputs.iter().map(|&i| self.inputs[i].axis).collect(),
            reversed_outputs: scan_inputs.iter().map(|&i| !self.inputs[i].reversed).collect(),
        };
        let inputs: Vec<_> =
            states.iter().copied().chain(scanned.iter().map(|input| input.all)).map(Some).collect();
        let count = states.len() + scan_inputs.len();
        let outputs = tape.node_around(Rc::new(scan), &inputs, count, vec![region]);
        let (d_initial, rest) = outputs.split_at(floats.len());
        let (d_captures, d_scanned) = rest.split_at(captures.len());
        for (&x, &dx) in captures.iter().zip(d_captures) {
            g.set_capture(x, dx);
        }
        let mut d_inputs = vec![None; self.inputs.len()];
        scan_inputs.iter().zip(d_scanned).for_each(|(&i, &dx)| d_inputs[i] = Some(dx));
        floats.iter().zip(d_initial).for_each(|(&i, &dx)| d_inputs[i] = Some(dx));
        Ok(d_inputs)
    }
}

/// Sets the gradients of a `Scan`: another `Scan` recomputes the iterations and stacks their
/// loop-carried values; then the iterations are evaluated backward.
pub fn differentiate_scan(g: &mut Gradient<'_>, scan: &Scan) -> Result {
    let tape = g.tape();
    let carried = g.inputs() - scan.scanned;
    let inputs: Vec<_> = (0..g.inputs()).map(|i| g.optional(i)).collect();
    let from = g.node().regions[0];
    let types = input_types(tape, from);
    let region = tape.region("forward", &types, |_, inputs| {
        let results = tape.inline(from, inputs);
        Ok(results[..carried].iter().chain(&inputs[..carried]).copied().collect())
    })?;
    let forward = Scan { output_axes: Vec::new(), reversed_outputs: Vec::new(), ..scan.clone() };
    let outputs = tape.node_around(Rc::new(forward), &inputs, 2 * carried, vec![region]);
    let stacked =
        outputs[carried..].iter().map(|&all| StackedInput { all, axis: 0, reversed: false });
    let flag = |flags: &[bool], i: usize| flags.get(i).copied().unwrap_or(false);
    let axis = |axes: &[i64], i: usize| axes.get(i).copied().unwrap_or(0);
    let scanned = (0..scan.scanned).map(|i| StackedInput {
        all: g.x(carried + i),
        axis: axis(&scan.axes, i),
        reversed: flag(&scan.reversed, i),
    });
    let inputs: Vec<StackedInput<'_>> = stacked.chain(scanned).collect();
    let d_last = (0..carried).map(|j| g.dy(j).unwrap_or_else(|| zeros_of(g.x(j)))).collect();
    let d_stacked = (carried..g.node().outputs.len()).filter_map(|i| {
        let (axis, reversed) =
            (axis(&scan.output_axes, i - carried), flag(&scan.reversed_outputs, i - carried));
        Some((i, StackedInput { all: g.dy(i)?, axis, reversed }))
    });
    let d_stacked = d_stacked.collect();
    let iterations = Iterations { inputs, carried, head: [0, 0], d_last, d_stacked };
    for (i, dx) in iterations.differentiate(g)?.into_iter().enumerate() {
        if let Some(dx) = dx {
            g.set(i, dx);
        }
    }
    Ok(())
}

/// Sets the gradients of a `Scan` of version 8, expressed as two nested `Scan`s: over the batch,
/// and along axis 1.
pub fn differentiate_batched_scan(
    g: &mut Gradient<'_>,
    scanned: usize,
    reversed: &[bool],
) -> Result {
    let (tape, outputs) = (g.tape(), g.node().outputs.len());
    let lens = g.optional(0);
    let inputs: Vec<Expr<'_>> = lens.into_iter().chain((1..g.inputs()).map(|i| g.x(i))).collect();
    let types: Vec<Type> = inputs.iter().map(|&input| slice_ty(input)).collect();
    let sample = Sample { from: g.node().regions[0], scanned, reversed, outputs };
    let region = tape.region("sample", &types, |_, inputs| match lens {
        Some(_) => sample.scan(&inputs[1..], Some(inputs[0])),
        None => sample.scan(inputs, None),
    })?;
    let scan = Scan { scanned: inputs.len(), ..Scan::default() };
    let inputs: Vec<_> = inputs.into_iter().map(Some).collect();
    let outputs = tape.node_around(Rc::new(scan), &inputs, outputs, vec![region]);
    g.through(&outputs)
}

/// The type of a slice along the first axis.
fn slice_ty(all: Expr<'_>) -> Type {
    let mut ty = all.ty();
    ty.shape.remove(0);
    ty.into()
}

/// The `Scan` of one sample of a batch.
struct Sample<'a> {
    /// The body.
    from: RegionId,
    scanned: usize,
    reversed: &'a [bool],
    outputs: usize,
}

impl Sample<'_> {
    /// Adds a `Scan` along the first axis, and returns its outputs. If `len` holds the number of
    /// iterations, later iterations leave the loop-carried values unchanged and output zeros.
    fn scan<'t>(&self, inputs: &[Expr<'t>], len: Option<Expr<'t>>) -> Result<Vec<Expr<'t>>> {
        let (states, scan_inputs) = inputs.split_at(inputs.len() - self.scanned);
        let tape = inputs[0].tape;
        let ordered = |(i, &x): (usize, &Expr<'t>)| match len {
            Some(len) if self.reversed.get(i) == Some(&true) => {
                let index = len - 1.0 - x.indices(0);
                x.gather(index.less(index.number(0.0)).select(x.indices(0), index), 0)
            }
            _ => x,
        };
        let mut scanned: Vec<Expr<'t>> = scan_inputs.iter().enumerate().map(ordered).collect();
        scanned.extend(len.map(|len| scan_inputs[0].indices(0).less(len)));
        let types = states.iter().map(|&state| ty(state));
        let types: Vec<Type> = types.chain(scanned.iter().map(|&x| slice_ty(x))).collect();
        let count = inputs.len();
        let region = tape.region("step", &types, |_, inputs| {
            let results = tape.inline(self.from, &inputs[..count]);
            let Some(&is_active) = inputs.get(count) else { return Ok(results) };
            let masked = |(i, result): (usize, Expr<'t>)| match inputs[..states.len()].get(i) {
                Some(&before) => is_active.select(result, before),
                None => result.only_where(is_active),
            };
            Ok(results.into_iter().enumerate().map(masked).collect())
        })?;
        let reversed = if len.is_some() { Vec::new() } else { self.reversed.to_vec() };
        let scan = Scan { scanned: scanned.len(), reversed, ..Scan::default() };
        let inputs: Vec<_> = states.iter().copied().chain(scanned).map(Some).collect();
        Ok(tape.node_around(Rc::new(scan), &inputs, self.outputs, vec![region]))
    }
}

/// The types of the inputs of a region.
fn input_types(tape: &Tape, region: RegionId) -> Vec<Type> {
    tape.look(|graph| graph[region].inputs.iter().map(|&id| graph[id].ty.clone()).collect())
}

/// Zeros if a value can have a gradient, else the value itself as a placeholder.
fn zeros_of(x: Expr<'_>) -> Expr<'_> {
    if is_float(x) { x.zeros_like() } else { x }
}

/// Sets the gradients of a `Loop`: another `Loop` recomputes the iterations and stacks the body's
/// inputs, whose number is the number of iterations; then the iterations are evaluated backward.
pub fn differentiate_loop(g: &mut Gradient<'_>) -> Result {
    const HEAD: usize = 2;
    let tape = g.tape();
    let count = g.inputs().max(HEAD);
    let carried = count - HEAD;
    let inputs: Vec<_> = (0..count).map(|i| g.optional(i)).collect();
    let from = g.node().regions[0];
    let types = input_types(tape, from);
    if (0..carried).any(|j| types[HEAD + j] != ty(g.x(HEAD + j))) {
        return Err(g.unsupported("for loop-carried values whose size changes between iterations"));
    }
    let region = tape.region("forward", &types, |_, inputs| {
        let results = tape.inline(from, inputs);
        Ok(results[..=carried].iter().chain(inputs).copied().collect())
    })?;
    let outputs = tape.node_around(Rc::new(Loop), &inputs, 2 * carried + HEAD, vec![region]);
    let stacked =
        outputs[carried..].iter().map(|&all| StackedInput { all, axis: 0, reversed: false });
    let inputs: Vec<StackedInput<'_>> = stacked.collect();
    let initial = |j: usize| g.x(HEAD + j);
    let d_last = (0..carried).map(|j| g.dy(j).unwrap_or_else(|| zeros_of(initial(j)))).collect();
    let d_stacked = (carried..g.node().outputs.len())
        .filter_map(|i| Some((i + 1, StackedInput { all: g.dy(i)?, axis: 0, reversed: false })));
    let d_stacked = d_stacked.collect();
    let iterations = Iterations { inputs, carried, head: [HEAD, 1], d_last, d_stacked };
    for (i, dx) in iterations.differentiate(g)?.into_iter().enumerate().skip(HEAD) {
        if let Some(dx) = dx {
            g.set(i, dx);
        }
    }
    Ok(())
}
