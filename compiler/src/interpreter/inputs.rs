//! Inputs and states of a run: stores them, and binds the symbols of their shapes.

use super::{Interpreter, initial_state::initial_state};
use crate::{
    array::Array,
    dim::Symbol,
    plan::{Place, Port, State, kept},
    tensor::Tensor,
    ty::Type,
    value::Value,
};
use onnxc_runtime::{Error, Result};

const OTHER_KIND: Error = Error::Value("an input is of another kind than the model expects");

impl Interpreter<'_, '_> {
    /// Stores an input and binds the symbols of its shape.
    pub fn set_input(&mut self, port: &Port, value: &Value) -> Result {
        let id = port.operand.buffer;
        match value {
            Value::Tensor(tensor)
                if port.ty.content().kept().is_some() && tensor.dtype == port.dtype() =>
            {
                self.bind_input(port, tensor)?;
                self.arrays.insert(id, Array::from_tensor(tensor));
                self.set_companion(port, Array::Bool(vec![true]));
            }
            Value::Sequence(tensors) if port.ty.content().element().is_some() => {
                let tensors: Option<Vec<Tensor>> =
                    tensors.iter().map(|value| value.tensor().cloned()).collect();
                let is_own = |tensors: &Vec<Tensor>| {
                    tensors.iter().all(|tensor| tensor.dtype == port.dtype())
                };
                let tensors = tensors.filter(is_own).ok_or(OTHER_KIND)?;
                self.arrays.insert(id, Array::sequence_of(port.dtype(), &tensors));
                self.set_companion(port, Array::Bool(vec![true]));
            }
            Value::Map(keys, values)
                if port.ty.key() == Some(keys.dtype) && values.dtype == port.dtype() =>
            {
                self.bind_input(port, values)?;
                self.arrays.insert(id, Array::from_tensor(values));
                self.set_companion(port, Array::from_tensor(keys));
            }
            Value::Optional(Some(value)) => self.set_input(port, value)?,
            Value::Optional(None) if port.default.is_some() => {
                let default = self.plan.initial(port).expect("a default is a constant").clone();
                self.set_input(port, &default.into())?;
            }
            Value::Optional(None) if matches!(port.ty, Type::Optional(_)) => {
                self.set_companion(port, Array::Bool(vec![false]));
            }
            _ => return Err(OTHER_KIND),
        }
        Ok(())
    }

    /// Stores the states of the previous run, or the initial ones.
    pub fn set_states(&mut self, states: Option<&[Tensor]>) -> Result {
        let plan = self.plan;
        let bound = self.symbols.borrow().clone();
        for (i, State { found, .. }) in plan.states.iter().enumerate() {
            let tensor = match states {
                Some(states) => states[i].clone(),
                None => initial_state(plan, found, &bound)?,
            };
            self.bind_input(found, &tensor)?;
            // The next state may be larger.
            let capacity = match &plan.buffers[found.operand.buffer].place {
                Place::Arena { capacity, .. } => self.size(capacity),
                Place::Input(_) | Place::Weight { .. } | Place::Heap => tensor.len(),
            };
            let mut array = Array::try_zeroed(tensor.dtype, capacity.max(tensor.len()))?;
            array.set_part(0, Array::from_tensor(&tensor));
            self.arrays.insert(found.operand.buffer, array);
        }
        Ok(())
    }

    fn set_companion(&mut self, port: &Port, array: Array) {
        if let Some(companion) = &port.companion {
            self.arrays.insert(companion.buffer, array);
        }
    }

    /// Binds the symbols of an input's shape, and checks the sizes that are known already.
    fn bind_input(&mut self, port: &Port, tensor: &Tensor) -> Result {
        let shape = port.shape();
        if shape.len() != tensor.shape.len() {
            return Err(Error::Length { expected: shape.len(), found: tensor.shape.len() });
        }
        for (axis, (dim, &size)) in shape.iter().zip(&tensor.shape).enumerate() {
            match dim.as_symbol() {
                Some(name) if !self.symbols.borrow().contains_key(name) => {
                    self.check_bound(name, size)?;
                    self.symbols.borrow_mut().insert(name.clone(), size as i64);
                }
                _ => {
                    let expected = self.size(dim);
                    if expected != size {
                        let (input, wanted) = (kept(&port.name), kept(&format!("{dim:?}")));
                        return Err(Error::Size { input, axis, wanted, expected, found: size });
                    }
                }
            }
        }
        Ok(())
    }

    fn check_bound(&self, symbol: &Symbol, found: usize) -> Result {
        let Some(size) = self.plan.symbols.get(symbol) else { return Ok(()) };
        match size.max.and_then(|max| usize::try_from(max).ok()) {
            Some(bound) if found > bound => {
                Err(Error::Bound { name: kept(&size.label), bound, found })
            }
            _ => Ok(()),
        }
    }
}
