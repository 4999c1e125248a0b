//! The gradients of the attention operators.

use super::{Attention, linear::LinearAttention, rotary::RotaryEmbedding};
use crate::{
    diag::Result,
    ir::{Expr, Gradient},
    limits::Limit,
    ops::{control::scan::Scan, expand::Expand},
    ty::Type,
};
use std::rc::Rc;

/// The values of `qk_matmul_output_mode`.
const PRODUCTS: i64 = 0;
const CAPPED: i64 = 1;
const MASKED: i64 = 2;
const WEIGHTS: i64 = 3;

/// `[batch, rows, heads · size]` to `[batch, heads, rows, size]`; other ranks are unchanged.
fn split_heads(x: Expr<'_>, heads: Option<i64>) -> Expr<'_> {
    match heads.filter(|_| x.rank() == 3) {
        Some(heads) => x.reshape_to(&[0, 0, heads, -1]).transpose(&[0, 2, 1, 3]),
        None => x,
    }
}

/// The inverse of [`split_heads`]: brings the gradient of `x` to the shape of `x`.
fn merge_heads<'t>(dx: Expr<'t>, x: Expr<'t>) -> Expr<'t> {
    if x.rank() == 3 { dx.transpose(&[0, 2, 1, 3]).reshape_like(x) } else { dx }
}

/// Repeats each key or value head for the `group` query heads that share it.
fn repeat_heads(x: Expr<'_>, group: i64) -> Expr<'_> {
    if group == 1 {
        return x;
    }
    let copies = vec![x.with_axis(2); usize::try_from(group).unwrap_or(1)];
    let shape = [x.size_of(0), x.tape.ints(&[-1]), x.sizes(2, 4)];
    copies[0].concat(&copies[1..], 2).reshape_by(x.tape.concat(&shape))
}

/// Sums `dx` over the `group` query heads that share a key or value head.
fn sum_groups<'t>(dx: Expr<'t>, like: Expr<'t>, group: i64) -> Expr<'t> {
    if group == 1 {
        return dx;
    }
    let shape = [like.sizes(0, 2), like.tape.ints(&[group]), like.sizes(2, 4)];
    dx.reshape(like.tape.concat(&shape)).sum(&[2]).squeeze(&[2])
}

/// The sum of the gradients that exist.
fn add<'t>(a: Option<Expr<'t>>, b: Option<Expr<'t>>) -> Option<Expr<'t>> {
    [a, b].into_iter().flatten().reduce(|a, b| a + b)
}

impl Attention {
    /// Sets the gradients of all inputs.
    ///
    /// With `S = scale · Q Kᵀ`, `P = softmax(S)` and `Y = P V`: `dV = Pᵀ dY`, `dP = dY Vᵀ`,
    /// `dS = P ∘ (dP - Σ P ∘ dP)`, `dQ = scale · dS K` and `dK = scale · dSᵀ Q`. The operator
    /// itself recomputes `P` and `S`, as its last output.
    pub(super) fn set_gradients(&self, g: &mut Gradient<'_>) -> Result {
        let heads = |i: usize| self.heads[usize::from(i > 0)];
        let [q, new_k, new_v] = [0, 1, 2].map(|i| split_heads(g.x(i), heads(i)));
        let with_past = |i: usize, new| match g.optional(i) {
            Some(past) => past.concat(&[new], 2),
            None => new,
        };
        let (k, v) = (with_past(4, new_k), with_past(5, new_v));
        let heads_of = |x: Expr<'_>| x.dims()[1].known();
        let (Some(q_heads), Some(kv_heads)) = (heads_of(q), heads_of(k)) else {
            return Err(g.unsupported("for a number of heads known only at run time"));
        };
        let group = if kv_heads == 0 { 1 } else { q_heads / kv_heads };
        let copies = usize::try_from(group).unwrap_or(usize::MAX);
        g.spend(Limit::ListElements, copies, "copies of a head")?;
        let depth = q.dims()[3].known();
        let Some(depth) = depth.filter(|&depth| depth > 0) else {
            return Err(g.unsupported("for keys of a size known only at run time"));
        };
        let scale = self.scale.map_or((depth as f64).sqrt().recip(), f64::from);
        let (mut dk, mut dv) = (g.dy(1), g.dy(2));
        let dy = g.dy(0).map(|dy| split_heads(dy, self.heads[0]));
        let d_weights =
            dy.map(|dy| dy.matmul(repeat_heads(v, group).cast_like(q).transpose_matrices()));
        if let Some(ds) = self.scores_gradient(g, d_weights) {
            let ds = ds * scale;
            g.set(0, merge_heads(ds.matmul(repeat_heads(k, group)), g.x(0)));
            dk = add(dk, Some(sum_groups(ds.transpose_matrices().matmul(q), k, group)));
        }
        if let Some(dy) = dy {
            let p = self.stage(g, WEIGHTS);
            dv =
                add(dv, Some(sum_groups(p.transpose_matrices().matmul(dy), v, group).cast_like(v)));
        }
        for (i, dx, new) in [(1, dk, new_k), (2, dv, new_v)] {
            let Some(dx) = dx else { continue };
            let Some(past) = g.optional(i + 3) else {
                g.set(i, merge_heads(dx, g.x(i)));
                continue;
            };
            let sizes = g.tape().concat(&[past.size_of(2), new.size_of(2)]);
            let parts = dx.split(2, sizes, 2);
            g.set(i + 3, parts[0]);
            g.set(i, merge_heads(parts[1], g.x(i)));
        }
        // The present keys and values depend on nothing else, and a stage of the scores only on
        // the inputs before it.
        g.set_others_to_zero();
        Ok(())
    }

    /// The gradient of the scaled products `Q Kᵀ`, from the gradients of the softmax's result and
    /// of the last output, which is one of the stages between. Also sets the gradient of the mask.
    fn scores_gradient<'t>(
        &self,
        g: &mut Gradient<'t>,
        d_weights: Option<Expr<'t>>,
    ) -> Option<Expr<'t>> {
        let last = g.dy(3);
        let d_stage = |stage: i64| last.filter(|_| self.qk_matmul_output_mode == stage);
        let of_softmax = add(d_weights, d_stage(WEIGHTS)).map(|dp| {
            let p = self.stage(g, WEIGHTS);
            p * (dp - (p * dp).sum(&[3]))
        });
        // A masked-out score is -∞, whatever the products are.
        let of_masked = d_stage(MASKED).map(|ds| {
            let masked = self.stage(g, MASKED);
            ds.only_where(masked.above(f64::NEG_INFINITY))
        });
        let masked = add(of_softmax, of_masked);
        if let (Some(masked), Some(mask), true) = (masked, g.optional(3), g.wants(3)) {
            g.set(3, mask_gradient(masked, mask));
        }
        let capped = add(masked, d_stage(CAPPED)).map(|ds| match self.softcap {
            0.0 => ds,
            cap => {
                let capped = self.stage(g, CAPPED) / f64::from(cap);
                ds * (-capped * capped + 1.0)
            }
        });
        add(capped, d_stage(PRODUCTS))
    }

    /// The scores at a stage, recomputed.
    fn stage<'t>(&self, g: &Gradient<'t>, stage: i64) -> Expr<'t> {
        let op = Attention { qk_matmul_output_mode: stage, ..self.clone() };
        let inputs: Vec<_> = (0..g.inputs()).map(|i| g.optional(i)).collect();
        g.tape().node(Rc::new(op), &inputs, 4)[3]
    }
}

/// The gradient of a mask, which may cover fewer keys than there are.
fn mask_gradient<'t>(ds: Expr<'t>, mask: Expr<'t>) -> Expr<'t> {
    let last = mask.rank() - 1;
    match mask.dims()[last] == ds.dims()[3] || mask.dims()[last].known() == Some(1) {
        true => ds,
        false => ds.between(mask.tape.ints(&[0]), mask.size_of(last), 3),
    }
}

impl RotaryEmbedding {
    /// Rotates `dy` back, by the negated angles. If the gradients of the cosines or sines are
    /// needed, expresses the operator by its formula for a pair, and differentiates that.
    pub(super) fn set_gradients(&self, g: &mut Gradient<'_>) -> Result {
        let Some(dy) = g.dy(0) else { return Ok(()) };
        if !g.wants(1) && !g.wants(2) {
            let inputs = [Some(dy), g.optional(1), g.optional(2).map(|sin| -sin), g.optional(3)];
            let dx = g.tape().node(g.node().op.clone(), &inputs, 1)[0];
            g.set(0, dx);
            return Ok(());
        }
        let x = split_heads(g.x(0), self.num_heads);
        let Some(size) = x.dims()[3].known() else {
            return Err(g.unsupported("for heads of a size known only at run time"));
        };
        let dim = if self.rotary_embedding_dim == 0 { size } else { self.rotary_embedding_dim };
        let tape = g.tape();
        let slice = |from: i64, to: i64| x.between(tape.ints(&[from]), tape.ints(&[to]), -1);
        let angles = |i: usize| {
            let all = match g.optional(3) {
                Some(positions) => g.x(i).gather(positions, 0),
                None => g.x(i),
            };
            all.with_axis(1)
        };
        let (cos, sin, input) = (angles(1), angles(2), slice(0, dim));
        let pairs = match self.interleaved {
            true => input.reshape_to(&[0, 0, 0, -1, 2]),
            false => input.reshape_to(&[0, 0, 0, 2, -1]).transpose_matrices(),
        };
        let element = |i: i64| pairs.gather(tape.ints(&[i]), 4).squeeze(&[4]);
        let (a, b) = (element(0), element(1));
        let (re, im) = ((cos * a - sin * b).with_axis(4), (sin * a + cos * b).with_axis(4));
        let rotated = re.concat(&[im], 4);
        let rotated = if self.interleaved { rotated } else { rotated.transpose_matrices() };
        let rotated = rotated.reshape_like(input);
        let y = match dim == size {
            true => rotated,
            false => rotated.concat(&[slice(dim, size)], 3),
        };
        g.through(&[merge_heads(y, g.x(0))])
    }
}

impl LinearAttention {
    /// Expresses the operator as a `Scan` over the steps, and differentiates that.
    pub(super) fn set_gradients(&self, g: &mut Gradient<'_>) -> Result {
        let tape = g.tape();
        let (heads, q_heads) = (self.kv_num_heads, self.q_num_heads);
        // [steps, batch, heads, group or 1, size]
        let rows = |i: usize, group: i64| {
            g.x(i).reshape_to(&[0, 0, heads, group, -1]).transpose(&[1, 0, 2, 3, 4])
        };
        let (q, k, v) = (rows(0, q_heads / heads), rows(1, 1), rows(2, 1));
        let [depth, width] = self.sizes(&g.x(0).dims(), &g.x(2).dims());
        let (Some(depth), Some(width)) = (depth.known(), width.known()) else {
            return Err(g.unsupported("for heads of a size known only at run time"));
        };
        // One decay for each row of a state, or one for all rows; one rate for each head, or for
        // all.
        let decay = g
            .optional(4)
            .map(|decay| decay.reshape_to(&[0, 0, heads, -1, 1]).transpose(&[1, 0, 2, 3, 4]).exp());
        let rate = g
            .optional(5)
            .map(|rate| rate.reshape_to(&[0, 0, -1, 1, 1]).transpose(&[1, 0, 2, 3, 4]));
        let state = g.optional(3).map(|state| state.cast_like(q)).unwrap_or_else(|| {
            let shape = [q.size_of(1), tape.ints(&[heads, depth, width])];
            q.number(0.0).apply(Expand, &[tape.concat(&shape)])
        });
        let scale = match self.scale {
            0.0 => (depth as f64).sqrt().recip(),
            scale => f64::from(scale),
        };
        let scanned: Vec<Expr<'_>> =
            [Some(q), Some(k), Some(v), decay, rate].into_iter().flatten().collect();
        let without_steps = |x: &Expr<'_>| -> Type {
            let mut ty = x.ty();
            ty.shape.remove(0);
            ty.into()
        };
        let types: Vec<Type> =
            std::iter::once(state.ty().into()).chain(scanned.iter().map(without_steps)).collect();
        let region = tape.region("step", &types, |_, inputs| {
            let [state, q, k, v] = [0, 1, 2, 3].map(|i| inputs[i]);
            let mut rest = inputs[4..].iter().copied();
            let decay = decay.and_then(|_| rest.next());
            let rate = rate.and_then(|_| rest.next());
            let kept = decay.map_or(state, |decay| state * decay);
            let added = rate.map_or(v, |rate| rate * (v - k.matmul(kept)));
            let state = kept + k.transpose_matrices().matmul(added);
            Ok(vec![state, q.matmul(state) * scale])
        })?;
        let scan = Scan { scanned: scanned.len(), ..Scan::default() };
        let inputs: Vec<_> = std::iter::once(state).chain(scanned).map(Some).collect();
        let outputs = tape.node_around(Rc::new(scan), &inputs, 2, vec![region]);
        let y = outputs[1].transpose(&[1, 0, 2, 3, 4]).reshape_to(&[0, 0, -1]);
        let last = match g.optional(3) {
            Some(past) => outputs[0].cast_like(past),
            None => outputs[0],
        };
        g.through(&[y, last])
    }
}
