//! `RegexFullMatch`: a DFA that reads a string byte by byte.

use alloc::string::String;

/// Returns whether the DFA accepts each string. `classes` maps bytes to equivalence classes. The
/// table has a row per state with the next state for each class, and a last column for the end of
/// the string. State 0 rejects, state 1 is the start; any other state after the end accepts.
pub fn regex_full_match(x: &[String], classes: &[u8], table: &[u16], y: &mut [bool], width: usize) {
    let next = |state: u16, column: usize| table[usize::from(state) * width + column];
    for (x, y) in x.iter().zip(y) {
        let mut state = 1;
        for byte in x.bytes() {
            state = next(state, usize::from(classes[usize::from(byte)]));
            if state == 0 {
                break;
            }
        }
        *y = state != 0 && next(state, width - 1) != 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_automaton_reads_all_of_a_string() {
        // a b*
        let mut classes = [2; 256];
        (classes[usize::from(b'a')], classes[usize::from(b'b')]) = (0, 1);
        let table = [0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 1];
        let x = ["a", "abbb", "", "b", "aba", "ab\u{e9}"].map(String::from);
        let mut y = [true; 6];
        regex_full_match(&x, &classes, &table, &mut y, 4);
        assert_eq!(y, [true, true, false, false, false, false]);
    }
}
