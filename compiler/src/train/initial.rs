//! The initialization graph, which sets variables to their initial values.

use super::{
    graph_builder::Draft,
    optimizer::Update,
    seeds::Seeds,
    statistic::Statistic,
    survey::{Role, Variable},
};
use crate::{
    choice::choices, dtype::DType, ident::Names, ir::Attribute, tensor::Tensor, ty::count,
};
use onnxc_proto::{GraphProto, StringStringEntryProto, TensorProto};
use std::collections::BTreeMap;

/// The initialization of weights. Biases and the optimizer's variables are zero, scales of
/// normalizations one; running statistics have mean 0 and variance 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initial {
    /// Uniform in ±√(6 / fan_in), which preserves magnitudes through `Relu` (He and others, 2015).
    #[default]
    Kaiming,
    /// Uniform in ±√(6 / (fan_in + fan_out)), for `Tanh` and `Sigmoid` (Glorot and Bengio, 2010).
    Xavier,
    /// The values in the file, for pretrained weights.
    Keep,
}

choices! { Initial:
    Kaiming "kaiming" "Uniform by fan-in (He et al.), biases zero: for `Relu`";
    Xavier "xavier" "Uniform by fan-in and fan-out (Glorot and Bengio), biases zero: for `Tanh` \
        and `Sigmoid`";
    Keep "keep" "As in the file";
}

/// The graph, and the bindings of its outputs to variables.
pub type Bound = (GraphProto, Vec<StringStringEntryProto>);

/// Writes the initialization of variables, statistics, and the optimizer's variables. `own` has the
/// last as the algorithm declares them.
pub fn write(
    initial: Initial,
    (seeds, opset): (&mut Seeds, i64),
    variables: &[Variable],
    statistics: &[Statistic],
    updates: &[Update],
    own: &[TensorProto],
) -> Bound {
    let draft = Draft::new("initialization", Names::default());
    let mut first = First { draft, initial, opset };
    let mut bindings = Vec::new();
    if initial != Initial::Keep {
        for variable in variables {
            let value = first.value(variable, seeds.draw());
            bindings.push(binding(&variable.name, &value));
        }
        for Statistic { variable, dtype, shape, first: number, .. } in statistics {
            let value = first.filled(&named(variable), *dtype, shape, *number);
            bindings.push(binding(variable, &value));
        }
    }
    let mut zeros = BTreeMap::new();
    for state in updates.iter().filter(|update| update.is_state).map(|update| &update.variable) {
        let Some(tensor) = own.iter().find(|tensor| tensor.name() == state) else { continue };
        let value = zeros
            .entry((tensor.data_type(), tensor.dims.clone()))
            .or_insert_with(|| first.zeros(tensor));
        bindings.push(binding(state, value));
    }
    (first.draft.finish(), bindings)
}

/// Returns a binding of a variable to the value that it receives.
pub fn binding(variable: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(variable.to_owned()), value: Some(value.to_owned()) }
}

/// The initialization graph under construction.
struct First {
    draft: Draft,
    initial: Initial,
    opset: i64,
}

impl First {
    /// Writes the initial value of a variable and returns its name.
    fn value(&mut self, x: &Variable, seed: Option<u32>) -> String {
        /// PyTorch's initial slope of `PReLU`.
        const SLOPE: f64 = 0.25;
        /// The standard deviation with which transformers are initialized.
        const SMALL: f64 = 0.02;
        match x.role {
            Role::Weight { fan_in, fan_out } => {
                let terms = match self.initial {
                    Initial::Xavier => fan_in + fan_out,
                    Initial::Kaiming | Initial::Keep => fan_in,
                };
                self.uniform(x, (6.0 / terms.max(1.0)).sqrt(), seed)
            }
            Role::Gate(size) => self.uniform(x, size.max(1.0).sqrt().recip(), seed),
            Role::Table => self.normal(x, 1.0, seed),
            Role::Other => self.normal(x, SMALL, seed),
            Role::Scale => self.filled(&named(&x.name), x.dtype, &x.shape, 1.0),
            Role::Slope => self.filled(&named(&x.name), x.dtype, &x.shape, SLOPE),
            Role::Bias => self.filled(&named(&x.name), x.dtype, &x.shape, 0.0),
        }
    }

    fn uniform(&mut self, x: &Variable, most: f64, seed: Option<u32>) -> String {
        let (low, high) = (Attribute::Float(-most as f32), Attribute::Float(most as f32));
        self.drawn("RandomUniform", x, vec![("low", low), ("high", high)], seed)
    }

    fn normal(&mut self, x: &Variable, deviation: f64, seed: Option<u32>) -> String {
        let (mean, scale) = (Attribute::Float(0.0), Attribute::Float(deviation as f32));
        self.drawn("RandomNormal", x, vec![("mean", mean), ("scale", scale)], seed)
    }

    /// Writes random numbers.
    fn drawn(
        &mut self,
        op: &str,
        x: &Variable,
        mut attributes: Vec<(&str, Attribute)>,
        seed: Option<u32>,
    ) -> String {
        // ONNX's seeds are floats, which represent integers exactly up to this one.
        const SEEDS: u32 = 1 << 24;
        attributes.extend([
            ("dtype", Attribute::Int(i64::from(x.dtype.code()))),
            ("shape", Attribute::Ints(sizes(&x.shape))),
        ]);
        attributes.extend(seed.map(|seed| ("seed", Attribute::Float((seed % SEEDS) as f32))));
        let value = self.draft.node_with(op, &[], &named(&x.name), attributes);
        self.draft.give(&value, x.dtype, &x.shape);
        value
    }

    /// Writes the initial value of an optimizer's variable.
    fn zeros(&mut self, tensor: &TensorProto) -> String {
        let shape: Vec<usize> = tensor.dims.iter().map(|&size| size as usize).collect();
        let dtype = DType::from_code(tensor.data_type()).unwrap_or(DType::F32);
        let sizes = shape.iter().fold("zeros".to_owned(), |name, size| format!("{name}_{size}"));
        self.filled(&sizes, dtype, &shape, 0.0)
    }

    /// Writes a tensor filled with a number.
    fn filled(&mut self, name: &str, dtype: DType, shape: &[usize], value: f64) -> String {
        /// The first version with `ConstantOfShape`.
        const OF_SHAPE_SINCE: i64 = 9;
        let number = match dtype {
            DType::I64 => Tensor::from_ints(&[value as i64]),
            _ => Tensor::from_numbers(dtype, vec![1], &[value])
                .expect("variables are of floating-point types"),
        };
        let value = if shape.is_empty() || self.opset < OF_SHAPE_SINCE {
            let places = vec![0; count(shape)];
            let filled = Tensor { shape: shape.to_vec(), ..number.take(&places) };
            let filled = vec![("value", Attribute::Tensor(filled))];
            self.draft.node_with("Constant", &[], name, filled)
        } else {
            let sizes = Tensor::from_ints(&sizes(shape));
            let sizes = self.draft.constant(&format!("{name}.shape"), sizes);
            let number = vec![("value", Attribute::Tensor(number))];
            self.draft.node_with("ConstantOfShape", &[&sizes], name, number)
        };
        self.draft.give(&value, dtype, shape);
        value
    }
}

fn named(variable: &str) -> String {
    format!("{variable}.initial")
}

fn sizes(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}
