//! Runs a training model: inference, initialization and training steps over the same variables.

use super::Session;
use crate::{plan::Training, tensor::Tensor, value::Value};
use onnxc_runtime::{Error, Result};

/// A training model and its variables.
pub struct Learner<'t> {
    training: &'t Training,
    /// The values of the variables, in the model's order.
    variables: Vec<Tensor>,
    infer: Session<'t>,
    init: Session<'t>,
    steps: Vec<Session<'t>>,
}

impl<'t> Learner<'t> {
    /// Creates a learner whose variables have their initial values.
    pub fn new(training: &'t Training) -> Learner<'t> {
        Learner {
            training,
            variables: training.initial().collect(),
            infer: Session::new(&training.infer),
            init: Session::new(&training.init),
            steps: training.steps.iter().map(|step| Session::new(&step.plan)).collect(),
        }
    }

    /// Sets the variables to their initial values.
    pub fn reset(&mut self) {
        *self = Learner::new(self.training);
    }

    /// Resets the variables and runs the initialization graphs.
    ///
    /// # Errors
    ///
    /// Returns the error of an initialization graph.
    pub fn init(&mut self) -> Result {
        self.reset();
        run(&mut self.init, &mut self.variables, &[]).map(drop)
    }

    /// Runs one iteration of the algorithm with the index `algorithm`.
    ///
    /// # Errors
    ///
    /// Returns an error if the inputs do not match the algorithm. The variables are then unchanged.
    pub fn step(&mut self, algorithm: usize, inputs: &[Value]) -> Result<Vec<Value>> {
        let session = self.steps.get_mut(algorithm);
        let session = session.ok_or(Error::Value("the model has no algorithm of that number"))?;
        run(session, &mut self.variables, inputs)
    }

    /// Runs inference, which does not change the variables.
    ///
    /// # Errors
    ///
    /// Returns an error if the inputs do not match the model.
    pub fn infer(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        run(&mut self.infer, &mut self.variables, inputs)
    }

    /// Returns the variables with their names, in the model's order.
    pub fn state(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.training.variables().map(|port| &*port.name).zip(&self.variables)
    }

    /// Sets the variable called `name`.
    ///
    /// # Errors
    ///
    /// Returns an error for an unknown name, or a tensor of another type or shape.
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

/// Runs one plan of a training model on the variables.
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
