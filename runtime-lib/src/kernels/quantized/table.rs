//! Functions of a byte by table lookup.

use crate::simd::int8::{Byte, MAX_BYTES, look_up};
use crate::threads;

/// `y = table[x]`, where the table starts with the result for the smallest byte.
pub fn table<X: Byte, Y: Byte>(x: &[X], table: &[Y], y: &mut [Y]) {
    let table = Y::bits(table).first_chunk().expect("there is an entry for each byte");
    map(X::bits(x), table, X::FLIP, Y::bits_mut(y));
}

#[inline(never)]
fn map(x: &[u8], table: &[u8; 256], first: u8, y: &mut [u8]) {
    let cost = y.len();
    threads::share(y, MAX_BYTES, cost, |part, y| {
        look_up(&x[part * MAX_BYTES..][..y.len()], table, first, y);
    });
}
