//! Models that threads share: equal bits in every arena, states of an arena, owners of weights.

mod network;
mod random;
mod stream;

use network::{Network, NetworkArena};
use onnxc_runtime::{
    Error,
    arena::{Trailer, Weights},
};
use random::{Random, RandomArena};
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};
use stream::{Stream, StreamArena};

static WEIGHTS: &[u8] = include_bytes!("network.weights");
const X: usize = 24;

/// Bytes that start one byte after an address that a vector of `u128` has, or at it.
struct Owner {
    bytes: Vec<u128>,
    start: usize,
    dropped: Arc<AtomicUsize>,
}

impl Owner {
    fn new(start: usize) -> Owner {
        let mut bytes = vec![0; WEIGHTS.len() / 16 + 2];
        let all: &mut [u128] = &mut bytes;
        for (i, byte) in WEIGHTS.iter().enumerate() {
            let at = start + i;
            all[at / 16] |= u128::from_le(u128::from(*byte) << (at % 16 * 8));
        }
        Owner { bytes, start, dropped: Arc::default() }
    }
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: every byte of a `u128` is one.
        let (_, bytes, _) = unsafe { self.bytes.align_to::<u8>() };
        &bytes[self.start..][..WEIGHTS.len()]
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.bytes.fill(u128::MAX);
        self.dropped.fetch_add(1, Relaxed);
    }
}

fn image(seed: usize) -> [f32; X] {
    std::array::from_fn(|i| ((i * 37 + seed * 11) % 29) as f32 / 10.0 - 1.4)
}

fn bits(scores: &[f32]) -> Vec<u32> {
    scores.iter().map(|x| x.to_bits()).collect()
}

fn main() {
    threads_share_a_model();
    owners_live_as_long_as_the_last_model();
    wrong_lengths_are_errors();
    weights_of_other_modules_are_errors();
    damaged_weights_are_detected();
    an_arena_has_a_state();
    an_arena_has_random_numbers();
}

fn threads_share_a_model() {
    fn assert_shared<T: Send + Sync>() {}
    assert_shared::<Network>();
    assert_shared::<NetworkArena>();
    let mut alone = Network::new();
    let expected: Vec<Vec<u32>> =
        (0..64).map(|seed| bits(alone.infer(&image(seed)).scores)).collect();
    let model = Network::with_weights(Arc::new(Owner::new(0))).unwrap();
    let (model, expected, start) = (Arc::new(model), Arc::new(expected), Arc::new(Barrier::new(8)));
    let threads = [0; 8].map(|_| {
        let (model, expected, start) = (model.clone(), expected.clone(), start.clone());
        thread::spawn(move || {
            let mut arena = NetworkArena::new();
            start.wait();
            for (seed, expected) in expected.iter().enumerate() {
                assert_eq!(bits(model.infer_in(&mut arena, &image(seed)).scores), *expected);
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn owners_live_as_long_as_the_last_model() {
    let expected = bits(Network::new().infer(&image(1)).scores);
    let owner = Owner::new(0);
    let dropped = owner.dropped.clone();
    let first = Network::with_weights(Arc::new(owner)).unwrap();
    let mut last = first.clone();
    drop(first);
    assert_eq!(dropped.load(Relaxed), 0);
    assert_eq!(bits(last.infer(&image(1)).scores), expected);
    drop(last);
    assert_eq!(dropped.load(Relaxed), 1);
    // The model has an aligned copy.
    let owner = Owner::new(1);
    let dropped = owner.dropped.clone();
    let mut model = Network::with_weights(Arc::new(owner)).unwrap();
    assert_eq!(dropped.load(Relaxed), 1);
    assert_eq!(bits(model.infer(&image(1)).scores), expected);
    let weights = Weights::from(WEIGHTS.to_vec());
    for weights in [weights.clone(), weights] {
        let mut model = Network::with_weights(weights).unwrap();
        assert_eq!(bits(model.infer(&image(1)).scores), expected);
    }
}

fn weights_of_other_modules_are_errors() {
    let (expected, found) = (Network::WEIGHT_LAYOUT, !Network::WEIGHT_LAYOUT);
    let mut weights = WEIGHTS[..Network::WEIGHT_BYTES].to_vec();
    weights.extend(Trailer::new(found, &weights).to_bytes());
    let error = Network::with_weights(weights).unwrap_err();
    assert_eq!(error, Error::WeightLayout { expected, found });
}

fn damaged_weights_are_detected() {
    assert_eq!(Weights::from(WEIGHTS).verify(), Ok(()));
    let mut weights = WEIGHTS.to_vec();
    weights[5] ^= 1;
    let weights = Weights::from(weights);
    assert!(matches!(weights.verify(), Err(Error::WeightChecksum { .. })));
    // Only `verify` reads the weights.
    assert!(Network::with_weights(weights).is_ok());
}

fn wrong_lengths_are_errors() {
    let expected = WEIGHTS.len();
    for found in [expected - 1, expected + 1, 0] {
        let error = Network::with_weights(vec![0; found]).unwrap_err();
        assert_eq!(error, Error::Weights { expected, found });
    }
    assert_eq!(Network::with_weights(vec![0; expected]).unwrap_err(), Error::WeightTrailer);
    let old = &WEIGHTS[..Network::WEIGHT_BYTES];
    assert_eq!(Network::with_weights(old.to_vec()).unwrap_err(), Error::WeightTrailer);
    let (mut model, mut arena) = (Network::new(), NetworkArena::default());
    let x = image(3).to_vec();
    let expected = bits(model.infer(&image(3)).scores);
    assert_eq!(bits(model.try_infer(&x).unwrap().scores), expected);
    assert_eq!(bits(model.try_infer_in(&mut arena, &x).unwrap().scores), expected);
    for (len, text) in [(23, "found 23"), (0, "found 0")] {
        let error = model.try_infer(&x[..len]).unwrap_err();
        assert_eq!(error.to_string(), format!("input `x`: expected 24 elements, {text}"));
        assert_eq!(model.try_infer_in(&mut arena, &x[..len]).unwrap_err(), error);
    }
}

fn an_arena_has_a_state() {
    let model = Stream::new();
    let (mut alone, mut other) = (Stream::new(), Stream::new());
    let (mut arena, mut another) = (StreamArena::new(), StreamArena::new());
    for (i, x) in [[0.5, 1.0], [-1.0, 0.25], [2.0, -0.5], [0.0, 0.75]].iter().enumerate() {
        let scaled = x.map(|x| 3.0 * x);
        if i == 2 {
            arena.reset();
            alone.reset();
        }
        assert_eq!(model.infer_in(&mut arena, x), alone.infer(x));
        assert_eq!(model.infer_in(&mut another, &scaled), other.infer(&scaled));
    }
    let mut copy = arena.clone();
    assert_eq!(model.infer_in(&mut copy, &[1.0, 2.0]), alone.infer(&[1.0, 2.0]));
}

fn an_arena_has_random_numbers() {
    let (model, mut alone) = (Random::new(), Random::new());
    let (mut arena, mut other) = (RandomArena::new(), RandomArena::new());
    arena.set_seed(7);
    alone.set_seed(7);
    for _ in 0..2 {
        let expected = alone.infer(&[0.5; 64], 2).unwrap();
        assert_eq!(model.infer_in(&mut arena, &[0.5; 64], 2).unwrap().normal, expected.normal);
        assert_ne!(model.infer_in(&mut other, &[0.5; 64], 2).unwrap().normal, expected.normal);
    }
}
