//! Buffers whose places in the arena depend on the sizes of a run.

use super::{BufferId, ComputedSize, DynamicBuffer, Place, Plan, liveness::lives};
use crate::dim::{Dim, Symbol};
use std::{collections::BTreeSet, rc::Rc};

impl Plan {
    /// Returns the symbols that are bound when a run starts: sizes of inputs and of states.
    pub fn start_symbols(&self) -> Vec<&Symbol> {
        let states = self.states.iter().map(|state| &state.found);
        let shapes = self.inputs.iter().chain(states).flat_map(|port| port.shape());
        let mut symbols = Vec::new();
        for symbol in shapes.filter_map(Dim::as_symbol) {
            if !symbols.contains(&symbol) {
                symbols.push(symbol);
            }
        }
        symbols
    }

    /// Returns the value of a symbol: that which is `bound`, a computed size, or else 0.
    pub fn symbol(&self, name: &str, bound: &dyn Fn(&str) -> Option<i64>) -> i64 {
        let compute = |computed: &Rc<dyn ComputedSize>| {
            let size = computed.eval(&|name| self.symbol(name, bound));
            i64::try_from(size).unwrap_or(i64::MAX)
        };
        bound(name).or_else(|| self.computed.get(name).map(compute)).unwrap_or(0)
    }

    /// Adds the symbols that a size depends on, those of the geometry of a computed size included.
    pub fn symbols_of(&self, size: &Dim, found: &mut BTreeSet<Symbol>) {
        let mut symbols = BTreeSet::new();
        size.symbols(&mut symbols);
        for symbol in symbols {
            match self.computed.get(&symbol) {
                Some(computed) => computed.visit(&mut |size| self.symbols_of(size, found)),
                None => drop(found.insert(symbol)),
            }
        }
    }

    /// Returns whether a run places a buffer.
    pub fn is_dynamic(&self, buffer: BufferId) -> bool {
        self.dynamic_buffer(buffer).is_some()
    }

    /// Returns the live range of a buffer that a run places.
    pub fn dynamic_buffer(&self, buffer: BufferId) -> Option<&DynamicBuffer> {
        let found = self.dynamic.binary_search_by_key(&buffer, |dynamic| dynamic.buffer);
        found.ok().map(|i| &self.dynamic[i])
    }

    /// Returns whether a buffer in the arena has a size that is free.
    pub(super) fn has_free_buffers(&self) -> bool {
        self.buffers.iter().any(|(_, buffer)| {
            matches!(&buffer.place, Place::Arena { capacity, .. } if capacity.known().is_none())
        })
    }
}

/// Lists the buffers of a plan with free sizes: a run places all that hold no state.
pub(super) fn list(plan: &mut Plan) {
    plan.dynamic.clear();
    if !plan.has_free_buffers() {
        return;
    }
    let lives = lives(plan);
    let start: BTreeSet<Symbol> = plan.start_symbols().into_iter().cloned().collect();
    let ids: Vec<BufferId> = plan.buffers.ids().collect();
    for buffer in ids {
        let is_placed = matches!(plan.buffers[buffer].place, Place::Arena { .. });
        let Some(life) = lives.get(buffer).filter(|_| is_placed) else { continue };
        if plan.holds_state(buffer) {
            continue;
        }
        let step = |step: usize| u32::try_from(step).expect("a plan has fewer than 2^32 steps");
        let (first, last) = (step(life.first), step(life.last));
        plan.dynamic.push(DynamicBuffer { buffer, first, last });
        // A bounded size that is known at the start needs no more than its own memory.
        let mut symbols = BTreeSet::new();
        plan.symbols_of(&plan.buffers[buffer].len, &mut symbols);
        let len = plan.buffers[buffer].len.clone();
        if let Place::Arena { capacity, .. } = &mut plan.buffers[buffer].place
            && symbols.is_subset(&start)
        {
            *capacity = len;
        }
    }
}
