//! `LinearAttention`: attention by a recurrent state that each step updates.

use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op, Reader},
    ops::{Entry, cast::CastMode, entry},
    plan::{Arg, Kernel, Operand, geometry, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("LinearAttention", 27, LinearAttention::read)];

/// Updates a matrix state of each head by a key and a value at each step, and multiplies the step's
/// query with it.
#[derive(Clone)]
pub struct LinearAttention {
    /// The number of heads of the queries.
    pub q_num_heads: i64,
    /// The number of heads of the keys and values.
    pub kv_num_heads: i64,
    /// The scale of the results; 0 for `1 / √depth`, with `depth` the size of a key.
    pub scale: f32,
    /// The update rule of the state: an index into [`RULES`].
    pub(super) rule: usize,
}

/// An update rule of the state, a value of the attribute `update_rule`.
struct Rule {
    name: &'static str,
    /// Whether the state decays at each step, by input 4.
    decay: bool,
    /// Whether a step replaces the value that the state holds for its key, at the rate of input 5,
    /// instead of adding to it.
    beta: bool,
}

const RULES: [Rule; 4] = [
    Rule { name: "gated_delta", decay: true, beta: true },
    Rule { name: "delta", decay: false, beta: true },
    Rule { name: "gated", decay: true, beta: false },
    Rule { name: "linear", decay: false, beta: false },
];

/// The types of the elements and of the state.
const TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16];

static LINEAR_ATTENTION: Kernel<geometry::LinearAttention> = kernel!(F32_ONLY T,
    attention::linear_attention { operands: attention::LinearAttentionOperands {
        q: input(0), k: input(1), v: input(2),
        past: optional(3), decay: optional(4), rate: optional(5),
    } }, |f, a, p| f(operands, a.output(0), a.output(1), a.output(2), p));

impl LinearAttention {
    fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
        // A hint about the number of steps computed at once, without effect on the results.
        node.ignore("chunk_size");
        let rules: Vec<(&str, usize)> =
            RULES.iter().enumerate().map(|(i, rule)| (rule.name, i)).collect();
        Ok(Rc::new(LinearAttention {
            q_num_heads: node.required_int("q_num_heads")?,
            kv_num_heads: node.required_int("kv_num_heads")?,
            scale: node.float("scale", 0.0)?,
            rule: node.choice("update_rule", &rules)?,
        }))
    }

    /// The number of elements of a key and of a value.
    pub(super) fn sizes(&self, q: &[Dim], v: &[Dim]) -> [Dim; 2] {
        let heads = |n: i64| Dim::from(n.max(1));
        [q[2].floor_div(&heads(self.q_num_heads)), v[2].floor_div(&heads(self.kv_num_heads))]
    }

    /// Checks that input `i` is present exactly if the rule reads it, and returns `is_read`.
    fn check_presence(&self, cx: &Infer<'_>, i: usize, is_read: bool) -> Inferred<bool> {
        if cx.has(i) == is_read {
            return Ok(is_read);
        }
        let rule = RULES[self.rule].name;
        let verb = if is_read { "needs" } else { "does not take" };
        Err(cx.diagnostic(Code::BadArity, format!("the rule `{rule}` {verb} input {i}")))
    }

    /// Checks the types and shapes of the decays and rates.
    fn check_rule(&self, cx: &mut Infer<'_>, depth: &Dim) -> Inferred<()> {
        let (steps, heads) = (cx.shape(0)?[..2].to_vec(), Dim::from(self.kv_num_heads));
        let rule = &RULES[self.rule];
        for (i, is_read, other) in [(4, rule.decay, &heads * depth), (5, rule.beta, Dim::from(1))] {
            if !self.check_presence(cx, i, is_read)? {
                continue;
            }
            cx.same_dtype(0, i)?;
            let shape = cx.ranked(i, 3)?.shape.clone();
            for (a, b) in shape.iter().zip(&steps) {
                cx.require_equal(a, b, &format!("a size of the queries and of input {i}"))?;
            }
            let (size, what) =
                (&shape[2], format!("the last size of input {i} and the expected size"));
            match size.known() {
                Some(_) if *size == heads => {}
                Some(_) => cx.require_equal(size, &other, &what)?,
                // The size is `heads` or `other`: (size - heads) · (size - other) = 0.
                None => {
                    let (a, b) = (size * size + &heads * &other, (&heads + &other) * size);
                    cx.require_equal(&a, &b, &what)?;
                }
            }
        }
        Ok(())
    }

    /// Casts input `i` to `f32`, if it is present.
    fn cast_to_f32(cx: &mut Lower<'_>, i: usize) -> Result<Option<Operand>> {
        let Some(x) = cx.optional(i)? else { return Ok(None) };
        let dtype = cx.ty(i)?.dtype;
        if dtype == DType::F32 {
            return Ok(Some(x));
        }
        let cast = cx.scratch(DType::F32, x.len.clone());
        CastMode::DEFAULT.call(cx, dtype, x, DType::F32, cast.clone())?;
        Ok(Some(cast))
    }
}

impl Op for LinearAttention {
    fn name(&self) -> &'static str {
        "LinearAttention"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("q_num_heads", self.q_num_heads);
        a.int("kv_num_heads", self.kv_num_heads);
        a.float("scale", self.scale);
        a.string("update_rule", RULES[self.rule].name);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, TYPES)?.dtype;
        cx.same_dtype(0, 1)?;
        cx.same_dtype(0, 2)?;
        let (q_heads, heads) = (self.q_num_heads, self.kv_num_heads);
        if heads < 1 || q_heads < 1 || q_heads % heads != 0 {
            let message = "`q_num_heads` must be a multiple of `kv_num_heads`";
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        let [q, k, v] = [0, 1, 2].map(|i| cx.ranked(i, 3).map(|ty| ty.shape.clone()));
        let (q, k, v) = (q?, k?, v?);
        let [depth, width] = self.sizes(&q, &v);
        for (i, shape, size) in
            [(0, &q, &depth * q_heads), (1, &k, &depth * heads), (2, &v, &width * heads)]
        {
            let expected = [&q[0], &q[1], &size].map(Clone::clone);
            for (a, b) in shape.iter().zip(&expected) {
                cx.require_equal(a, b, &format!("a size of input {i} and the expected size"))?;
            }
        }
        self.check_rule(cx, &depth)?;
        let state = [q[0].clone(), heads.into(), depth, width.clone()];
        let mut state_dtype = dtype;
        if cx.has(3) {
            state_dtype = cx.of(3, TYPES)?.dtype;
            for (a, b) in cx.ranked(3, 4)?.shape.iter().zip(&state) {
                cx.require_equal(a, b, "a size of the state and the expected size")?;
            }
        }
        let y = [q[0].clone(), q[1].clone(), width * q_heads];
        Ok(vec![Type::tensor(dtype, y), Type::tensor(state_dtype, state)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (q, v) = (&cx.ty(0)?.shape, &cx.ty(2)?.shape);
        let [depth, width] = self.sizes(q, v);
        let heads = Dim::from(self.kv_num_heads);
        let last_size = |cx: &Lower<'_>, i| match cx.has(i) {
            true => cx.ty(i).map(|ty| ty.shape[2].clone()),
            false => Ok(heads.clone()),
        };
        let geometry = geometry::LinearAttention {
            batch: q[0].clone(),
            steps: q[1].clone(),
            decays: last_size(cx, 4)?.floor_div(&heads),
            rates: last_size(cx, 5)?,
            heads,
            group: (self.q_num_heads / self.kv_num_heads).into(),
            depth,
            width,
            scale: (self.scale != 0.0).then_some(self.scale),
        };
        let state = &geometry.batch * &geometry.heads * &geometry.depth * &geometry.width;
        cx.macs(&(&state * &geometry.steps * (&geometry.group + 2)));
        let mut inputs = Vec::new();
        for i in 0..6 {
            inputs.push(match (i, Self::cast_to_f32(cx, i)?) {
                (..3, Some(x)) => Arg::Tensor(x),
                (_, x) => Arg::Optional(x),
            });
        }
        let (dtype, state_dtype) = (cx.ty(0)?.dtype, cx.ty(if cx.has(3) { 3 } else { 0 })?.dtype);
        let rows = &geometry.batch * &geometry.steps * &geometry.heads * &geometry.group;
        let mut outputs = Vec::new();
        let mut casts = Vec::new();
        for (i, dtype, len) in [(0, dtype, rows * &geometry.width), (1, state_dtype, state)] {
            outputs.push(match cx.optional_output(i)? {
                Some(y) if dtype == DType::F32 => y.into(),
                output => {
                    let x = cx.scratch(DType::F32, len);
                    casts.extend(output.map(|y| (x.clone(), dtype, y)));
                    x.into()
                }
            });
        }
        let scratch = &geometry.steps * &geometry.decays;
        outputs.push(cx.scratch(DType::F32, scratch).into());
        cx.call_on(&LINEAR_ATTENTION, DType::F32, inputs, outputs, geometry)?;
        for (x, dtype, y) in casts {
            CastMode::DEFAULT.call(cx, DType::F32, x, dtype, y)?;
        }
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        self.set_gradients(g)
    }
}
