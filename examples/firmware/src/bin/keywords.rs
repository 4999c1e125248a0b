//! Recognizes which of twelve words was spoken, on a Cortex-M4. The input is a second of sound: 49
//! slices of ten cepstral coefficients, computed by a formula instead of from a microphone.
#![no_std]
#![no_main]

#[rustfmt::skip]
#[path = "../models/keywords_int8.rs"]
mod keywords_int8;

use cortex_m_rt::entry;
use digits_firmware::{exit, print, print_number, print_score};
use keywords_int8::KeywordsInt8;
use onnxc_runtime::arena::{Block, InlineArena};

const SLICES: usize = 49;
const COEFFICIENTS: usize = 10;

/// Returns the coefficients: each oscillates with a different period.
fn sound() -> [f32; SLICES * COEFFICIENTS] {
    core::array::from_fn(|i| {
        let (slice, coefficient) = (i / COEFFICIENTS, i % COEFFICIENTS);
        let period = coefficient + 5;
        (slice % period) as f32 / period as f32 * 2.0 - 1.0
    })
}

#[entry]
fn main() -> ! {
    // `entry` makes this static local, so it is borrowed once.
    static mut ARENA: InlineArena<{ KeywordsInt8::PEAK_ARENA_BYTES.div_ceil(Block::BYTES) }> =
        InlineArena::new();
    let model = KeywordsInt8::new();
    let scores = model.infer_in(ARENA, &sound());
    let mut best = 0;
    for (word, &score) in scores.iter().enumerate() {
        print_score(score);
        print("\n");
        if score > scores[best] {
            best = word;
        }
    }
    print("word ");
    print_number(best as u32, 1);
    print("\n");
    exit()
}
