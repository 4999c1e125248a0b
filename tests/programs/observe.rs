//! Runs that are observed: the values of every node, and the time of each.

mod cache;
mod custom_free;
mod defaults;
mod network;
mod plain;
mod sequences;
mod tiny;

use network::Network;
use onnxc_runtime::{
    observe::{Event, InstantClock, Node, Profile, Times, Trace, ValueView},
    view::View,
};
use plain::Plain;
use sequences::Sequences;
use tiny::{Tiny, TinyArena};

const FEATURES: [f32; 3] = [0.5, -1.0, 2.0];

fn main() {
    taps_see_every_value();
    taps_see_shapes_of_a_run();
    taps_see_the_tensors_of_sequences();
    profiles_count_nodes();
}

fn taps_see_every_value() {
    let (mut model, mut seen) = (Tiny::new(), Vec::new());
    let scores = *model.infer_with(&FEATURES, |node, value| {
        let data = value.data::<f32>().expect("all values are of this type").to_vec();
        seen.push((node.name(), value.name(), value.shape().to_vec(), data));
    });
    assert_eq!(scores, *Plain::new().infer(&FEATURES));
    assert_eq!(scores, *model.infer(&FEATURES));
    let names: Vec<_> = seen.iter().map(|(node, value, ..)| (*node, *value)).collect();
    assert_eq!(names, [("act", "active"), ("second", "logits"), ("out", "scores")]);
    assert_eq!(seen[0].2, [1, 4]);
    assert_eq!(seen[2].3, scores);
    let mut arena = TinyArena::new();
    let mut count = 0;
    let again = *model.infer_in_with(&mut arena, &FEATURES, |_, _: ValueView<'_>| count += 1);
    assert_eq!((again, count), (scores, 3));
}

fn taps_see_shapes_of_a_run() {
    let (x, table) = ([0.25; 2 * 2 * 5], [0.5; 3 * 2]);
    let (x, table) =
        (View::new([2, 2, 5], &x).unwrap(), View::new([3, 2], &table).unwrap());
    let (mut model, mut seen) = (Network::new(), Vec::new());
    let tap = |node: &'static Node, value: ValueView<'_>| {
        assert_eq!(value.elements().len(), value.shape().iter().product::<usize>());
        seen.push((node.operator(), value.name(), value.shape().to_vec()));
    };
    let scores = model.infer_with(x, table, tap).unwrap().scores.data().to_vec();
    assert!(seen.contains(&("Conv", "a", vec![2, 4, 5])), "{seen:?}");
    // It overwrites the value before, and keeps its own name.
    assert!(seen.contains(&("Add", "kept", vec![2, 4, 5])), "{seen:?}");
    assert!(seen.contains(&("MaxPool", "half", vec![2, 4, 2])), "{seen:?}");
    assert_eq!(model.infer(x, table).unwrap().scores.data(), scores);
}

fn taps_see_the_tensors_of_sequences() {
    let mut seen = Vec::new();
    let tap = |node: &'static Node, value: ValueView<'_>| {
        seen.push((node.operator(), value.name(), value.shape().to_vec()));
    };
    let mut model = Sequences::new();
    let outputs = model.infer_with(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], tap);
    assert_eq!(outputs.parts.len(), 2);
    let part = |rows| ("SequenceConstruct", "parts", vec![rows, 2]);
    assert_eq!(seen[..2], [part(2), part(1)]);
    let in_branch: Vec<_> = seen.iter().filter(|(operator, ..)| *operator == "Neg").collect();
    assert_eq!(in_branch.len(), 1, "{seen:?}");
}

fn profiles_count_nodes() {
    let profile = Profile::new(Tiny::NODES, [Times::NONE; Tiny::NODES.len()], InstantClock::new());
    let trace = Trace::new(Tiny::NODES, vec![Event::default(); 5], InstantClock::new());
    let (mut model, mut both) = (Tiny::new(), (profile, trace));
    for _ in 0..3 {
        model.infer_profiled(&FEATURES, &mut both);
    }
    let (profile, trace) = both;
    assert_eq!(profile.runs(), 3);
    assert!(profile.times().iter().all(|times| times.count() == 3));
    assert!(profile.to_string().contains("act (MatMul)"), "{profile}");
    assert_eq!(trace.to_string().matches("\"ph\":\"X\"").count(), 5);
}
