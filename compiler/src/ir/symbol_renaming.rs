//! Renames symbols in a copy of a graph: a symbol gets a new name where the node that defines it is
//! copied, and symbolic sizes in operators must follow.

use super::Op;
use crate::{
    dim::{Dim, Symbol},
    ty::{Type, any_size},
};
use std::{
    collections::{BTreeSet, HashMap},
    rc::Rc,
};

/// The renamed symbols. Other symbols keep their names.
#[derive(Clone, Default)]
pub(super) struct Renames {
    to: HashMap<Symbol, Dim>,
}

impl Renames {
    /// Records that type `old` became type `new` in the copy; only symbols in `settled` are
    /// renamed.
    pub fn types(&mut self, settled: &BTreeSet<Symbol>, old: &Type, new: &Type) {
        if settled.is_empty() || old.sizes().len() != new.sizes().len() {
            return;
        }
        for (old, new) in old.sizes().iter().zip(new.sizes()) {
            let symbol = old.as_symbol().filter(|symbol| settled.contains(*symbol));
            if let Some(symbol) = symbol.filter(|_| ![old, new].contains(&&any_size())) {
                self.to.insert(symbol.clone(), new.clone());
            }
        }
    }

    /// Records that the symbols `old` became `new` in the copy.
    pub fn symbols(&mut self, old: &[Symbol], new: &[Symbol]) {
        if old.len() == new.len() {
            let each = old.iter().cloned().zip(new.iter().map(|name| Dim::symbol(name)));
            self.to.extend(each);
        }
    }

    /// Returns the operator with renamed symbols.
    pub fn op(&self, op: &Rc<dyn Op>) -> Rc<dyn Op> {
        let named = op.with_sizes(&|dim| dim.rename(&|name| self.to.get(name).cloned()));
        named.unwrap_or_else(|| op.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    #[test]
    fn simplified_sizes_are_unchanged() {
        // Simplification replaces shapes by sizes, so the inner loop matters for its size only, and
        // each copy defines another symbol.
        let model = "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[2] x, int64 n, bool c) => (float[m] last, float[k] other, int64[t, 3] all)
            {
                last, other, all = Loop<body = b (int64 i, bool on, v, u) => (bool to, w, z, s) {
                    to = Identity(on)
                    w = Concat<axis = 0>(v, x)
                    z = Concat<axis = 0>(u, x, x)
                    l = Loop<body = d (int64 j, bool still, r) => (bool goes, y) {
                        goes = Identity(still)
                        y = Concat<axis = 0>(r, u)
                    }>(n, c, x)
                    s0 = Shape(v) s1 = Shape(u) s2 = Shape(l)
                    s = Concat<axis = 0>(s0, s1, s2)
                }>(n, c, x, x)
            }";
        let planned = crate::Compiler::new(&Options::default()).plan(model.into());
        let given =
            [Tensor::from_floats(&[1.0, 2.0]), Tensor::from_int(3), Tensor::from_bool(true)];
        let plan = planned.expect("the model is whole");
        let found = interpreter::run(&plan, &given.map(Value::Tensor)).expect("sizes are small");
        let all = found[2].tensor().and_then(Tensor::ints);
        assert_eq!(all, Some(vec![2, 2, 8, 4, 6, 20, 6, 10, 32]));
    }
}
