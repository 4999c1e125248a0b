//! Functions of a byte by table lookup.

use crate::simd::int8::Byte;

/// `y = table[x]`, where the table starts with the result for the smallest byte.
pub fn table<X: Byte, Y: Byte>(x: &[X], table: &[Y], y: &mut [Y]) {
    let table: &[Y; 256] = table.first_chunk().expect("there is an entry for each byte");
    for (y, &x) in y.iter_mut().zip(X::bits(x)) {
        *y = table[usize::from(x ^ X::FLIP)];
    }
}
