//! Attention by a state that each step adds to.

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

/// A state for each head, to which each step adds, and from which its query reads.
#[derive(Clone)]
pub struct LinearAttention {
    /// Heads of queries.
    pub q_num_heads: i64,
    /// Heads of keys and values.
    pub kv_num_heads: i64,
    /// The factor of the results; 0 for one that depends on the size of a key.
    pub scale: f32,
    /// How the state changes: a place in [`RULES`].
    pub(super) rule: usize,
}

/// A way to change the state.
struct Rule {
    name: &'static str,
    /// Whether the state decays.
    decay: bool,
    /// Whether what the state knows of a key is replaced, at a rate.
    beta: bool,
}

const RULES: [Rule; 4] = [
    Rule { name: "gated_delta", decay: true, beta: true },
    Rule { name: "delta", decay: false, beta: true },
    Rule { name: "gated", decay: true, beta: false },
    Rule { name: "linear", decay: false, beta: false },
];

/// The types of elements and of states.
const TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16];

static LINEAR_ATTENTION: Kernel<geometry::LinearAttention> = kernel!(F32_ONLY T,
    attention::linear_attention,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.optional(3), a.optional(4), a.optional(5),
        a.output(0), a.output(1), a.output(2), p));

impl LinearAttention {
    fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
        // How many steps other implementations do at once; the results are the same.
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

    /// Elements of a key and of a value.
    pub(super) fn sizes(&self, q: &[Dim], v: &[Dim]) -> [Dim; 2] {
        let heads = |n: i64| Dim::from(n.max(1));
        [q[2].floor_div(&heads(self.q_num_heads)), v[2].floor_div(&heads(self.kv_num_heads))]
    }

    /// Whether an input is given, as the rule wants it.
    fn require_given(&self, cx: &Infer<'_>, i: usize, wanted: bool) -> Inferred<bool> {
        if cx.has(i) == wanted {
            return Ok(wanted);
        }
        let rule = RULES[self.rule].name;
        let wants = if wanted { "needs" } else { "does not take" };
        Err(cx.diagnostic(Code::BadArity, format!("the rule `{rule}` {wants} input {i}")))
    }

    /// Refuses decays and rates that do not fit.
    fn require_rule(&self, cx: &mut Infer<'_>, depth: &Dim) -> Inferred<()> {
        let (steps, heads) = (cx.shape(0)?[..2].to_vec(), Dim::from(self.kv_num_heads));
        let rule = &RULES[self.rule];
        for (i, wanted, other) in [(4, rule.decay, &heads * depth), (5, rule.beta, Dim::from(1))] {
            if !self.require_given(cx, i, wanted)? {
                continue;
            }
            cx.same_dtype(0, i)?;
            let shape = cx.ranked(i, 3)?.shape.clone();
            for (a, b) in shape.iter().zip(&steps) {
                cx.require_equal(a, b, &format!("a size of the queries and of input {i}"))?;
            }
            let (size, what) = (&shape[2], format!("what input {i} has for a step"));
            match size.known() {
                Some(_) if *size == heads => {}
                Some(_) => cx.require_equal(size, &other, &what)?,
                // One of the two: (size - heads) · (size - other) = 0.
                None => {
                    let (a, b) = (size * size + &heads * &other, (&heads + &other) * size);
                    cx.require_equal(&a, &b, &what)?;
                }
            }
        }
        Ok(())
    }

    /// An input as `f32`, where it is given.
    fn single(cx: &mut Lower<'_>, i: usize) -> Result<Option<Operand>> {
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
            let wanted = [&q[0], &q[1], &size].map(Clone::clone);
            for (a, b) in shape.iter().zip(&wanted) {
                cx.require_equal(a, b, &format!("a size of input {i} and what attention wants"))?;
            }
        }
        self.require_rule(cx, &depth)?;
        let state = [q[0].clone(), heads.into(), depth, width.clone()];
        let mut of_state = dtype;
        if cx.has(3) {
            of_state = cx.of(3, TYPES)?.dtype;
            for (a, b) in cx.ranked(3, 4)?.shape.iter().zip(&state) {
                cx.require_equal(a, b, "a size of the state and what attention wants")?;
            }
        }
        let y = [q[0].clone(), q[1].clone(), width * q_heads];
        Ok(vec![Type::tensor(dtype, y), Type::tensor(of_state, state)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (q, v) = (&cx.ty(0)?.shape, &cx.ty(2)?.shape);
        let [depth, width] = self.sizes(q, v);
        let heads = Dim::from(self.kv_num_heads);
        let each = |cx: &Lower<'_>, i| match cx.has(i) {
            true => cx.ty(i).map(|ty| ty.shape[2].clone()),
            false => Ok(heads.clone()),
        };
        let geometry = geometry::LinearAttention {
            batch: q[0].clone(),
            steps: q[1].clone(),
            decays: each(cx, 4)?.floor_div(&heads),
            rates: each(cx, 5)?,
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
            inputs.push(match (i, Self::single(cx, i)?) {
                (..3, Some(x)) => Arg::Tensor(x),
                (_, x) => Arg::Optional(x),
            });
        }
        let (dtype, of_state) = (cx.ty(0)?.dtype, cx.ty(if cx.has(3) { 3 } else { 0 })?.dtype);
        let rows = &geometry.batch * &geometry.steps * &geometry.heads * &geometry.group;
        let mut outputs = Vec::new();
        let mut casts = Vec::new();
        for (i, dtype, len) in [(0, dtype, rows * &geometry.width), (1, of_state, state)] {
            let wanted = cx.optional_output(i)?;
            outputs.push(match wanted {
                Some(y) if dtype == DType::F32 => y.into(),
                wanted => {
                    let single = cx.scratch(DType::F32, len);
                    casts.extend(wanted.map(|y| (single.clone(), dtype, y)));
                    single.into()
                }
            });
        }
        let scratch = &geometry.steps * &geometry.decays;
        outputs.push(cx.scratch(DType::F32, scratch).into());
        cx.call_on(&LINEAR_ATTENTION, DType::F32, inputs, outputs, geometry)?;
        for (single, dtype, y) in casts {
            CastMode::DEFAULT.call(cx, DType::F32, single, dtype, y)?;
        }
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        self.gradient_of_steps(g)
    }
}
