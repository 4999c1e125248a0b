//! Caches of keys or values that are quantized: `round(x / scale)` as `int8`, or as two numbers of
//! 4 bits in a byte, the first in the lower bits and each plus 8.

use super::blocks::unpack;
use crate::{
    diag::{Code, Diagnostic, Result},
    ir::Reader,
};

/// The elements of a cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    Float,
    EightBits,
    FourBits,
}

impl Cache {
    /// Reads the kinds of the caches of keys and values, whose scales are the inputs `scales`.
    pub fn read_both(node: &mut Reader<'_>, scales: [usize; 2]) -> Result<[Cache; 2]> {
        let bits = node.int("kv_cache_bit_width", 8)?;
        let [keys, values] = scales;
        Ok([
            Cache::read(node, "k_quant_type", keys, bits)?,
            Cache::read(node, "v_quant_type", values, bits)?,
        ])
    }

    fn read(node: &mut Reader<'_>, attribute: &str, scale: usize, bits: i64) -> Result<Cache> {
        let bad = |message: String| Diagnostic::new(Code::BadAttribute, message);
        let kind = node.string(attribute, "NONE")?;
        match (kind.as_str(), node.has(scale), bits) {
            ("NONE", false, _) => Ok(Cache::Float),
            ("NONE", true, _) => {
                Err(bad(format!("`{attribute}` is NONE, but input {scale} is given")))
            }
            ("PER_TENSOR" | "PER_CHANNEL", false, _) => {
                Err(bad(format!("`{attribute}` is {kind}, but input {scale} is missing")))
            }
            ("PER_TENSOR" | "PER_CHANNEL", true, 8) => Ok(Cache::EightBits),
            ("PER_TENSOR" | "PER_CHANNEL", true, 4) => Ok(Cache::FourBits),
            ("PER_TENSOR" | "PER_CHANNEL", true, _) => {
                Err(bad(format!("`kv_cache_bit_width` is {bits}, but must be 4 or 8")))
            }
            _ => Err(bad(format!("`{attribute}` is {kind:?}"))
                .note("allowed: NONE, PER_TENSOR, PER_CHANNEL")),
        }
    }

    /// Writes the nodes that quantize `from` to `to`, with the scales `{name}_scale`.
    pub fn write_encoding(self, name: &str, from: &str, to: &str) -> String {
        let bounds = |least: i32, most: i32| {
            format!(
                "{to}_float = Cast <to = 1> ({from}) {to}_ratio = Div ({to}_float, {name}_scale)
                {to}_round = Round ({to}_ratio)
                {to}_least = Constant <value_float = {least}.0> ()
                {to}_most = Constant <value_float = {most}.0> ()
                {to}_whole = Clip ({to}_round, {to}_least, {to}_most)"
            )
        };
        match self {
            Cache::Float => format!("{to} = Identity ({from})"),
            Cache::EightBits => format!("{} {to} = Cast <to = 3> ({to}_whole)", bounds(-128, 127)),
            Cache::FourBits => format!(
                "{} {to}_offset = Constant <value_float = 8.0> ()
                {to}_sum = Add ({to}_whole, {to}_offset) {to}_codes = Cast <to = 2> ({to}_sum)
                {to}_first = Constant <value_ints = [0]> ()
                {to}_second = Constant <value_ints = [1]> ()
                {to}_end = Constant <value_ints = [{end}]> ()
                {to}_axis = Constant <value_ints = [-1]> ()
                {to}_step = Constant <value_ints = [2]> ()
                {to}_low = Slice ({to}_codes, {to}_first, {to}_end, {to}_axis, {to}_step)
                {to}_high = Slice ({to}_codes, {to}_second, {to}_end, {to}_axis, {to}_step)
                {to}_bits = Constant <value = uint8 {{4}}> ()
                {to}_shifted = BitShift <direction = \"LEFT\"> ({to}_high, {to}_bits)
                {to} = BitwiseOr ({to}_low, {to}_shifted)",
                bounds(-8, 7),
                end = i64::MAX
            ),
        }
    }

    /// Writes the nodes that dequantize `from` to `to`, in the type of the queries.
    pub fn write_decoding(self, name: &str, from: &str, to: &str) -> String {
        let scale = format!(
            "{to}_wide = Mul ({to}_float, {name}_scale) {to} = CastLike ({to}_wide, query)"
        );
        match self {
            Cache::Float => format!("{to} = Identity ({from})"),
            Cache::EightBits => format!("{to}_float = Cast <to = 1> ({from}) {scale}"),
            Cache::FourBits => format!(
                "{} {to}_number = Cast <to = 1> ({to}_unpacked)
                {to}_offset = Constant <value_float = 8.0> ()
                {to}_float = Sub ({to}_number, {to}_offset) {scale}",
                unpack(4, from, &format!("{to}_unpacked"))
            ),
        }
    }
}
