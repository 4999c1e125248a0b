//! Running a model that learns, with the very kernels that generated code calls.

use super::Session;
use crate::{plan::Training, tensor::Tensor, value::Value};
use onnxc_runtime::{Error, Result};

/// A model that learns, and what it has learned.
pub struct Learner<'t> {
    training: &'t Training,
    /// The variables, in the model's order.
    variables: Vec<Tensor>,
    infer: Session<'t>,
    init: Session<'t>,
    steps: Vec<Session<'t>>,
}

impl<'t> Learner<'t> {
    /// With the variables as they are at first.
    pub fn new(training: &'t Training) -> Learner<'t> {
        Learner {
            training,
            variables: training.initial().collect(),
            infer: Session::new(&training.infer),
            init: Session::new(&training.init),
            steps: training.steps.iter().map(|step| Session::new(&step.plan)).collect(),
        }
    }

    /// Sets the variables to what they are at first.
    pub fn reset(&mut self) {
        *self = Learner::new(self.training);
    }

    /// Sets the variables to what the initializations make of them.
    ///
    /// # Errors
    ///
    /// Where an initialization refuses its own constants.
    pub fn init(&mut self) -> Result {
        self.reset();
        run(&mut self.init, &mut self.variables, &[]).map(drop)
    }

    /// Runs an algorithm once, by its number.
    ///
    /// # Errors
    ///
    /// Where the inputs do not fit. The variables are then as they were.
    pub fn step(&mut self, algorithm: usize, inputs: &[Value]) -> Result<Vec<Value>> {
        let session = self.steps.get_mut(algorithm);
        let session = session.ok_or(Error::Value("the model has no algorithm of that number"))?;
        run(session, &mut self.variables, inputs)
    }

    /// Runs inference, which leaves the variables as they are.
    ///
    /// # Errors
    ///
    /// Where the inputs do not fit.
    pub fn infer(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        run(&mut self.infer, &mut self.variables, inputs)
    }

    /// The variables with their names, in the model's order.
    pub fn state(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.training.variables().map(|port| &*port.name).zip(&self.variables)
    }

    /// Sets the variable of that name.
    ///
    /// # Errors
    ///
    /// Where there is none, or it is of another type or shape.
    pub fn load_state(&mut self, name: &str, tensor: Tensor) -> Result {
        let at = self.training.variables().position(|port| port.name == name);
        let at = at.ok_or(Error::Value("the model has no variable of that name"))?;
        if tensor.ty() != self.variables[at].ty() {
            return Err(Error::Value("a variable is of another type or shape"));
        }
        self.variables[at] = tensor;
        Ok(())
    }
}

/// Runs a plan of a model that learns.
fn run(
    session: &mut Session<'_>,
    variables: &mut Vec<Tensor>,
    inputs: &[Value],
) -> Result<Vec<Value>> {
    session.states = Some(variables.clone());
    let outputs = session.run(inputs)?;
    variables.clone_from(session.states.as_ref().expect("a run leaves states"));
    Ok(outputs)
}
