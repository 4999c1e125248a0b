//! `StringSplit`.

use alloc::string::String;

/// Computes the greatest number of parts of a string that is split at most `most` times.
pub fn string_split_sizes(sizes: &mut [usize], x: &[String], delimiter: &[u8], most: usize) {
    let delimiter = text(delimiter);
    let count = |x: &String| x.splitn(most.saturating_add(1), delimiter).count();
    sizes.fill(x.iter().map(count).max().unwrap_or(0));
}

/// Splits each string; writes its parts, padded with empty strings, and their number.
pub fn string_split(
    x: &[String],
    delimiter: &[u8],
    y: &mut [String],
    counts: Option<&mut [i64]>,
    most: usize,
    width: usize,
) {
    let delimiter = text(delimiter);
    write(x, y, counts, width, &mut |x, each| {
        x.splitn(most.saturating_add(1), delimiter).for_each(each);
    });
}

/// [`string_split_sizes`] at runs of white space.
pub fn string_split_whitespace_sizes(sizes: &mut [usize], x: &[String], most: usize) {
    let mut widest = 0;
    for x in x {
        let mut count = 0;
        words(x, most, &mut |_| count += 1);
        widest = count.max(widest);
    }
    sizes.fill(widest);
}

/// [`string_split`] at runs of white space.
pub fn string_split_whitespace(
    x: &[String],
    y: &mut [String],
    counts: Option<&mut [i64]>,
    most: usize,
    width: usize,
) {
    write(x, y, counts, width, &mut |x, each| words(x, most, each));
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).unwrap_or_default()
}

/// Calls `each` with the words of a text: at most `most`, then the rest.
fn words<'x>(x: &'x str, most: usize, each: &mut dyn FnMut(&'x str)) {
    let mut rest = x.trim();
    for _ in 0..most {
        let Some(end) = rest.find(char::is_whitespace) else { break };
        let (word, after) = rest.split_at(end);
        each(word);
        rest = after.trim_start();
    }
    if !rest.is_empty() {
        each(rest);
    }
}

/// A visitor of the parts of a string.
type Parts<'p> = dyn FnMut(&str, &mut dyn FnMut(&str)) + 'p;

fn write(
    x: &[String],
    y: &mut [String],
    mut counts: Option<&mut [i64]>,
    width: usize,
    parts: &mut Parts<'_>,
) {
    for (i, x) in x.iter().enumerate() {
        let row = &mut y[i * width..][..width];
        row.iter_mut().for_each(String::clear);
        let mut count = 0;
        parts(x, &mut |part| {
            if let Some(into) = row.get_mut(count) {
                into.push_str(part);
            }
            count += 1;
        });
        if let Some(into) = counts.as_mut().and_then(|counts| counts.get_mut(i)) {
            *into = i64::try_from(count).unwrap_or(i64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn check(x: &[&str], delimiter: Option<&str>, most: usize, expected: &[&str], counted: &[i64]) {
        let x: vec::Vec<String> = x.iter().map(|&x| x.into()).collect();
        let (mut sizes, mut counts) = ([9], vec![9; x.len()]);
        match delimiter {
            Some(at) => string_split_sizes(&mut sizes, &x, at.as_bytes(), most),
            None => string_split_whitespace_sizes(&mut sizes, &x, most),
        }
        let mut y = vec![String::from("old"); x.len() * sizes[0]];
        match delimiter {
            Some(at) => {
                string_split(&x, at.as_bytes(), &mut y, Some(&mut counts), most, sizes[0]);
            }
            None => string_split_whitespace(&x, &mut y, Some(&mut counts), most, sizes[0]),
        }
        assert_eq!((y.as_slice(), counts.as_slice()), (vec_of(expected).as_slice(), counted));
    }

    fn vec_of(words: &[&str]) -> vec::Vec<String> {
        words.iter().map(|&word| word.into()).collect()
    }

    #[test]
    fn adjacent_delimiters_enclose_empty_parts() {
        check(
            &["a,b", ",c,,"],
            Some(","),
            usize::MAX,
            &["a", "b", "", "", "", "c", "", ""],
            &[2, 4],
        );
        check(&["a--b--c", ""], Some("--"), 1, &["a", "b--c", "", ""], &[2, 1]);
        check(&["a,b"], Some(","), 0, &["a,b"], &[1]);
        check(&[], Some(","), 0, &[], &[]);
    }

    #[test]
    fn adjacent_whitespace_is_one_delimiter() {
        check(&["  a \t b\n", ""], None, usize::MAX, &["a", "b", "", ""], &[2, 0]);
        check(&[" a  b c "], None, 1, &["a", "b c"], &[2]);
        check(&["a\u{2003}b"], None, usize::MAX, &["a", "b"], &[2]);
        check(&["  "], None, usize::MAX, &[], &[0]);
    }
}
