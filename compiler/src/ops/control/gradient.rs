//! The derivatives of control flow: the same flow, backwards.

use super::{If, loop_op::Loop, scan::Scan};
use crate::{
    diag::Result,
    ir::{Expr, Gradient, RegionId, Tape, ValueId, is_differentiable},
    ty::Type,
};
use std::rc::Rc;

/// Whether a value can have a derivative.
fn is_float(value: Expr<'_>) -> bool {
    value.tape.look(|graph| is_differentiable(&graph[value.id].ty))
}

fn ty(value: Expr<'_>) -> Type {
    value.tape.look(|graph| graph[value.id].ty.clone())
}

/// Each branch is run again, and then backwards; both say the derivatives of all that either takes
/// from around it.
pub fn of_if(g: &mut Gradient<'_>) -> Result {
    let (tape, captures) = (g.tape(), g.captures());
    let mut regions = Vec::new();
    for (i, name) in ["then", "else"].into_iter().enumerate() {
        let from = g.node().regions[i];
        regions.push(tape.region(name, &[], |region, _| {
            let results = tape.inline(from, &[]);
            let seeds = results.iter().enumerate();
            let seeds: Vec<_> = seeds.filter_map(|(i, &y)| Some((y, g.dy(i)?))).collect();
            let found = g.within_region(region, &seeds, &captures)?;
            Ok(captures.iter().zip(found).map(|(&x, dx)| or_zeros(tape.expr(x), dx)).collect())
        })?);
    }
    let made = tape.node_around(Rc::new(If), &[g.optional(0)], captures.len(), regions);
    for (&x, dx) in captures.iter().zip(made) {
        g.set_capture(x, dx);
    }
    Ok(())
}

/// The derivative where there is one. What a region gives must be made in it.
fn or_zeros<'t>(x: Expr<'t>, dx: Option<Expr<'t>>) -> Expr<'t> {
    dx.map_or_else(|| x.zeros_like(), |dx| dx.fit(x))
}

/// Values that each iteration is given, stacked iteration by iteration, or along an axis.
#[derive(Clone, Copy)]
struct Given<'t> {
    all: Expr<'t>,
    axis: i64,
    reversed: bool,
}

/// Iterations, as they are walked backwards.
struct Iterations<'t> {
    /// What each iteration's region was given, in its order.
    given: Vec<Given<'t>>,
    /// How many of these, behind the first `head`, iterations give each other.
    carried: usize,
    /// How many of these come before those, and how many results before theirs.
    head: [usize; 2],
    /// The derivatives of what the last iteration gave.
    d_last: Vec<Expr<'t>>,
    /// The derivatives of what iterations gave beside that, by the number of the result.
    d_stacked: Vec<(usize, Given<'t>)>,
}

impl<'t> Iterations<'t> {
    /// Walks the iterations backwards: says the derivatives of what their region takes from around it,
    /// and gives those of what the first iteration was given, and of what each was given beside that.
    fn walk(self, g: &mut Gradient<'t>) -> Result<(Vec<Expr<'t>>, Vec<Option<Expr<'t>>>)> {
        let (tape, captures, from) = (g.tape(), g.captures(), g.node().regions[0]);
        let [head, results_head] = self.head;
        let is_carried = |i: &usize| (head..head + self.carried).contains(i);
        let floats: Vec<usize> =
            (head..head + self.carried).filter(|&i| is_float(self.d_last[i - head])).collect();
        let parts: Vec<usize> = (0..self.given.len())
            .filter(|i| !is_carried(i) && is_float(self.given[*i].all))
            .collect();
        let states: Vec<Expr<'t>> = floats
            .iter()
            .map(|&i| self.d_last[i - head])
            .chain(captures.iter().map(|&x| tape.expr(x).zeros_like()))
            .collect();
        let scanned: Vec<Given<'t>> =
            self.given.iter().copied().chain(self.d_stacked.iter().map(|(_, dy)| *dy)).collect();
        let mut types: Vec<Type> = states.iter().map(|&state| ty(state)).collect();
        for part in &scanned {
            let mut part_ty = part.all.ty();
            part_ty.shape.remove(g.axis(part.axis, part_ty.shape.len()));
            types.push(part_ty.into());
        }
        let region = tape.region("backwards", &types, |region, inputs| {
            let (states, inputs) = inputs.split_at(states.len());
            let (given, d_stacked) = inputs.split_at(self.given.len());
            let results = tape.inline(from, given);
            let of_state = |&i: &usize| results[results_head + i - head];
            let mut seeds: Vec<_> =
                floats.iter().map(of_state).zip(states.iter().copied()).collect();
            seeds.extend(
                self.d_stacked.iter().zip(d_stacked).map(|((i, _), &dy)| (results[*i], dy)),
            );
            let xs = floats.iter().chain(&parts).map(|&i| given[i].id);
            let xs: Vec<ValueId> = xs.chain(captures.iter().copied()).collect();
            let found = g.within_region(region, &seeds, &xs)?;
            let found = xs.iter().zip(found).map(|(&x, dx)| or_zeros(tape.expr(x), dx));
            let found: Vec<Expr<'t>> = found.collect();
            let (d_floats, rest) = found.split_at(floats.len());
            let (d_parts, d_captures) = rest.split_at(parts.len());
            let sums = states[floats.len()..].iter().zip(d_captures).map(|(&sum, &dx)| sum + dx);
            Ok(d_floats.iter().copied().chain(sums).chain(d_parts.iter().copied()).collect())
        })?;
        let scan = Scan {
            scanned: scanned.len(),
            axes: scanned.iter().map(|part| part.axis).collect(),
            reversed: scanned.iter().map(|part| !part.reversed).collect(),
            output_axes: parts.iter().map(|&i| self.given[i].axis).collect(),
            reversed_outputs: parts.iter().map(|&i| !self.given[i].reversed).collect(),
        };
        let inputs: Vec<_> =
            states.iter().copied().chain(scanned.iter().map(|part| part.all)).map(Some).collect();
        let count = states.len() + parts.len();
        let made = tape.node_around(Rc::new(scan), &inputs, count, vec![region]);
        let (first, rest) = made.split_at(floats.len());
        let (of_captures, of_parts) = rest.split_at(captures.len());
        for (&x, &dx) in captures.iter().zip(of_captures) {
            g.set_capture(x, dx);
        }
        let mut d_parts = vec![None; self.given.len()];
        parts.iter().zip(of_parts).for_each(|(&i, &dx)| d_parts[i] = Some(dx));
        floats.iter().zip(first).for_each(|(&i, &dx)| d_parts[i] = Some(dx));
        Ok((first.to_vec(), d_parts))
    }
}

/// Runs the iterations again, so that they give what each was given, and then backwards.
pub fn of_scan(g: &mut Gradient<'_>, scan: &Scan) -> Result {
    let tape = g.tape();
    let carried = g.inputs() - scan.scanned;
    let inputs: Vec<_> = (0..g.inputs()).map(|i| g.optional(i)).collect();
    let from = g.node().regions[0];
    let types = given_to(tape, from);
    let region = tape.region("again", &types, |_, given| {
        let results = tape.inline(from, given);
        Ok(results[..carried].iter().chain(&given[..carried]).copied().collect())
    })?;
    let again = Scan { output_axes: Vec::new(), reversed_outputs: Vec::new(), ..scan.clone() };
    let made = tape.node_around(Rc::new(again), &inputs, 2 * carried, vec![region]);
    let stacked = made[carried..].iter().map(|&all| Given { all, axis: 0, reversed: false });
    let flag = |flags: &[bool], i: usize| flags.get(i).copied().unwrap_or(false);
    let axis = |axes: &[i64], i: usize| axes.get(i).copied().unwrap_or(0);
    let parts = (0..scan.scanned).map(|i| Given {
        all: g.x(carried + i),
        axis: axis(&scan.axes, i),
        reversed: flag(&scan.reversed, i),
    });
    let given: Vec<Given<'_>> = stacked.chain(parts).collect();
    let d_last = (0..carried).map(|j| g.dy(j).unwrap_or_else(|| zeros_of(g.x(j)))).collect();
    let d_stacked = (carried..g.node().outputs.len()).filter_map(|i| {
        let (axis, reversed) =
            (axis(&scan.output_axes, i - carried), flag(&scan.reversed_outputs, i - carried));
        Some((i, Given { all: g.dy(i)?, axis, reversed }))
    });
    let d_stacked = d_stacked.collect();
    let iterations = Iterations { given, carried, head: [0, 0], d_last, d_stacked };
    let (_, d_given) = iterations.walk(g)?;
    for (i, dx) in d_given.into_iter().enumerate() {
        if let Some(dx) = dx {
            g.set(i, dx);
        }
    }
    Ok(())
}

/// The iterations of a `Scan` of batches as those of two others, one in the other: that of the batch, and
/// that along the second axis.
pub fn of_batches(g: &mut Gradient<'_>, scanned: usize, reversed: &[bool]) -> Result {
    let (tape, outputs) = (g.tape(), g.node().outputs.len());
    let lens = g.optional(0);
    let inputs: Vec<Expr<'_>> = lens.into_iter().chain((1..g.inputs()).map(|i| g.x(i))).collect();
    let types: Vec<Type> = inputs.iter().map(|&input| part_ty(input)).collect();
    let sample = Sample { from: g.node().regions[0], scanned, reversed, outputs };
    let region = tape.region("sample", &types, |_, given| match lens {
        Some(_) => sample.iterations(&given[1..], Some(given[0])),
        None => sample.iterations(given, None),
    })?;
    let scan = Scan { scanned: inputs.len(), ..Scan::default() };
    let inputs: Vec<_> = inputs.into_iter().map(Some).collect();
    let made = tape.node_around(Rc::new(scan), &inputs, outputs, vec![region]);
    g.through(&made)
}

/// The type of a part along the first axis.
fn part_ty(all: Expr<'_>) -> Type {
    let mut ty = all.ty();
    ty.shape.remove(0);
    ty.into()
}

/// What is done with each of a batch.
struct Sample<'a> {
    /// What each iteration does.
    from: RegionId,
    scanned: usize,
    reversed: &'a [bool],
    outputs: usize,
}

impl Sample<'_> {
    /// Takes the iterations, where `len` says how many. What later iterations would change stays, and what they
    /// would give is zero.
    fn iterations<'t>(&self, given: &[Expr<'t>], len: Option<Expr<'t>>) -> Result<Vec<Expr<'t>>> {
        let (states, parts) = given.split_at(given.len() - self.scanned);
        let tape = given[0].tape;
        let ordered = |(i, &x): (usize, &Expr<'t>)| match len {
            Some(len) if self.reversed.get(i) == Some(&true) => {
                let places = len - 1.0 - x.indices(0);
                x.gather(places.less(places.number(0.0)).select(x.indices(0), places), 0)
            }
            _ => x,
        };
        let mut scanned: Vec<Expr<'t>> = parts.iter().enumerate().map(ordered).collect();
        scanned.extend(len.map(|len| parts[0].indices(0).less(len)));
        let types = states.iter().map(|&state| ty(state));
        let types: Vec<Type> = types.chain(scanned.iter().map(|&x| part_ty(x))).collect();
        let region = tape.region("step", &types, |_, inputs| {
            let results = tape.inline(self.from, &inputs[..given.len()]);
            let Some(&there) = inputs.get(given.len()) else { return Ok(results) };
            let kept = |(i, result): (usize, Expr<'t>)| match inputs[..states.len()].get(i) {
                Some(&before) => there.select(result, before),
                None => result.only_where(there),
            };
            Ok(results.into_iter().enumerate().map(kept).collect())
        })?;
        let reversed = if len.is_some() { Vec::new() } else { self.reversed.to_vec() };
        let scan = Scan { scanned: scanned.len(), reversed, ..Scan::default() };
        let inputs: Vec<_> = states.iter().copied().chain(scanned).map(Some).collect();
        Ok(tape.node_around(Rc::new(scan), &inputs, self.outputs, vec![region]))
    }
}

/// The types of what a region is given.
fn given_to(tape: &Tape, region: RegionId) -> Vec<Type> {
    tape.look(|graph| graph[region].inputs.iter().map(|&id| graph[id].ty.clone()).collect())
}

/// Zeros where a value can have a derivative; else the value itself, which nobody asks for one.
fn zeros_of(x: Expr<'_>) -> Expr<'_> {
    if is_float(x) { x.zeros_like() } else { x }
}

/// The same for iterations whose number the body says: how many there were is seen by what is stacked.
pub fn of_loop(g: &mut Gradient<'_>) -> Result {
    const HEAD: usize = 2;
    let tape = g.tape();
    let carried = g.inputs() - HEAD;
    let inputs: Vec<_> = (0..g.inputs()).map(|i| g.optional(i)).collect();
    let from = g.node().regions[0];
    let types = given_to(tape, from);
    if (0..carried).any(|j| types[HEAD + j] != ty(g.x(HEAD + j))) {
        return Err(g.unsupported("through a value whose size changes from iteration to iteration"));
    }
    let region = tape.region("again", &types, |_, given| {
        let results = tape.inline(from, given);
        Ok(results[..=carried].iter().chain(given).copied().collect())
    })?;
    let made = tape.node_around(Rc::new(Loop), &inputs, 2 * carried + HEAD, vec![region]);
    let stacked = made[carried..].iter().map(|&all| Given { all, axis: 0, reversed: false });
    let given: Vec<Given<'_>> = stacked.collect();
    let initial = |j: usize| g.x(HEAD + j);
    let d_last = (0..carried).map(|j| g.dy(j).unwrap_or_else(|| zeros_of(initial(j)))).collect();
    let d_stacked = (carried..g.node().outputs.len())
        .filter_map(|i| Some((i + 1, Given { all: g.dy(i)?, axis: 0, reversed: false })));
    let d_stacked = d_stacked.collect();
    let iterations = Iterations { given, carried, head: [HEAD, 1], d_last, d_stacked };
    let (_, d_given) = iterations.walk(g)?;
    for (i, dx) in d_given.into_iter().enumerate().skip(HEAD) {
        if let Some(dx) = dx {
            g.set(i, dx);
        }
    }
    Ok(())
}
