//! A running mean of the weights, which has a smaller error than the weights after any one step
//! (Polyak and Juditsky).

use crate::digits::Digits;
use onnxc_runtime::Result;

/// The share of the newest weights in the mean.
const SHARE: f32 = 0.01;

/// A network whose variables are the mean of another's.
pub struct Mean(Box<Digits>);

impl Mean {
    /// Starts with the current variables of `model`.
    pub fn of(model: &mut Digits) -> Result<Mean> {
        let mut mean = Mean(Box::default());
        mean.mix(model, 1.0)?;
        Ok(mean)
    }

    /// Updates the mean with the variables after a step.
    pub fn follow(&mut self, model: &mut Digits) -> Result {
        self.mix(model, SHARE)
    }

    /// Returns the network with the mean weights, for inference.
    pub fn model(&mut self) -> &mut Digits {
        &mut self.0
    }

    fn mix(&mut self, model: &mut Digits, share: f32) -> Result {
        for variable in model.variables().all().iter().filter(|variable| variable.ty == "float") {
            let (mean, now) = (numbers(&mut self.0, variable.name), numbers(model, variable.name));
            let mixed = mean.iter().zip(now).map(|(mean, now)| mean + share * (now - mean));
            let bytes: Vec<u8> = mixed.flat_map(f32::to_le_bytes).collect();
            self.0.load_state(variable.name, &bytes)?;
        }
        Ok(())
    }
}

fn numbers(model: &mut Digits, variable: &str) -> Vec<f32> {
    let (numbers, _) = model.state(variable).unwrap_or_default().as_chunks();
    numbers.iter().map(|&number| f32::from_le_bytes(number)).collect()
}
