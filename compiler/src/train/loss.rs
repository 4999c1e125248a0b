//! The losses that a model can be trained with.

use crate::choice::choices;

/// The loss, averaged over all samples or over all elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The squared difference.
    Mse,
    /// The absolute difference.
    Mae,
    /// Half the squared difference up to 1, linear beyond.
    Huber,
    /// Cross entropy of classes; outputs are logits, or their `Softmax`.
    CrossEntropy,
    /// Binary cross entropy of each output with a label of 0 or 1; outputs are logits, or their
    /// `Sigmoid`.
    Bce,
    /// Negative log-likelihood of classes; outputs are log-probabilities.
    Nll,
}

choices! { Loss:
    Mse "mse" "The mean squared difference";
    Mae "mae" "The mean absolute difference";
    Huber "huber" "Half the squared difference up to 1, linear beyond";
    CrossEntropy "cross-entropy" "Cross entropy of classes; the output is logits, or their \
        `Softmax`";
    Bce "bce" "Binary cross entropy of each output with a label of 0 or 1; the output is logits, \
        or their `Sigmoid`";
    Nll "nll" "Negative log-likelihood of classes; the output is log-probabilities";
}

impl Loss {
    /// Returns whether the label is the index of a class.
    pub fn is_of_classes(self) -> bool {
        matches!(self, Loss::CrossEntropy | Loss::Nll)
    }

    /// Returns the oldest version of the main operator set that has the operators of the loss.
    pub fn since(self) -> i64 {
        // Before this version, `Add` and similar operators do not broadcast.
        const BROADCASTING: i64 = 7;
        const ONE_HOT: i64 = 9;
        if self.is_of_classes() { ONE_HOT } else { BROADCASTING }
    }
}
