//! Fixed-point type inference of loop-carried values: a region is rebuilt with more general types
//! until its results fit its inputs.
//!
//! A loop inside of such a region is rebuilt whenever the region is. It then starts with the sizes
//! that were general in the last attempt. So a loop is built once per attempt of the region around
//! it, plus once per size of its own that becomes general, and the work grows with the square of
//! the nesting depth. Without that memory it would double with each level.

use super::{Graph, NewNode, RegionId};
use crate::{
    diag::{Diagnostic, Result},
    dim::Dim,
    ty::{TensorType, Type},
};
use std::{collections::HashMap, hash::Hash};

/// Builds graphs with regions.
pub(crate) trait Builds {
    /// Identifies the source of a region.
    type Key: Copy + Eq + Hash;

    /// Returns the graph under construction.
    fn graph(&mut self) -> &mut Graph;

    /// Returns the types remembered between attempts.
    fn fitting(&mut self) -> &mut Fitting<Self::Key>;
}

/// Adds the next region of `new`, built by `build` from its inputs, and repeats until the types of
/// the loop-carried values fit. Types that cannot be inferred are unknown, and their errors are
/// returned.
pub(crate) fn fit<B: Builds>(
    builder: &mut B,
    new: &mut NewNode<'_>,
    key: B::Key,
    mut build: impl FnMut(&mut B, &[Type]) -> Result<RegionId>,
) -> Result {
    let i = new.regions.len();
    let (first, mut fault) = given(builder.graph(), new, i);
    let mut types = builder.fitting().enter(key, &first);
    let built = loop {
        match build(builder, &types) {
            Ok(region) => {
                new.regions.truncate(i);
                new.regions.push(region);
            }
            Err(diagnostic) => break Err(diagnostic),
        }
        let (wider, found) = given(builder.graph(), new, i);
        fault = fault.or(found);
        if wider == types || fault.is_some() {
            break Ok(());
        }
        types = wider;
        builder.fitting().again();
    };
    builder.fitting().leave(first, types);
    built.and(fault.map_or(Ok(()), Err))
}

fn given(graph: &mut Graph, new: &NewNode<'_>, i: usize) -> (Vec<Type>, Option<Diagnostic>) {
    match graph.region_inputs(new, i) {
        Ok(types) => (types, None),
        Err(diagnostic) => (Vec::new(), Some(diagnostic)),
    }
}

/// The regions under construction, outermost first, and the types of regions inside of them.
pub(crate) struct Fitting<K> {
    open: Vec<Open<K>>,
}

/// Identifies a region by its source and the number of regions built from the same source before
/// it, in the same attempt of the enclosing region.
type Place<K> = (K, usize);

struct Open<K> {
    place: Place<K>,
    /// The number of inner regions built from each source in this attempt.
    met: HashMap<K, usize>,
    inside: HashMap<Place<K>, Fit<K>>,
}

/// The types of a region.
struct Fit<K> {
    /// The types of the first attempt.
    first: Vec<Type>,
    /// The types that fit.
    wide: Vec<Type>,
    inside: HashMap<Place<K>, Fit<K>>,
}

impl<K> Default for Fitting<K> {
    fn default() -> Fitting<K> {
        Fitting { open: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash> Fitting<K> {
    /// Enters a region with the input types `first`, as known from outside; returns the types to
    /// try.
    fn enter(&mut self, key: K, first: &[Type]) -> Vec<Type> {
        let mut place = (key, 0);
        let mut before = None;
        if let Some(around) = self.open.last_mut() {
            let met = around.met.entry(key).or_default();
            place.1 = *met;
            *met += 1;
            before = around.inside.remove(&place);
        }
        let types = match before.as_ref().filter(|fit| fit.first.len() == first.len()) {
            None => first.to_vec(),
            Some(fit) => {
                let before = fit.first.iter().zip(&fit.wide);
                first
                    .iter()
                    .zip(before)
                    .map(|(ty, (first, wide))| widened(ty, first, wide))
                    .collect()
            }
        };
        let inside = before.map(|fit| fit.inside).unwrap_or_default();
        self.open.push(Open { place, met: HashMap::new(), inside });
        types
    }

    /// Starts another attempt of the innermost region.
    fn again(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.met.clear();
        }
    }

    /// Leaves the innermost region.
    fn leave(&mut self, first: Vec<Type>, wide: Vec<Type>) {
        let done = self.open.pop();
        if let (Some(Open { place, inside, .. }), Some(around)) = (done, self.open.last_mut()) {
            around.inside.insert(place, Fit { first, wide, inside });
        }
    }
}

/// Generalizes a type where an earlier attempt generalized it. The results of earlier attempts are
/// discarded, so their symbols can be used again.
fn widened(now: &Type, first: &Type, wide: &Type) -> Type {
    if now == first {
        return wide.clone();
    }
    if first == wide {
        return now.clone();
    }
    match (now, first, wide) {
        (Type::Tensor(now), Type::Tensor(first), Type::Tensor(wide)) => {
            widened_tensor(now, first, wide).into()
        }
        (Type::Sequence(now), Type::Sequence(first), Type::Sequence(wide)) => {
            Type::Sequence(widened(now, first, wide).into())
        }
        (now, first, Type::Optional(wide)) => {
            Type::Optional(widened(now.content(), first.content(), wide).into())
        }
        _ => now.clone(),
    }
}

fn widened_tensor(now: &TensorType, first: &TensorType, wide: &TensorType) -> TensorType {
    if now.dtype != wide.dtype || now.rank() != wide.rank() || first.rank() != wide.rank() {
        return now.clone();
    }
    let sizes = now.shape.iter().zip(first.shape.iter().zip(&wide.shape));
    let size = |(now, (first, wide)): (&Dim, (&Dim, &Dim))| {
        if first == wide { now.clone() } else { wide.clone() }
    };
    TensorType { dtype: now.dtype, shape: sizes.map(size).collect() }
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    /// Returns `depth` nested loops around a node that doubles the length of a tensor.
    fn nested(depth: usize) -> String {
        let mut inner = String::from("r0 = Concat<axis = 0>(v1, v1)");
        for i in 1..=depth {
            inner = format!(
                "r{i} = Loop<body = b{i} (int64 i{i}, bool on{i}, v{i}) => (bool to{i}, r{}) {{
                    to{i} = Identity(on{i})
                    {inner}
                }}>(n, go, v{})",
                i - 1,
                i + 1
            );
        }
        format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[k] v{}, int64 n, bool go) => (r{depth}) {{ {inner} }}",
            depth + 1
        )
    }

    fn nodes(depth: usize) -> usize {
        let imported = crate::Compiler::new(&Options::default()).import(nested(depth).into());
        imported.expect("the model is whole").graph.nodes().count()
    }

    #[test]
    fn nested_loops_cost_the_square_of_their_depth() {
        // A body has two nodes. The outermost is built twice, the next one once more, and so on.
        for depth in [1, 2, 8, 20] {
            let built: usize = (1..=depth).map(|level| 2 * (level + 1)).sum();
            assert_eq!(nodes(depth), built + 1);
        }
    }

    #[test]
    fn nested_loops_give_the_expected_sizes() {
        let run = |depth: usize, iterations: i64| {
            let planned = crate::Compiler::new(&Options::default()).plan(nested(depth).into());
            let v = Tensor::from_floats(&[1.0, 2.0]);
            let given =
                [v, Tensor::from_int(iterations), Tensor::from_bool(true)].map(Value::Tensor);
            let found = interpreter::run(&planned.expect("the model is whole"), &given);
            found.expect("sizes are small")[0].tensor().map(Tensor::len)
        };
        assert_eq!(run(16, 0), Some(2));
        assert_eq!(run(16, 1), Some(4));
        assert_eq!(run(3, 2), Some(2 << 8));
    }
}
