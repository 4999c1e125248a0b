//! The mean of what weights were of late, which errs less than the weights after any one step
//! (Polyak and Juditsky).

use crate::digits::Digits;
use onnxc_runtime::Result;

/// How much a step changes the mean.
const SHARE: f32 = 0.01;

/// A network whose variables are the mean of another's.
pub struct Mean(Box<Digits>);

impl Mean {
    /// Starts from what the variables are now.
    pub fn of(model: &mut Digits) -> Result<Mean> {
        let mut mean = Mean(Box::default());
        mean.mix(model, 1.0)?;
        Ok(mean)
    }

    /// Takes in what a step made of the variables.
    pub fn follow(&mut self, model: &mut Digits) -> Result {
        self.mix(model, SHARE)
    }

    /// The network, to classify with.
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
