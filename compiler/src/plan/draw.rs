//! Sources of random numbers.

use super::{Field, SizeText, Symbols};
use onnxc_runtime::random::Stream;

/// The source of random numbers of one call.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// The index of the call among those that draw.
    pub call: usize,
    /// The seed.
    pub seed: Seed,
}

/// The seed of a call.
#[derive(Clone, Copy, Debug)]
pub enum Seed {
    /// A seed in the model.
    Given(u64),
    /// The model's seed, combined with a hash of the call's name.
    Named(u64),
}

impl Draw {
    /// Returns the stream for the draw with the index `iteration`, where `model` is the model's
    /// seed.
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

    fn source(&self, _: &SizeText<'_>) -> String {
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
