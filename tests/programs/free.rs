//! Models of free sizes against the same models of fixed sizes: equal bits, no allocation in a
//! repeated run, and memory that stays at that of the largest run.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Counts the allocations, and the bytes that are allocated now and at most.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A generator of numbers (Marsaglia's xorshift).
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| (self.next() % 2001) as f32 / 500.0 - 2.0).collect()
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

macro_rules! compare {
    ($free:ident $($fixed:ident: $batch:literal $n:literal $classes:literal;)*) => {{
        const SIZES: &[[usize; 3]] = &[$([$batch, $n, $classes]),*];
        let far = [usize::MAX; 3];
        for [batch, n, classes] in [far, [1, usize::MAX - 1, 1], [usize::MAX / 2, 3, 1]] {
            assert_eq!($free::Model::arena_bytes(batch, n, classes), usize::MAX);
        }
        assert_eq!($free::Model::macs(far[0], far[1], far[2]), u64::MAX);
        let mut free = $free::Model::new();
        let mut random = Random(1);
        for draw in 0..200 {
            let case = random.next() as usize % SIZES.len();
            let [batch, n, classes] = SIZES[case];
            let (x, table) = (random.floats(batch * 2 * n), random.floats(classes * 2));
            let mut run = |x: &[f32]| {
                let x = View::new([batch, 2, n], x).unwrap();
                let found = free.infer(x, View::new([classes, 2], &table).unwrap()).unwrap();
                assert_eq!(found.scores.shape(), [batch, classes]);
                (bits(found.scores.data()), bits(found.flat.data()))
            };
            let found = run(&x);
            let mut at = 0;
            $(
                if case == at {
                    let mut fixed = $fixed::Model::new();
                    let fixed = fixed.try_infer(&x, &table).unwrap();
                    let expected = (bits(&fixed.scores[..]), bits(&fixed.flat[..]));
                    assert!(found == expected, "draw {draw}: {:?}", SIZES[case]);
                }
                at += 1;
            )*
            assert_eq!(at, SIZES.len());
            // The same sizes again.
            let x = View::new([batch, 2, n], &x).unwrap();
            let before = COUNT.load(Relaxed);
            free.infer(x, View::new([classes, 2], &table).unwrap()).unwrap();
            assert_eq!(COUNT.load(Relaxed), before, "draw {draw} allocates in a repeated run");
        }
        // The arena of the largest run, and the list of its buffers.
        let largest = SIZES.iter().map(|&[b, n, c]| $free::Model::arena_bytes(b, n, c)).max();
        let before = LIVE.load(Relaxed);
        drop(free);
        let freed = before - LIVE.load(Relaxed);
        assert!(freed <= largest.unwrap() + 1024, "{freed} bytes instead of {largest:?}");
        // No size panics, and sizes that the model cannot take are errors.
        let mut free = $free::Model::new();
        for n in [0, 1, 2, 3, 4095, 4096, 4097, 10_000] {
            for batch in [0, 1, 3] {
                let (x, table) = (vec![0.5; batch * 2 * n], [0.25; 6]);
                let x = View::new([batch, 2, n], &x).unwrap();
                let found = free.infer(x, View::new([3, 2], &table).unwrap());
                assert!(found.is_ok() || n < 2, "{batch} {n}: {found:?}");
            }
        }
    }};
}

fn main() {
    compare! { free
        fixed_0: 1 16 3; fixed_1: 2 41 5; fixed_2: 1 5000 1; fixed_3: 0 16 3; fixed_4: 5 2 4;
    }
    assert!(PEAK.load(Relaxed) < 4 << 20, "{} bytes at once", PEAK.load(Relaxed));
}
