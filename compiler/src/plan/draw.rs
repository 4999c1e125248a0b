//! What the calls draw from that give random numbers.

use super::{Field, Symbols};
use onnxc_runtime::random::Stream;

/// What one call draws from.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// Its number among the calls that draw.
    pub call: usize,
    /// Where its numbers start.
    pub seed: Seed,
}

/// Where random numbers start.
#[derive(Clone, Copy, Debug)]
pub enum Seed {
    /// At a number that the model says.
    Given(u64),
    /// At the seed of the whole model and what stands for the call's name.
    Named(u64),
}

impl Draw {
    /// The stream, where the call drew so often before, and the whole model has that seed.
    pub fn stream(self, model: u64, iteration: u64) -> Stream {
        match self.seed {
            Seed::Given(seed) => Stream::given(seed, iteration),
            Seed::Named(name) => Stream::named(model, name, iteration),
        }
    }
}

impl Field for Draw {
    type Number = Draw;
    type Given<'a> = Draw;

    fn source(&self) -> String {
        let call = self.call;
        match self.seed {
            Seed::Given(seed) => format!("draws.given({call}, {seed})"),
            Seed::Named(name) => format!("draws.named({call}, {name:#018x})"),
        }
    }

    fn uses(&self, paths: &mut Vec<&'static str>) {
        paths.push("random::Draws");
    }

    fn number(&self, _: &Symbols<'_>) -> Draw {
        *self
    }

    fn give(number: &Draw) -> Draw {
        *number
    }
}
