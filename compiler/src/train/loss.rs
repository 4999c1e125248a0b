//! The losses that a model can be trained with.

/// How far outputs lie from what was wanted: the mean over all samples, or over all elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The square of the difference.
    Mse,
    /// The size of the difference.
    Mae,
    /// The half square of differences up to 1, and from there on a straight line.
    Huber,
    /// That of a class among others; outputs are logits (or the `Softmax` of such).
    CrossEntropy,
    /// That of each output for itself, wanted to be 0 or 1; outputs are logits (or the `Sigmoid` of
    /// such).
    Bce,
    /// The negated logarithm of a class's probability; outputs are logarithms of probabilities.
    Nll,
}

impl Loss {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Mse => "mse",
            Loss::Mae => "mae",
            Loss::Huber => "huber",
            Loss::CrossEntropy => "cross-entropy",
            Loss::Bce => "bce",
            Loss::Nll => "nll",
        }
    }

    /// Whether what is wanted is the number of a class.
    pub fn is_of_classes(self) -> bool {
        matches!(self, Loss::CrossEntropy | Loss::Nll)
    }

    /// The oldest version of the main operator set that has what the loss is made of.
    pub fn since(self) -> i64 {
        // Before, `Add` and its kin did not broadcast their operands.
        const BROADCASTING: i64 = 7;
        const ONE_HOT: i64 = 9;
        if self.is_of_classes() { ONE_HOT } else { BROADCASTING }
    }
}
