//! The stages of a mixed-radix transform of several lines, in the self-sorting form of Stockham: no
//! pass reorders the results.

use crate::simd::{Simd, WithSimd, dispatch};
use crate::{Float, Number};
use core::mem::swap;

/// Roots of unity, as real and imaginary parts.
#[derive(Clone, Copy)]
pub(super) struct Roots<'a, W> {
    pub re: &'a [W],
    pub im: &'a [W],
}

/// Complex elements of several lines: the first element of each line, then the second of each, and
/// so on.
pub(super) struct Pair<'a, W> {
    pub re: &'a mut [W],
    pub im: &'a mut [W],
}

/// The location of a finished transform.
pub(super) struct Done<'a, W> {
    /// The result.
    pub pair: Pair<'a, W>,
    /// The other pair, for reuse.
    pub other: Pair<'a, W>,
    /// Whether the result is in the second pair.
    pub swapped: bool,
}

/// Transforms `lanes` lines of `x`; `y` has the same length.
pub(super) fn fft<'a, W: Float<Wide = W>>(
    roots: Roots<'_, W>,
    lanes: usize,
    mut x: Pair<'a, W>,
    mut y: Pair<'a, W>,
) -> Done<'a, W> {
    let swapped = match (W::as_f32(roots.re), W::as_f32(roots.im), floats(&mut x), floats(&mut y)) {
        (Some(re), Some(im), Some(x), Some(y)) => {
            let roots = Roots { re, im };
            dispatch(Vectorized { roots, lanes, x, y })
        }
        _ => stages(One::<W>::new(), roots, lanes, &mut x, &mut y),
    };
    if swapped {
        swap(&mut x, &mut y);
    }
    Done { pair: x, other: y, swapped }
}

/// Returns the pair as `f32`, if it is.
fn floats<'a, W: Float>(pair: &'a mut Pair<'_, W>) -> Option<Pair<'a, f32>> {
    Some(Pair { re: W::as_f32_mut(pair.re)?, im: W::as_f32_mut(pair.im)? })
}

struct Vectorized<'a> {
    roots: Roots<'a, f32>,
    lanes: usize,
    x: Pair<'a, f32>,
    y: Pair<'a, f32>,
}

impl WithSimd for Vectorized<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) -> bool {
        stages(Many(s), self.roots, self.lanes, &mut self.x, &mut self.y)
    }
}

/// The number of elements that are computed together.
trait Width: Copy {
    type Number: Float<Wide = Self::Number>;
    type Value: Copy;
    const LEN: usize;

    fn load(self, from: &[Self::Number]) -> Self::Value;
    fn store(self, x: Self::Value, to: &mut [Self::Number]);
    fn splat(self, x: Self::Number) -> Self::Value;
    fn add(self, a: Self::Value, b: Self::Value) -> Self::Value;
    fn sub(self, a: Self::Value, b: Self::Value) -> Self::Value;
    fn mul(self, a: Self::Value, b: Self::Value) -> Self::Value;
}

/// One element.
#[derive(Clone, Copy)]
struct One<W>(core::marker::PhantomData<W>);

impl<W> One<W> {
    fn new() -> One<W> {
        One(core::marker::PhantomData)
    }
}

impl<W: Float<Wide = W>> Width for One<W> {
    type Number = W;
    type Value = W;
    const LEN: usize = 1;

    #[inline(always)]
    fn load(self, from: &[W]) -> W {
        from[0]
    }
    #[inline(always)]
    fn store(self, x: W, to: &mut [W]) {
        to[0] = x;
    }
    #[inline(always)]
    fn splat(self, x: W) -> W {
        x
    }
    #[inline(always)]
    fn add(self, a: W, b: W) -> W {
        a.add(b)
    }
    #[inline(always)]
    fn sub(self, a: W, b: W) -> W {
        a.sub(b)
    }
    #[inline(always)]
    fn mul(self, a: W, b: W) -> W {
        a.mul(b)
    }
}

/// A SIMD vector of elements.
#[derive(Clone, Copy)]
struct Many<S>(S);

impl<S: Simd> Width for Many<S> {
    type Number = f32;
    type Value = S::F32;
    const LEN: usize = S::LANES;

    #[inline(always)]
    fn load(self, from: &[f32]) -> S::F32 {
        self.0.load(from)
    }
    #[inline(always)]
    fn store(self, x: S::F32, to: &mut [f32]) {
        self.0.store(x, to);
    }
    #[inline(always)]
    fn splat(self, x: f32) -> S::F32 {
        self.0.splat(x)
    }
    #[inline(always)]
    fn add(self, a: S::F32, b: S::F32) -> S::F32 {
        self.0.add(a, b)
    }
    #[inline(always)]
    fn sub(self, a: S::F32, b: S::F32) -> S::F32 {
        self.0.sub(a, b)
    }
    #[inline(always)]
    fn mul(self, a: S::F32, b: S::F32) -> S::F32 {
        self.0.mul(a, b)
    }
}

/// A complex element, or a vector of complex elements.
type Value<K> = (<K as Width>::Value, <K as Width>::Value);

/// `a · b`.
#[inline(always)]
fn times<K: Width>(k: K, a: Value<K>, b: Value<K>) -> Value<K> {
    let re = k.sub(k.mul(a.0, b.0), k.mul(a.1, b.1));
    (re, k.add(k.mul(a.0, b.1), k.mul(a.1, b.0)))
}

#[inline(always)]
fn plus<K: Width>(k: K, a: Value<K>, b: Value<K>) -> Value<K> {
    (k.add(a.0, b.0), k.add(a.1, b.1))
}

#[inline(always)]
fn minus<K: Width>(k: K, a: Value<K>, b: Value<K>) -> Value<K> {
    (k.sub(a.0, b.0), k.sub(a.1, b.1))
}

/// `a · f` for a real `f`.
#[inline(always)]
fn scaled<K: Width>(k: K, a: Value<K>, f: f64) -> Value<K> {
    let f = k.splat(K::Number::from_f64(f));
    (k.mul(a.0, f), k.mul(a.1, f))
}

/// Returns `a - ib` and `a + ib`.
#[inline(always)]
fn turned<K: Width>(k: K, a: Value<K>, b: Value<K>) -> [Value<K>; 2] {
    [(k.add(a.0, b.1), k.sub(a.1, b.0)), (k.sub(a.0, b.1), k.add(a.1, b.0))]
}

/// The transform of `R` elements.
trait Radix<const R: usize> {
    fn apply<K: Width>(k: K, x: [Value<K>; R]) -> [Value<K>; R];
}

struct Two;
struct Three;
struct Four;
struct Five;

impl Radix<2> for Two {
    #[inline(always)]
    fn apply<K: Width>(k: K, [a, b]: [Value<K>; 2]) -> [Value<K>; 2] {
        [plus(k, a, b), minus(k, a, b)]
    }
}

impl Radix<3> for Three {
    #[inline(always)]
    fn apply<K: Width>(k: K, [a, b, c]: [Value<K>; 3]) -> [Value<K>; 3] {
        /// `sin(2π/3)`.
        const S: f64 = 0.866_025_403_784_438_6;
        let sum = plus(k, b, c);
        let middle = minus(k, a, scaled(k, sum, 0.5));
        let [y, z] = turned(k, middle, scaled(k, minus(k, b, c), S));
        [plus(k, a, sum), y, z]
    }
}

impl Radix<4> for Four {
    #[inline(always)]
    fn apply<K: Width>(k: K, [a, b, c, d]: [Value<K>; 4]) -> [Value<K>; 4] {
        let (even, odd) = (plus(k, a, c), plus(k, b, d));
        let [y, z] = turned(k, minus(k, a, c), minus(k, b, d));
        [plus(k, even, odd), y, minus(k, even, odd), z]
    }
}

impl Radix<5> for Five {
    #[inline(always)]
    fn apply<K: Width>(k: K, [a, b, c, d, e]: [Value<K>; 5]) -> [Value<K>; 5] {
        // Cosines and sines of `2π/5` and `4π/5`.
        const C1: f64 = 0.309_016_994_374_947_45;
        const C2: f64 = -0.809_016_994_374_947_5;
        const S1: f64 = 0.951_056_516_295_153_5;
        const S2: f64 = 0.587_785_252_292_473_1;
        let (outer, inner) = (plus(k, b, e), plus(k, c, d));
        let (outer_gap, inner_gap) = (minus(k, b, e), minus(k, c, d));
        let real = |x, y| plus(k, a, plus(k, scaled(k, outer, x), scaled(k, inner, y)));
        let turn = |x, y| plus(k, scaled(k, outer_gap, x), scaled(k, inner_gap, y));
        let [first, last] = turned(k, real(C1, C2), turn(S1, S2));
        let [second, third] = turned(k, real(C2, C1), turn(S2, -S1));
        [plus(k, a, plus(k, outer, inner)), first, second, third, last]
    }
}

/// One stage: it reads rows of `row` elements, `gap` rows apart.
#[derive(Clone, Copy)]
struct Stage<'a, W> {
    roots: Roots<'a, W>,
    /// The index step among the roots.
    step: usize,
    /// The number of transforms of rows.
    count: usize,
    /// The elements of a row.
    row: usize,
}

/// Runs all stages; returns whether the result is in `y`.
#[inline(always)]
fn stages<'a, K: Width>(
    k: K,
    roots: Roots<'_, K::Number>,
    lanes: usize,
    x: &mut Pair<'a, K::Number>,
    y: &mut Pair<'a, K::Number>,
) -> bool {
    let n = roots.re.len();
    let (mut left, mut done, mut swapped) = (n, 1, false);
    while left > 1 {
        let factor = factor(left);
        let stage = Stage { roots, step: done, count: left / factor, row: done * lanes };
        match factor {
            2 => pass::<K, 2, Two>(k, stage, x, y),
            3 => pass::<K, 3, Three>(k, stage, x, y),
            4 => pass::<K, 4, Four>(k, stage, x, y),
            5 => pass::<K, 5, Five>(k, stage, x, y),
            _ => pass_of(k, factor, stage, x, y),
        }
        swap(x, y);
        swapped = !swapped;
        (left, done) = (left / factor, done * factor);
    }
    // The caller refers to the original locations.
    if swapped {
        swap(x, y);
    }
    swapped
}

/// Returns the next factor of the length: 4 as long as it divides.
fn factor(n: usize) -> usize {
    if n.is_multiple_of(4) {
        return 4;
    }
    (2..).find(|&factor| n.is_multiple_of(factor)).unwrap_or(n)
}

#[inline(always)]
fn pass<K: Width, const R: usize, F: Radix<R>>(
    k: K,
    stage: Stage<'_, K::Number>,
    x: &Pair<'_, K::Number>,
    y: &mut Pair<'_, K::Number>,
) {
    let whole = stage.row - stage.row % K::LEN;
    for p in 0..stage.count {
        columns::<K, R, F>(k, stage, p, 0..whole, x, y);
        columns::<_, R, F>(One::new(), stage, p, whole..stage.row, x, y);
    }
}

/// Computes some columns of the rows of transform `p`.
#[inline(always)]
fn columns<K: Width, const R: usize, F: Radix<R>>(
    k: K,
    stage: Stage<'_, K::Number>,
    p: usize,
    range: core::ops::Range<usize>,
    x: &Pair<'_, K::Number>,
    y: &mut Pair<'_, K::Number>,
) {
    let Stage { roots, step, count, row } = stage;
    let zero = k.splat(K::Number::ZERO);
    let mut turns = [(zero, zero); R];
    for (j, turn) in turns.iter_mut().enumerate() {
        let at = p * j * step;
        *turn = (k.splat(roots.re[at]), k.splat(roots.im[at]));
    }
    for q in range.step_by(K::LEN) {
        let mut values = [(zero, zero); R];
        for (j, value) in values.iter_mut().enumerate() {
            let at = (p + j * count) * row + q;
            *value = (k.load(&x.re[at..]), k.load(&x.im[at..]));
        }
        let values = F::apply(k, values);
        for (j, value) in values.into_iter().enumerate() {
            let at = (p * R + j) * row + q;
            let value = if j == 0 { value } else { times(k, value, turns[j]) };
            k.store(value.0, &mut y.re[at..]);
            k.store(value.1, &mut y.im[at..]);
        }
    }
}

/// [`pass`] for any factor, by the definition of the transform.
#[inline(always)]
fn pass_of<K: Width>(
    k: K,
    factor: usize,
    stage: Stage<'_, K::Number>,
    x: &Pair<'_, K::Number>,
    y: &mut Pair<'_, K::Number>,
) {
    let whole = stage.row - stage.row % K::LEN;
    for p in 0..stage.count {
        columns_of(k, factor, stage, p, 0..whole, x, y);
        columns_of(One::new(), factor, stage, p, whole..stage.row, x, y);
    }
}

#[inline(always)]
fn columns_of<K: Width>(
    k: K,
    factor: usize,
    stage: Stage<'_, K::Number>,
    p: usize,
    range: core::ops::Range<usize>,
    x: &Pair<'_, K::Number>,
    y: &mut Pair<'_, K::Number>,
) {
    let Stage { roots, step, count, row } = stage;
    let turn = |at: usize| (k.splat(roots.re[at]), k.splat(roots.im[at]));
    for to in 0..factor {
        let last = turn(p * to * step);
        for q in range.clone().step_by(K::LEN) {
            let mut sum = (k.splat(K::Number::ZERO), k.splat(K::Number::ZERO));
            for from in 0..factor {
                let at = (p + from * count) * row + q;
                let value = (k.load(&x.re[at..]), k.load(&x.im[at..]));
                // A step of this small transform is `n / factor` roots.
                let angle = from * to % factor * (roots.re.len() / factor);
                sum = plus(k, sum, times(k, value, turn(angle)));
            }
            let at = (p * factor + to) * row + q;
            let value = times(k, sum, last);
            k.store(value.0, &mut y.re[at..]);
            k.store(value.1, &mut y.im[at..]);
        }
    }
}
