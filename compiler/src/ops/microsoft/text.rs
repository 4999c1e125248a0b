//! Embeddings of words by their characters.

use super::super::{Entry, microsoft_function};
use crate::{
    diag::{Code, Diagnostic, Result},
    ir::Reader,
};

pub const OPS: &[Entry] = &[microsoft_function("WordConvEmbedding", word_conv_embedding)];

/// Convolves the embeddings of the characters of each word, and keeps the greatest `Tanh` of each
/// filter over the windows that are in the word, or over the first window of a shorter word. A word
/// that starts with a character 0 has none, and becomes zeros.
fn word_conv_embedding(node: &mut Reader<'_>) -> Result<String> {
    let size = |i: usize, axis: usize| node.ty(i)?.as_tensor()?.shape.get(axis)?.known();
    let Some(window) = size(1, 2) else {
        let message = "the shape of the filters `W` must be known";
        return Err(Diagnostic::new(Code::UnknownShape, message));
    };
    let sizes = [
        ("embedding_size", size(1, 0)),
        ("conv_window_size", Some(window)),
        ("char_embedding_size", size(3, 1)),
    ];
    for (name, size) in sizes {
        let given = node.maybe_int(name)?;
        if let (Some(given), Some(size)) = (given, size)
            && given != size
        {
            let message = format!("`{name}` is {given}, but the shapes of the inputs give {size}");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
    }
    Ok(format!(
        "(words, filters, bias, embeddings) => (y) {{
            chars = Gather (embeddings, words)
            channel_axis = Constant <value_ints = [1]> ()
            image = Unsqueeze (chars, channel_axis)
            columns = Conv (image, filters, bias)
            last = Constant <value_ints = [3]> ()
            sums = Squeeze (columns, last)
            values = Tanh (sums)
            zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
            wide = Cast <to = 7> (words)
            is_char = Greater (wide, zero)
            counted = Cast <to = 7> (is_char)
            row_axis = Constant <value_ints = [1]> ()
            lengths = ReduceSum (counted, row_axis)
            window = Constant <value_int = {window}> ()
            at_least_window = Max (lengths, window)
            last_start = Sub (at_least_window, window)
            sizes = Shape (sums)
            axis = Constant <value_int = 2> ()
            count = Gather (sizes, axis)
            starts = Range (zero, count, one)
            is_inside = LessOrEqual (starts, last_start)
            inside = Unsqueeze (is_inside, row_axis)
            least = Constant <value_float = -1.0> ()
            candidates = Where (inside, values, least)
            window_axis = Constant <value_ints = [2]> ()
            greatest = ReduceMax <keepdims = 0> (candidates, window_axis)
            first = Constant <value_ints = [0]> ()
            is_word = Gather <axis = 1> (is_char, first)
            none = Constant <value_float = 0.0> ()
            y = Where (is_word, greatest, none)
        }}"
    ))
}
