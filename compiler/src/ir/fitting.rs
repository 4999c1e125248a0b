//! The types of what loops hand from turn to turn, found by building their bodies again with wider
//! ones. A loop inside a loop is built again whenever that is; it starts with what it came to
//! before, else loops inside each other would take time that doubles with each of them.

use crate::{
    dim::Dim,
    ty::{TensorType, Type},
};
use std::{collections::HashMap, hash::Hash};

/// The loops that are being built, each inside the one before; `K` tells them apart.
pub(crate) struct Fitting<K> {
    around: Vec<Turn<K>>,
}

/// What the loops inside a loop came to: in the turn before, and in this one.
struct Turn<K> {
    last: HashMap<K, Fit<K>>,
    now: HashMap<K, Fit<K>>,
}

/// What a loop came to.
struct Fit<K> {
    /// The types that it started with.
    first: Vec<Type>,
    /// Those that are wide enough.
    wide: Vec<Type>,
    inner: HashMap<K, Fit<K>>,
}

impl<K> Default for Fitting<K> {
    fn default() -> Fitting<K> {
        Fitting { around: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash> Fitting<K> {
    /// Starts with a loop, whose types are `first` as far as can be said from outside; gives the
    /// types to try.
    pub(crate) fn start(&mut self, loop_: K, first: &[Type]) -> Vec<Type> {
        // Taken out, for sizes that change from turn to turn are those of one loop alone.
        let before = self.around.last_mut().and_then(|turn| turn.last.remove(&loop_));
        let before = before.filter(|fit| fit.first.len() == first.len());
        let types = match &before {
            None => first.to_vec(),
            Some(fit) => {
                let old = fit.first.iter().zip(&fit.wide);
                first.iter().zip(old).map(|(ty, (first, wide))| widened(ty, first, wide)).collect()
            }
        };
        let last = before.map(|fit| fit.inner).unwrap_or_default();
        self.around.push(Turn { last, now: HashMap::new() });
        types
    }

    /// Has the innermost loop built once more.
    pub(crate) fn again(&mut self) {
        if let Some(turn) = self.around.last_mut() {
            turn.last = std::mem::take(&mut turn.now);
        }
    }

    /// Is done with the innermost loop.
    pub(crate) fn done(&mut self, loop_: K, first: Vec<Type>, wide: &[Type]) {
        let inner = self.around.pop().map(|turn| turn.now).unwrap_or_default();
        if let Some(outer) = self.around.last_mut() {
            outer.now.insert(loop_, Fit { first, wide: wide.to_vec(), inner });
        }
    }
}

/// The type with those sizes open that were open before.
fn widened(ty: &Type, first: &Type, wide: &Type) -> Type {
    let (Type::Tensor(now), Type::Tensor(first), Type::Tensor(wide)) = (ty, first, wide) else {
        return ty.clone();
    };
    if now.dtype != wide.dtype || now.rank() != wide.rank() || first.rank() != wide.rank() {
        return ty.clone();
    }
    let sizes = now.shape.iter().zip(first.shape.iter().zip(&wide.shape));
    let size = |(now, (first, wide)): (&Dim, (&Dim, &Dim))| {
        if first == wide { now.clone() } else { wide.clone() }
    };
    TensorType { dtype: now.dtype, shape: sizes.map(size).collect() }.into()
}

#[cfg(test)]
mod tests {
    use crate::{Options, host, tensor::Tensor, value::Value};

    /// Loops inside each other, `depth` of them around a node that makes a tensor twice as long.
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

    #[test]
    fn loops_inside_each_other_are_fitted_once() {
        let planned = crate::plan(nested(16).into(), &Options::default(), &mut |_, _| {});
        let (plan, _) = planned.expect("the model is whole");
        let given = |turns| {
            let v = Tensor::from_floats(&[1.0, 2.0]);
            [v, Tensor::from_int(turns), Tensor::from_bool(true)].map(Value::Tensor)
        };
        for (turns, len) in [(0, 2), (1, 4)] {
            let found = host::run(&plan, &given(turns)).expect("sizes are small");
            assert_eq!(found[0].tensor().map(Tensor::len), Some(len));
        }
        let planned = crate::plan(nested(3).into(), &Options::default(), &mut |_, _| {});
        let found = host::run(&planned.expect("it is whole").0, &given(2)).expect("it runs");
        assert_eq!(found[0].tensor().map(Tensor::len), Some(2 << 8));
    }
}
