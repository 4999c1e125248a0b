//! A difference between a compiled model and a reference, in parts of the model.

use super::{
    base,
    part::{Part, Whole},
};
use crate::cli::{
    compare::{
        self,
        metrics::{self, Row},
        reference::{Case, Reference, Sides},
        values::{Name, Values},
    },
    inputs::callable,
    tolerance::Tolerance,
};
use onnxc::{
    Compiler, Options,
    diag::{Code, Diagnostic, Diagnostics},
    interpreter,
    plan::Plan,
    tensor::Tensor,
    value::Value,
};
use onnxc_proto::{Bytes, Message};

/// A difference that a model shows.
pub struct Difference {
    settings: Options,
    tolerance: Tolerance,
    /// The values that the inputs of a part have.
    recorded: Values,
    expected: Expected,
    /// The first value that departs.
    first: String,
    bytes: Bytes,
}

/// The values that the outputs of a part should have.
enum Expected {
    /// The values of the reference for the whole model.
    Recorded(Values),
    /// The values of the part, compiled with these options.
    Computed(Box<Options>),
}

/// Returns an error for a reference that has no values between the nodes.
pub fn require_values(reference: &Reference) -> Result<(), Diagnostic> {
    if !matches!(reference, Reference::DataSet(_)) {
        return Ok(());
    }
    let message = "a data set has no values between the nodes, which a part needs as inputs";
    Err(Diagnostic::new(Code::BadOption, message)
        .help("set `--with onnxruntime`, or an `.npz` file of values"))
}

impl Difference {
    /// Compares a model with the reference.
    ///
    /// # Errors
    ///
    /// Returns an error if they agree.
    pub fn of(sides: &Sides, case: &Case<'_>, reference: &Reference) -> Result<Self, Diagnostics> {
        let values = sides.values(reference, case)?;
        let found = case.compiled.run(&case.given)?;
        let tolerance = sides.tolerance(reference)?;
        let compared = compare::compare(&case.compiled, &found, &values, tolerance);
        let Some(first) = compared.first() else {
            let message = "there is nothing to reduce: the model agrees with the reference";
            return Err(Diagnostic::new(Code::BadOption, message)
                .help("set `--rtol` and `--atol` to see smaller differences")
                .into());
        };
        let mut settings = case.settings.clone();
        let (mut recorded, expected) = match reference {
            Reference::Option(name, value) => {
                settings.set(name, value)?;
                (case.before_fusion()?, Expected::Computed(Box::new(settings)))
            }
            _ => (values.clone(), Expected::Recorded(values)),
        };
        let inputs = case.inputs().into_iter();
        recorded.extend(inputs.filter_map(|(name, value)| Some((name, value.into_tensor()?))));
        Ok(Difference {
            settings: case.settings.clone(),
            tolerance,
            recorded,
            expected,
            first: first.value.clone(),
            bytes: case.bytes.clone(),
        })
    }

    /// Returns a model that shows the difference.
    ///
    /// # Errors
    ///
    /// Returns an error if no part of the model does, because the values do not differ where the
    /// model is cut.
    pub fn whole(&self) -> Result<Whole, Diagnostics> {
        let models = [base::folded, base::imported].into_iter();
        let models = models.filter_map(|of| of(&self.bytes, &self.settings));
        let whole = |model| Whole::new(model, Default::default(), self.recorded.clone());
        let shows = |whole: &Whole| {
            let nodes: Vec<usize> = (0..whole.len()).collect();
            whole.part(&nodes, &self.watched()).is_some_and(|part| self.row(&part).is_some())
        };
        models.map(whole).find(shows).ok_or_else(|| {
            let message = "the difference disappears when its value becomes an output of the model";
            Diagnostic::new(Code::Unsupported, message)
                .note(format!("the value is `{}`", self.first))
                .help("`onnxc compare` shows all values that differ")
                .into()
        })
    }

    /// The values that are outputs of every part that computes them.
    pub fn watched(&self) -> Vec<String> {
        vec![self.first.clone()]
    }

    /// Returns the first output of a part that departs.
    pub fn row(&self, part: &Part) -> Option<Row> {
        let bytes = Bytes::from(part.model.encode_to_vec());
        let outputs = run(&bytes, &base::restricted(&self.settings, &part.model), &self.recorded)?;
        let expected = self.expected_in(&bytes, part)?;
        outputs.iter().find_map(|(name, found)| {
            let place = Name { value: name.clone(), ..Name::default() };
            let row = metrics::compare(&place, found, expected.get(name)?, self.tolerance)?;
            row.departs().then_some(row)
        })
    }

    /// Returns the inputs and the expected outputs of a part, in the order of its model.
    pub fn data(&self, part: &Part) -> [Vec<(String, Tensor)>; 2] {
        let graph = part.model.graph.iter();
        let inputs = graph.flat_map(|graph| &graph.input).map(|input| input.name().to_owned());
        let pairs = |names: &mut dyn Iterator<Item = String>, values: &Values| {
            names.filter_map(|name| Some((name.clone(), values.get(&name)?.clone()))).collect()
        };
        let expected = self.expected_in(&part.model.encode_to_vec().into(), part);
        let outputs = &mut part.outputs.iter().cloned();
        [
            pairs(&mut inputs.into_iter(), &self.recorded),
            pairs(outputs, &expected.unwrap_or_default()),
        ]
    }

    fn expected_in(&self, bytes: &Bytes, part: &Part) -> Option<Values> {
        match &self.expected {
            Expected::Recorded(values) => {
                let pair = |name: &String| Some((name.clone(), values.get(name)?.clone()));
                Some(part.outputs.iter().filter_map(pair).collect())
            }
            Expected::Computed(settings) => {
                run(bytes, &base::restricted(settings, &part.model), &self.recorded)
            }
        }
    }
}

/// Runs a model on the recorded values of its inputs. Returns `None` if it cannot be compiled or
/// run.
fn run(bytes: &Bytes, settings: &Options, recorded: &Values) -> Option<Values> {
    let plan: Plan = Compiler::new(settings).plan(bytes.clone()).ok()?;
    callable(&plan).ok()?;
    let input = |port: &onnxc::plan::Port| match recorded.get(&port.name) {
        Some(tensor) => Some(Value::Tensor(tensor.clone())),
        None => port.default.is_some().then_some(Value::Optional(None)),
    };
    let inputs = plan.inputs.iter().map(input).collect::<Option<Vec<_>>>()?;
    let outputs = interpreter::Session::new(&plan).run(&inputs).ok()?;
    let names = plan.outputs.iter().map(|port| port.name.clone());
    Some(
        names.zip(outputs).filter_map(|(name, value)| Some((name, value.into_tensor()?))).collect(),
    )
}
