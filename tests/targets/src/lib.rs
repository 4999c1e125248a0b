//! Models that run on every target. `run` prints the bits of each output.
#![no_std]

use onnxc_runtime::arena::{Block, InlineArena};

/// The modules that `onnxc` generated, with an arena from the caller.
macro_rules! models {
    ($($(#[$cfg:meta])* $name:ident)*) => {$(
        $(#[$cfg])*
        #[rustfmt::skip]
        mod $name {
            include!(concat!(env!("ONNXC_MODULES"), "/", stringify!($name), ".rs"));
        }
    )*};
}

models! {
    digits_mlp
    #[cfg(feature = "large")] digits
    #[cfg(feature = "large")] digits_fast
    #[cfg(not(feature = "small"))] keywords
    #[cfg(feature = "large")] keywords_fast
    #[cfg(not(feature = "small"))] quantized
    #[cfg(feature = "large")] quantized_fast
    #[cfg(not(feature = "small"))] whole
}

/// The largest arena of the models.
const MOST: usize = largest(&[
    digits_mlp::DigitsMlp::PEAK_ARENA_BYTES,
    #[cfg(feature = "large")]
    digits_fast::DigitsFast::PEAK_ARENA_BYTES,
    #[cfg(feature = "large")]
    keywords_fast::KeywordsFast::PEAK_ARENA_BYTES,
    #[cfg(not(feature = "small"))]
    keywords::Keywords::PEAK_ARENA_BYTES,
]);

const fn largest(sizes: &[usize]) -> usize {
    match sizes {
        [] => 0,
        [first, rest @ ..] => {
            let rest = largest(rest);
            if rest > *first { rest } else { *first }
        }
    }
}

/// The arena that the models share. A smaller one does not compile.
pub type Arena = InlineArena<{ MOST.div_ceil(Block::BYTES) }>;

/// Prints text.
pub type Print<'a> = &'a mut dyn FnMut(&[u8]);

/// Prints an output: the name of the model, `f` for floats or `i` for integers, and the bits of the
/// elements.
fn say(print: Print<'_>, name: &str, kind: &str, bits: impl Iterator<Item = u32>) {
    print(name.as_bytes());
    print(b" ");
    print(kind.as_bytes());
    for bits in bits {
        hexadecimal(print, bits);
    }
    print(b"\n");
}

/// Prints a space and a number in hexadecimal.
pub fn hexadecimal(print: Print<'_>, bits: u32) {
    let mut text = [b' '; 9];
    for (place, digit) in text.iter_mut().skip(1).enumerate() {
        let value = (bits >> (28 - 4 * place) & 15) as u8;
        *digit = if value < 10 { b'0' + value } else { b'a' + value - 10 };
    }
    print(&text);
}

fn floats(print: Print<'_>, name: &str, values: &[f32]) {
    say(print, name, "f", values.iter().map(|x| x.to_bits()));
}

#[cfg(not(feature = "small"))]
fn integers<T: Copy + Into<i64>>(print: Print<'_>, name: &str, values: &[T]) {
    say(print, name, "i", values.iter().map(|&x| x.into() as u32));
}

/// Returns numbers from -1 to 1, the same on every target: multiples of 1/128 from a linear
/// congruential generator.
fn numbers<const N: usize>() -> [f32; N] {
    let mut state = 1u32;
    core::array::from_fn(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 24) as i32 - 128) as f32 / 128.0
    })
}

/// Runs the models one after another.
pub fn run(arena: &mut Arena, print: Print<'_>) {
    let image = numbers();
    floats(print, "digits_mlp", digits_mlp::DigitsMlp::new().infer_in(arena, &image));
    #[cfg(not(feature = "small"))]
    others(arena, print);
}

#[cfg(not(feature = "small"))]
fn others(arena: &mut Arena, print: Print<'_>) {
    let (sound, planes) = (numbers(), numbers());
    floats(print, "keywords", keywords::Keywords::new().infer_in(arena, &sound));
    integers(print, "quantized", quantized::Quantized::new().infer_in(arena, &planes));

    let start = core::array::from_fn(|i| 1 << (3 * i));
    let left = core::array::from_fn(|i| 17i8.wrapping_mul(i as i8));
    let right = core::array::from_fn(|i| 12 * i as u8);
    let found = whole::Whole::new().infer_in(arena, &start, &left, &right);
    integers(print, "whole.mixed", found.mixed);
    integers(print, "whole.product", found.product);
    integers(print, "whole.largest", found.largest);
    #[cfg(feature = "large")]
    large(arena, print, &sound, &planes);
}

#[cfg(feature = "large")]
fn large(arena: &mut Arena, print: Print<'_>, sound: &[f32; 240], planes: &[f32; 128]) {
    let image = numbers();
    floats(print, "digits", digits::Digits::new().infer_in(arena, &image));
    floats(print, "digits_fast", digits_fast::DigitsFast::new().infer_in(arena, &image));
    floats(print, "keywords_fast", keywords_fast::KeywordsFast::new().infer_in(arena, sound));
    let model = quantized_fast::QuantizedFast::new();
    integers(print, "quantized_fast", model.infer_in(arena, planes));
}
