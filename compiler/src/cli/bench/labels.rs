//! Labels: integers, whose number of classes a loss determines.

use onnxc::ir::Graph;
use std::collections::BTreeMap;

/// The losses. Their second input is the label, and the second axis of the first has the classes.
const LOSSES: [&str; 2] = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"];

/// The number of classes of labels, by the name of the input.
#[derive(Default)]
pub struct Labels(BTreeMap<String, usize>);

impl Labels {
    /// Records the losses in a graph.
    pub fn record(&mut self, graph: &Graph) {
        let losses = graph.walk(graph.body).filter(|(_, node)| LOSSES.contains(&node.op.name()));
        for (_, node) in losses {
            let &[Some(scores), Some(label), ..] = &node.inputs[..] else { continue };
            let shape = graph[scores].ty.kept().map_or(&[][..], |ty| &ty.shape);
            let classes = shape.get(1).and_then(|dim| dim.known()?.try_into().ok());
            self.0.extend(classes.map(|classes| (graph[label].name.clone(), classes)));
        }
    }

    /// The number of classes of the labels of an input, if it is known.
    pub fn classes(&self, input: &str) -> Option<usize> {
        self.0.get(input).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_determines_the_number_of_classes() {
        let text = "<ir_version: 8, opset_import: [\"\": 21]>
            g (float[n, 7] a, int64[n] la, float[n, c, 4] b, int64[n, 4] lb, int64[n] k)
                => (float x, float y) {
                x = SoftmaxCrossEntropyLoss(a, la)
                y = NegativeLogLikelihoodLoss(b, lb)
            }";
        let mut labels = Labels::default();
        onnxc::Compiler::new(&onnxc::Options::default())
            .observe(|_, graph| labels.record(graph))
            .plan(text.into())
            .expect("the model is valid");
        let found = ["la", "lb", "k"].map(|input| labels.classes(input));
        assert_eq!(found, [Some(7), None, None]);
    }
}
